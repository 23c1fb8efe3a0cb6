"""Methods that change a promise in the open."""

from workbench.errors import InvalidFileError
from workbench.experiments.amendments import DraftAmendment
from workbench.experiments.progress import Progress, silent
from workbench.experiments.withdrawals import DraftWithdrawal
from workbench.lab.opened import OpenedLab
from workbench.registry.entries import Deviation, ReasonClass
from workbench.registry.log import Entry


class Changing(OpenedLab):
    """Amend a registration, or give it up."""

    def draft_amendment(self, number: str) -> DraftAmendment:
        """Return what an amendment by the files as they are would change, and what it would mean.

        Raises:
            NotRegisteredError: there is nothing to amend.
            ConflictError: nothing differs, it is withdrawn or decided, or a change is to what ran.
            InvalidFileError: the files have faults; carries all of them.
        """
        from workbench.experiments.amendments import draft_amendment

        return draft_amendment(self.layout, number, source=self.source())

    def amend(
        self,
        shown: DraftAmendment,
        *,
        reason_class: ReasonClass,
        reason: str,
        progress: Progress = silent,
    ) -> Entry:
        """Append the amendment that was shown; a changed corpus is built first.

        Raises:
            InvalidFileError: there is no reason, or the files have faults by now.
            ConflictError: the files or the log changed since it was shown.
        """
        from workbench.experiments.amendments import amend, require_reason

        require_reason(reason, "an amendment")
        data = None
        if shown.changes_corpus:
            recipe = shown.checked.recipe
            if recipe is None:
                raise InvalidFileError(f"{shown.experiment} has no recipe")
            data = self._data(recipe.corpus, progress)
        with self.ledger() as ledger:
            return amend(
                self.layout,
                shown,
                ledger=ledger,
                reason_class=reason_class,
                reason=reason,
                data=data,
            )

    def deviations(self, number: str, *, at: str) -> list[str]:
        """Return what was found to differ at one place, like ``verdict``, a sentence each."""
        subject = self.layout.experiment(number).name
        found = [entry.body for entry in self.source().entries(kind="deviation", subject=subject)]
        here = [body for body in found if isinstance(body, Deviation) and body.at == at]
        return [f"{body.what}: {body.effect}" for body in here]

    def draft_withdrawal(self, number: str, *, reason: str) -> DraftWithdrawal:
        """Return what giving an experiment up would say, and what was known; writes nothing.

        Raises:
            NotRegisteredError: there is nothing to withdraw.
            ConflictError: it has its verdict, or was withdrawn before.
            InvalidFileError: there is no reason.
        """
        from workbench.experiments.withdrawals import draft_withdrawal

        return draft_withdrawal(self.layout, number, source=self.source(), reason=reason)

    def withdraw(self, number: str, *, reason: str) -> Entry:
        """Give a registered experiment up; everything of it stays readable.

        Raises:
            NotRegisteredError: there is nothing to withdraw.
            ConflictError: it has its verdict, was withdrawn before, or is at work.
        """
        from workbench.experiments.withdrawals import withdraw

        with self.ledger() as ledger:
            return withdraw(self.layout, number, ledger=ledger, reason=reason)
