"""Methods that file and record."""

from collections.abc import Sequence
from pathlib import Path

from workbench.errors import (
    InvalidFileError,
)
from workbench.experiments.checking import Checked
from workbench.experiments.filing import Receipt
from workbench.experiments.progress import Progress, silent
from workbench.lab.opened import OpenedLab
from workbench.registry.entries import Decision, Note
from workbench.registry.log import Entry


class Filing(OpenedLab):
    """Propose, check, register, and write into the logbook."""

    def propose(self, title: str, *, owner: str = "", recipe: str | None = None) -> Path:
        """File a proposal from the scaffold and return its folder."""
        from workbench.experiments.filing import propose

        return propose(self.layout, title, owner=owner or self.settings.actor, recipe=recipe)

    def check(self, number: str) -> Checked:
        """Return the checked files of an experiment with every fault and warning."""
        from workbench.experiments.checking import check

        source = self.source() if self._has_store() else None
        return check(self.layout, number, source=source)

    def register(
        self,
        number: str,
        *,
        embargo_until: str = "",
        embargo_reason: str = "",
        progress: Progress = silent,
    ) -> Receipt:
        """Freeze an experiment in the ledger and derive its seeds.

        Args:
            number: ``NNNN``, ``N`` or ``NNNN-slug``.
            embargo_until: Day until which its content is not published; empty for what the
                proposal says.
            embargo_reason: Why; published at once.
            progress: Told how far the corpus is built.

        Raises:
            InvalidFileError: the files have faults, of which it carries all, or the embargo has.
            ConflictError: registered already, outside git or with uncommitted changes.
        """
        from workbench.experiments.filing import register

        checked = self.check(number)
        checked.require()
        if checked.recipe is None:
            raise InvalidFileError(f"{checked.experiment} has no recipe")
        state = self._data(checked.recipe.corpus, progress)
        with self.ledger() as ledger:
            return register(
                self.layout,
                number,
                ledger=ledger,
                corpus=state,
                embargo_until=embargo_until,
                embargo_reason=embargo_reason,
            )

    def note(self, text: str, *, experiment: str = "") -> Entry:
        """Write a remark into the logbook of an experiment, or of the lab."""
        subject = self.layout.experiment(experiment).name if experiment else "lab"
        if not text.strip():
            raise InvalidFileError("an empty note says nothing", remedy='workbench note "a remark"')
        with self.ledger() as ledger:
            return ledger.append(Note(text=text), subject=subject)

    def decide(
        self,
        number: str,
        *,
        question: str,
        options: Sequence[str],
        chosen: str,
        evidence: Sequence[str],
        would_reverse: str,
        owner: str = "",
        dissent: str = "",
        rollback: str = "",
    ) -> Entry:
        """Record a person's decision.

        Raises:
            InvalidFileError: the choice is not one of the options considered.
        """
        if chosen not in options:
            raise InvalidFileError(
                f"chosen {chosen!r} is not one of the options {list(options)}",
                remedy="name every option considered with --option, the chosen one included",
            )
        body = Decision(
            question=question,
            options=list(options),
            chosen=chosen,
            basis="judgement",
            evidence=list(evidence),
            dissent=dissent,
            owner=owner or self.settings.actor,
            reversible=bool(rollback),
            rollback=rollback,
            would_reverse=would_reverse,
        )
        with self.ledger() as ledger:
            return ledger.append(body, subject=self.layout.experiment(number).name)
