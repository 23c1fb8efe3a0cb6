"""Approve what was registered, and refuse to run what was not approved."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import ConflictError, IntegrityError, NotRegisteredError
from workbench.experiments.registered import refuse_withdrawn, registration_entry
from workbench.registry.amended import course_of
from workbench.registry.approvals import (
    Promise,
    approval_note,
    approval_notes,
    promises,
    reviewer_of,
    rule_of,
)
from workbench.registry.entries import (
    Amendment,
    Approval,
    ApprovalRule,
    Document,
    Registration,
)
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource
from workbench.registry.notes import SigningKey


@dataclass(frozen=True, kw_only=True)
class Given:
    """A signed approval, recorded or not yet."""

    reviewer: str
    promise: Entry
    """The registration or amendment that is approved."""
    note: str
    """The signed note, verbatim."""


def subject_in(source: LogSource, number: str) -> str:
    """Return the experiment ``NNNN``, ``N`` or ``NNNN-slug`` that a log registered.

    Raises:
        NotRegisteredError: it registered none of that number.
    """
    wanted = number.zfill(4) if number.isdigit() else number
    for entry in source.entries(kind=Registration.kind):
        if wanted in (entry.subject, entry.subject[:4]):
            return entry.subject
    raise NotRegisteredError(
        f"log {source.origin!r} has no registration of experiment {number!r}",
        remedy="ask the lab to register it and to publish",
    )


def registered_documents(source: LogSource, experiment: str) -> tuple[Document, ...]:
    """Return proposal, recipe and full-scale file as they are in force: what an approval is of.

    Raises:
        NotRegisteredError: the experiment is not registered.
        ConflictError: they cannot be read here.
    """
    registration = _required_registration(source, experiment)
    made = [e for e in source.entries(subject=experiment) if e.kind == Amendment.kind]
    newest = made[-1] if made else registration
    _refuse_hidden(newest)
    body = newest.body
    if not isinstance(body, Registration | Amendment):
        return ()
    return (body.proposal, body.recipe, body.full)


def approvals_of(source: LogSource, experiment: str) -> tuple[Promise, ...]:
    """Return what an experiment promised and who approved it; empty where none is required.

    Raises:
        NotRegisteredError: it is not registered.
        ConflictError: its body is hidden, so that its rule cannot be read here.
    """
    _refuse_hidden(_required_registration(source, experiment))
    return promises(list(source.entries(subject=experiment)))


def require_approved(source: LogSource, experiment: str) -> None:
    """Do nothing if enough reviewers approved the registration and each amendment.

    Raises:
        NotRegisteredError: some did not; says who, and with what command they approve.
    """
    open_promises = [p for p in approvals_of(source, experiment) if not p.is_approved]
    if not open_promises:
        return
    told = "; ".join(
        f"the {p.entry.kind} (entry {p.entry.sequence}) has {len(p.approved_by)} of {p.required} "
        f"approvals, none by {_any_of(p.missing)}"
        for p in open_promises
    )
    number = experiment[:4]
    raise NotRegisteredError(
        f"{experiment} waits for its reviewers: {told}",
        remedy=f"a reviewer runs: workbench approve {number} --key FILE, or explore with "
        "--exploratory",
    )


def unapproved_by(source: LogSource, experiment: str, key: SigningKey) -> tuple[Given, ...]:
    """Return this reviewer's signed approval of each promise that they did not approve yet.

    Raises:
        NotRegisteredError: the experiment is not registered.
        ConflictError: it needs no approval, was withdrawn, cannot be read here, or the key is no
            reviewer's.
    """
    registration = _required_registration(source, experiment)
    rule = _required_rule(registration)
    refuse_withdrawn(course_of(source, experiment), experiment)
    reviewer = next((n for n, vkey in rule.reviewers.items() if vkey == str(key.verifier)), None)
    if reviewer is None:
        raise ConflictError(
            f"the key {key.verifier} is not a reviewer's of {experiment}: its registration names "
            f"{', '.join(rule.reviewers)}",
            remedy="use the key whose public half was in workbench.toml at the registration",
        )
    waiting = [p.entry for p in approvals_of(source, experiment) if reviewer in p.missing]
    for entry in waiting:
        _refuse_hidden(entry)
    return tuple(
        Given(
            reviewer=reviewer,
            promise=entry,
            note=approval_note(key, source.origin, entry.leaf),
        )
        for entry in waiting
    )


def given_in(source: LogSource, experiment: str, text: str) -> tuple[Given, ...]:
    """Return the approvals of a file that a reviewer made elsewhere, verified.

    Those that the log has already, or the file twice, are left out.

    Raises:
        NotRegisteredError: the experiment is not registered.
        InvalidFileError: the file holds no approval.
        ConflictError: the experiment needs none, or was withdrawn.
        IntegrityError: an approval is of something else, or nobody of the reviewers signed it.
    """
    rule = _required_rule(_required_registration(source, experiment))
    refuse_withdrawn(course_of(source, experiment), experiment)
    made = {promise.entry.leaf: promise for promise in approvals_of(source, experiment)}
    found: dict[tuple[str, str], Given] = {}
    for note, leaf in approval_notes(text):
        promise = made.get(leaf)
        if promise is None:
            known = ", ".join(f"{leaf[:16]}…" for leaf in made)
            raise IntegrityError(
                f"an approval is of leaf {leaf[:16]}…, which is nothing that {experiment} "
                f"promised ({known})",
                remedy="ask the reviewer to approve what is registered now",
            )
        reviewer = reviewer_of(note, rule, source.origin, leaf)
        if reviewer in promise.missing:
            given = Given(reviewer=reviewer, promise=promise.entry, note=note)
            found.setdefault((reviewer, leaf), given)
    return tuple(found.values())


def record(ledger: Ledger, given: Sequence[Given]) -> list[Entry]:
    """Append the approvals to the log."""
    return [
        ledger.append(
            Approval(reviewer=approval.reviewer, note=approval.note),
            subject=approval.promise.subject,
            refs=[approval.promise.leaf],
        )
        for approval in given
    ]


def _required_registration(source: LogSource, experiment: str) -> Entry:
    entry = registration_entry(source, experiment)
    if entry is None:
        raise NotRegisteredError(
            f"experiment {experiment} is not registered, so there is nothing to approve",
            remedy=f"workbench register {experiment[:4]}",
        )
    return entry


def _required_rule(registration: Entry) -> ApprovalRule:
    _refuse_hidden(registration)
    rule = rule_of(registration)
    if rule is None:
        raise ConflictError(
            f"{registration.subject} was registered without required approvals",
            remedy="set approvals_required and [reviewers] in workbench.toml before registering",
        )
    return rule


def _refuse_hidden(entry: Entry) -> None:
    if not isinstance(entry.body, Registration | Amendment):
        raise ConflictError(
            f"the body of entry {entry.sequence} ({entry.kind}) is withheld or redacted, and "
            "nobody approves what they cannot read",
            remedy="work where the lab's store is, or wait until the embargo ends",
        )


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
