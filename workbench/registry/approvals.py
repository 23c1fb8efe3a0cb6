"""Approvals: named reviewers sign what was registered before anything confirmatory runs.

The rule (how many of whom) is frozen in the registration, so that a later change of the lab's
settings changes nothing. An approval is a C2SP signed note over one leaf hash: that of the
registration or of one of its amendments, so that it can be made anywhere and recorded later.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import IntegrityError, InvalidFileError
from workbench.registry.entries import (
    Amendment,
    Approval,
    ApprovalRule,
    Registration,
)
from workbench.registry.log import Entry, read_envelope
from workbench.registry.notes import SigningKey, VerifierKey, sign_note, split_note, verify_note

_HEADING = "workbench approval v1\n"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_LEAF = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A registration or an amendment, and who approved it."""

    entry: Entry
    approved_by: tuple[str, ...]
    """Short names, in the order of the approvals."""
    missing: tuple[str, ...]
    """Reviewers of the rule who did not approve it."""
    required: int

    @property
    def is_approved(self) -> bool:
        """Whether enough reviewers approved it."""
        return len(self.approved_by) >= self.required


def approval_rule(required: int, reviewers: Mapping[str, str]) -> ApprovalRule | None:
    """Return the rule that a lab's settings state; None where no approval is required.

    Raises:
        InvalidFileError: a name or a key cannot be used, or more approvals are required than there
            are reviewers with keys of their own.
    """
    keys: dict[str, VerifierKey] = {}
    for name, vkey in reviewers.items():
        if not _NAME.match(name):
            raise InvalidFileError(
                f"reviewer {name!r} in workbench.toml is not a short name in snake_case",
                remedy="write it like first_reader (letters, digits and _)",
            )
        try:
            keys[name] = VerifierKey.parse(vkey)
        except IntegrityError as error:
            raise InvalidFileError(
                f"reviewer {name!r} in workbench.toml has no usable verifier key: {error.message}",
                remedy="write the one line name+id+key that the reviewer's key file gives",
            ) from error
    public = [key.public for key in keys.values()]
    same = [name for name, key in keys.items() if public.count(key.public) > 1]
    if same:
        raise InvalidFileError(
            f"reviewers {', '.join(sorted(same))} in workbench.toml have the same key",
            remedy="give each reviewer a key of their own",
        )
    if not 0 <= required <= len(keys):
        raise InvalidFileError(
            f"approvals_required {required} in workbench.toml, but {len(keys)} reviewers are named",
            remedy="name more in [reviewers], or write a smaller number; a reviewer makes a key "
            "with workbench keys new NAME",
        )
    if not required:
        return None
    return ApprovalRule(required=required, reviewers=dict(reviewers))


def approval_text(origin: str, leaf: str) -> str:
    """Return what a reviewer signs: the log and the leaf hash of what is approved."""
    return f"{_HEADING}{origin}\n{leaf}\n"


def approval_note(key: SigningKey, origin: str, leaf: str) -> str:
    """Return the signed note of an approval."""
    return sign_note(approval_text(origin, leaf), key)


def approval_notes(text: str) -> list[tuple[str, str]]:
    """Return each note of a file with the leaf that it approves; nothing of it is verified.

    Raises:
        InvalidFileError: the text is not one approval after another.
    """
    begins = [match.start() for match in re.finditer(rf"(?m)^{re.escape(_HEADING)}", text)]
    if not begins or text[: begins[0]].strip():
        raise InvalidFileError(
            "the file holds no approval: it does not begin with 'workbench approval v1'",
            remedy="take the file that the reviewer's --out option wrote, unchanged",
        )
    ends = [*begins[1:], len(text)]
    notes = [text[a:b].rstrip("\n") + "\n" for a, b in zip(begins, ends, strict=True)]
    return [(note, _approved_leaf(note)) for note in notes]


def _approved_leaf(note: str) -> str:
    try:
        lines = split_note(note)[0].split("\n")
    except IntegrityError as error:
        raise InvalidFileError(f"an approval is malformed: {error.message}") from error
    if len(lines) != 4 or not _LEAF.match(lines[2]):
        raise InvalidFileError("an approval is a heading, an origin and a leaf hash, a line each")
    return lines[2]


def reviewer_of(note: str, rule: ApprovalRule, origin: str, leaf: str) -> str:
    """Return the reviewer who signed an approval of this leaf of this log.

    Raises:
        IntegrityError: no reviewer of the rule signed it, or it approves something else.
    """
    for name, vkey in rule.reviewers.items():
        if _accepts(VerifierKey.parse(vkey), note, approval_text(origin, leaf)):
            return name
    raise IntegrityError(
        f"no reviewer of this registration ({', '.join(rule.reviewers)}) signed this approval of "
        f"leaf {leaf[:16]}… in log {origin!r}"
    )


def _accepts(key: VerifierKey, note: str, text: str) -> bool:
    try:
        return verify_note(note, key) == text
    except IntegrityError:
        return False


def promises(entries: Sequence[Entry]) -> tuple[Promise, ...]:
    """Return a subject's registration and amendments with their approvals; none without a rule.

    Only approvals whose signature holds count, and each reviewer once.

    Args:
        entries: All entries of one subject, in order.
    """
    registration = next((e for e in entries if isinstance(e.body, Registration)), None)
    rule = rule_of(registration)
    if registration is None or rule is None:
        return ()
    made = [e for e in entries if e.kind == Amendment.kind or e is registration]
    return tuple(_promise(entry, entries, rule) for entry in made)


def rule_of(registration: Entry | None) -> ApprovalRule | None:
    """Return the rule that a registration froze; None without one, or while its body is hidden."""
    body = registration.body if registration else None
    return body.approvals if isinstance(body, Registration) else None


def _promise(entry: Entry, entries: Iterable[Entry], rule: ApprovalRule) -> Promise:
    names = [
        approval.body.reviewer
        for approval in entries
        if isinstance(approval.body, Approval)
        and entry.leaf in approval.refs
        and not _note_fault(approval, approval.body, rule, entry.leaf)
    ]
    approved = tuple(dict.fromkeys(names))
    return Promise(
        entry=entry,
        approved_by=approved,
        missing=tuple(name for name in rule.reviewers if name not in approved),
        required=rule.required,
    )


def _note_fault(entry: Entry, body: Approval, rule: ApprovalRule, leaf: str) -> str:
    if body.reviewer not in rule.reviewers:
        return f"{body.reviewer!r} is no reviewer of the registration"
    try:
        signer = reviewer_of(body.note, rule, _origin(entry), leaf)
    except IntegrityError as error:
        return error.message
    return "" if signer == body.reviewer else f"it was signed by {signer!r}, not {body.reviewer!r}"


def _origin(entry: Entry) -> str:
    return read_envelope(entry.envelope).log


class ApprovalCheck:
    """Follows a log entry by entry and says where its approvals do not hold.

    Keeps the registrations with a rule, their amendments and who approved them: nothing of the
    entries that come in millions.
    """

    def __init__(self) -> None:
        self._rules: dict[str, ApprovalRule] = {}
        self._promised: dict[str, dict[str, set[str]]] = {}
        """Reviewers who approved, by leaf, by subject; also of subjects without a rule."""
        self._told: set[str] = set()

    def follow(self, entry: Entry) -> Iterator[str]:
        """Yield what is wrong with the next entry.

        An approval must refer to the one promise of its subject that it approves and be signed by
        the reviewer whom it names; a confirmatory entry must come after enough approvals of all
        that was promised before it. Of a hidden registration neither can be said.
        """
        if entry.kind in (Registration.kind, Amendment.kind):
            self._promised.setdefault(entry.subject, {})[entry.leaf] = set()
            rule = rule_of(entry)
            if rule is not None:
                self._rules.setdefault(entry.subject, rule)
                yield from _rule_faults(entry, rule)
        elif isinstance(entry.body, Approval):
            yield from self._approval(entry, entry.body)
        elif getattr(entry.body, "mode", "") == "confirmatory":
            yield from self._confirmatory(entry)

    def _approval(self, entry: Entry, body: Approval) -> Iterator[str]:
        promised = self._promised.get(entry.subject, {})
        rule = self._rules.get(entry.subject)
        if len(entry.refs) != 1 or entry.refs[0] not in promised:
            yield f"{_name(entry)}: it refers to no registration or amendment of {entry.subject}"
        elif rule is not None:
            fault = _note_fault(entry, body, rule, entry.refs[0])
            if fault:
                yield f"{_name(entry)}: {fault}"
            else:
                promised[entry.refs[0]].add(body.reviewer)

    def _confirmatory(self, entry: Entry) -> Iterator[str]:
        rule = self._rules.get(entry.subject)
        if rule is None or entry.subject in self._told:
            return
        for leaf, approved in self._promised[entry.subject].items():
            if len(approved) < rule.required:
                self._told.add(entry.subject)  # one fault an experiment, not one a trial
                yield (
                    f"{_name(entry)}: {len(approved)} of {rule.required} approvals of leaf "
                    f"{leaf[:16]}… came before it"
                )


def _rule_faults(entry: Entry, rule: ApprovalRule) -> Iterator[str]:
    try:
        sound = approval_rule(rule.required, rule.reviewers)
    except InvalidFileError as error:
        yield f"{_name(entry)}: its rule of approvals cannot hold: {error.message}"
        return
    if sound is None:
        yield f"{_name(entry)}: its rule of approvals requires none"


def _name(entry: Entry) -> str:
    return f"entry {entry.sequence} ({entry.kind} {entry.id})"
