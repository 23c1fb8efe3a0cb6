"""Methods that file and record."""

from collections.abc import Sequence
from pathlib import Path

from workbench.errors import (
    InvalidFileError,
    NotFoundError,
)
from workbench.experiments.approvals import Given
from workbench.experiments.checking import Checked
from workbench.experiments.filing import Receipt
from workbench.experiments.power_report import PowerReport
from workbench.experiments.progress import Progress, silent
from workbench.lab.opened import OpenedLab
from workbench.registry.approvals import Promise, approval_rule
from workbench.registry.entries import ApprovalRule, Decision, Document, Note
from workbench.registry.log import Entry
from workbench.reports.verification import VerifiableLog


class Filing(OpenedLab):
    """Propose, check, register, and write into the logbook."""

    def propose(
        self, title: str, *, owner: str = "", recipe: str | None = None, called: str = ""
    ) -> Path:
        """File a proposal from the scaffold and return its folder."""
        from workbench.experiments.proposing import propose
        from workbench.experiments.schemas import write_editor_schemas

        owner = owner or self.settings.actor
        folder = propose(self.layout, title, owner=owner, recipe=recipe, called=called)
        write_editor_schemas(self.layout)
        return folder

    def check(self, number: str) -> Checked:
        """Return the checked files of an experiment with every fault and warning.

        Raises:
            InvalidFileError: the lab's settings ask for approvals that nobody can give.
        """
        from workbench.experiments.checking import check

        self._approval_rule()
        today = self.clock().date()
        return check(self.layout, number, source=self._any_source(), today=today)

    def power(self, number: str, *, sd: float | None = None) -> PowerReport:
        """Return what an experiment's rule can show with more or fewer seeds.

        It is the rule in force where the experiment is registered, else that of its files.

        Args:
            number: ``NNNN``, ``N`` or ``NNNN-slug``.
            sd: Spread between seeds to compute with, for every metric; None for what is stated,
                registered or measured.

        Raises:
            NotFoundError: there is no such experiment, or no noise is known.
            InvalidFileError: the rule is not complete; carries its faults.
        """
        from workbench.experiments.power_report import power_report

        return power_report(self.layout, number, source=self._any_source(), sd=sd)

    def lines_after_check(self, number: str) -> list[str]:
        """Return what comes next of an experiment without faults, a line each.

        What was registered is changed by an amendment only, and a registration names a commit.
        """
        from workbench.experiments.filing import uncommitted
        from workbench.experiments.registered import registration_entry

        experiment = self.layout.experiment(number).name
        source = self._any_source()
        registration = registration_entry(source, experiment) if source else None
        if registration is not None:
            return [
                f"{experiment}: no faults. It is registered (entry {registration.sequence}):",
                "these files change nothing of it.",
                f"Next: workbench status, or workbench amend {number} --dry-run",
            ]
        next_command = f"workbench register {number}"
        if uncommitted(self.layout):
            commit = f'git add -A && git commit -m "File {experiment[:4]}"'
            return [f"{experiment}: no faults. Next: {commit}", f"then {next_command}"]
        return [f"{experiment}: no faults. Next: {next_command}"]

    def write_schemas(self) -> list[Path]:
        """Write the schemas that editors read, and return the files that changed."""
        from workbench.experiments.schemas import write_editor_schemas

        return write_editor_schemas(self.layout)

    def _any_source(self) -> VerifiableLog | None:
        try:
            return self.source()
        except NotFoundError:
            return None

    def _approval_rule(self) -> ApprovalRule | None:
        return approval_rule(self.settings.approvals_required, self.settings.reviewers)

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
        from workbench.experiments.filing import refuse_registering, register

        checked = self.check(number)
        checked.require()
        # A corpus takes seconds or hours: what is refused anyhow is refused before.
        refuse_registering(self.layout, checked.experiment, self.source())
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
                approvals=self._approval_rule(),
            )

    def approvals(self, number: str) -> tuple[Promise, ...]:
        """Return what an experiment promised and who approved it; empty where none is required.

        Raises:
            NotRegisteredError: it is not registered.
        """
        from workbench.experiments.approvals import approvals_of

        return approvals_of(self.source(), self.layout.experiment(number).name)

    def registered_documents(self, number: str) -> tuple[Document, ...]:
        """Return the files of an experiment as they were registered or last amended.

        Raises:
            NotRegisteredError: it is not registered.
            ConflictError: they cannot be read here.
        """
        from workbench.experiments.approvals import registered_documents

        return registered_documents(self.source(), self.layout.experiment(number).name)

    def sign_approvals(self, number: str, key: Path) -> tuple[Given, ...]:
        """Return a reviewer's signed approvals of what they did not approve yet; records nothing.

        Raises:
            NotRegisteredError: the experiment is not registered.
            ConflictError: it needs no approval, or the key is no reviewer's.
        """
        from workbench.experiments.approvals import unapproved_by
        from workbench.registry.personal_keys import load_reviewer_key

        experiment = self.layout.experiment(number).name
        return unapproved_by(self.source(), experiment, load_reviewer_key(key))

    def read_approvals(self, number: str, notes: str) -> tuple[Given, ...]:
        """Return the approvals of a file that a reviewer signed elsewhere, verified, unrecorded.

        Raises:
            InvalidFileError: the text holds no approval.
            IntegrityError: one is of something else, or no reviewer signed it.
        """
        from workbench.experiments.approvals import given_in

        return given_in(self.source(), self.layout.experiment(number).name, notes)

    def approve(self, approvals: Sequence[Given]) -> list[Entry]:
        """Record signed approvals.

        Raises:
            NotFoundError: this machine has no store or keys of the lab.
        """
        from workbench.experiments.approvals import record

        with self.ledger() as ledger:
            return record(ledger, approvals)

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
