"""Erasing what must not be kept: which entry, what that costs, and how a crash is made good.

A redaction is recorded first and the body erased afterwards, so that no body is ever missing
without a reason in the log. What a crash leaves in between is erased when the log is next opened.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.errors import ConflictError, IntegrityError, InvalidFileError, NotFoundError
from workbench.registry.embargo import redaction_fault
from workbench.registry.entries import Hidden, Redaction
from workbench.registry.log import Entry, LogSource, StoredEntry, read_entry, signed_text
from workbench.registry.notes import verify_signature
from workbench.registry.rotation import KeyChain

What: TypeAlias = Literal["personal_data", "secret", "licence", "legal_order", "other"]

OUT_OF_REACH = (
    "what git holds of registry/, reports/ and experiments/, also in its history",
    "copies that others have of the published log, of a chronicle or of a backup",
    "the files in experiments/ and proxies/, MLflow's records and the run folders",
)
"""What a redaction does not erase."""

_CARRIES = {
    "registration": "the promise itself: nothing confirmatory can run under it any more, and no "
    "verdict of it can be recomputed",
    "amendment": "a changed promise: nothing confirmatory can run under it any more, and no "
    "verdict of it can be recomputed",
    "promotion": "the configuration that runs: no run or verdict of it can follow or be recomputed",
    "verdict": "the outcome: it can no longer be read or recomputed, and none can follow",
    "exposure": "when outcomes were looked at: no verdict can follow or be recomputed",
    "look": "what a look showed: the runs after it cannot be justified, nor a verdict recomputed",
    "noise_floor": "a noise floor: no rule that took its spread from it can be recomputed",
    "note": "a remark: nothing rests on it",
    "decision": "a decision: nothing is computed from it",
    "incident": "an incident: its cost stays in the ends of attempts",
    "deviation": "a deviation: readers no longer see what differed",
}
_RESULT = (
    "a result: what is left of this experiment cannot be continued, nor its verdict recomputed"
)


_PADDED = re.compile(r"0[0-9]{1,6}\Z")


def find_entry(source: LogSource, name: str) -> Entry:
    """Return the entry with this number, identifier or leaf hash.

    Args:
        source: the log.
        name: a sequence number (also with ``#``), an id, or a leaf hash or its first 8 digits or
            more.

    Raises:
        NotFoundError: there is none, or several.
        InvalidFileError: it is a number as experiments have it, like 0006.
    """
    if _PADDED.match(name.strip()):
        raise InvalidFileError(
            f"{name.strip()} may be experiment {name.strip()} or entry {int(name)}, and what is "
            "erased is gone for good",
            remedy=f"write #{int(name)} for the entry; an experiment is erased entry by entry",
        )
    wanted = name.strip().removeprefix("#").lower()
    found = [entry for entry in source.entries() if _is_named(entry, wanted)]
    if len(found) != 1:
        problem = f"{len(found)} entries are" if found else "no entry is"
        raise NotFoundError(
            f"{problem} named {name!r} in log {source.origin!r}",
            remedy="give the number that a chronicle shows after #, or the entry's id",
        )
    return found[0]


def _is_named(entry: Entry, wanted: str) -> bool:
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 8:
        return entry.sequence == int(wanted)
    is_leaf = len(wanted) >= 8 and entry.leaf.startswith(wanted)
    return is_leaf or entry.id == wanted


def require_redactable(target: Entry, *, reason: str) -> None:
    """Refuse what cannot or need not be erased.

    Raises:
        InvalidFileError: no reason is given.
        ConflictError: the entry is of a kind that is never erased, or erased already.
    """
    if not reason.strip():
        raise InvalidFileError(
            "a redaction has a reason, which is published",
            remedy='--reason "names a person", without repeating what is erased',
        )
    refuse_unerasable(target)


def refuse_unerasable(target: Entry) -> None:
    """Refuse an entry that is never erased, or is erased already.

    Raises:
        ConflictError: it is one of them.
    """
    name = f"entry {target.sequence} ({target.kind} {target.id})"
    fault = redaction_fault(target.subject, target)
    if fault:
        raise ConflictError(
            f"{fault}", remedy="workbench verify (it shows what rests on that entry)"
        )
    if isinstance(target.body, Hidden):
        raise ConflictError(f"{name} has no body here to erase", remedy="workbench publish")


def consequence(target: Entry) -> str:
    """Return what is lost with the entry's body, in one sentence without a full stop."""
    return _CARRIES.get(target.kind, _RESULT)


@dataclass(frozen=True, kw_only=True)
class DraftRedaction:
    """What erasing one entry's content would mean, to be shown before it is done."""

    target: Entry
    consequence: str
    """What is lost with it."""
    out_of_reach: tuple[str, ...] = OUT_OF_REACH
    """What is not erased."""


def draft_redaction(source: LogSource, name: str) -> DraftRedaction:
    """Return what a redaction of the named entry would mean.

    Raises:
        NotFoundError: there is no such entry, or there are several.
        ConflictError: it is of a kind that is never erased, or erased already.
    """
    target = find_entry(source, name)
    refuse_unerasable(target)
    return DraftRedaction(target=target, consequence=consequence(target))


def pending_erasures(
    redactions: Iterable[StoredEntry], others: Iterable[StoredEntry], chain: KeyChain, origin: str
) -> Iterator[tuple[int, int]]:
    """Yield the sequence of each body that is still to be erased, with that of its redaction.

    Args:
        redactions: the stored redactions that the signed head covers.
        others: every stored entry; read only when there is a redaction.
        chain: the log's keys, because only what the author signed erases anything.
        origin: the log's identity.

    Raises:
        IntegrityError: a redaction is not signed by the author, or may not erase what it names.
    """
    named = {ref: entry for entry in _signed(redactions, chain, origin) for ref in entry.refs}
    if not named:
        return
    for stored in others:
        redaction = named.get(stored.leaf.hex())
        if redaction is None or stored.is_hidden:
            continue
        fault = redaction_fault(redaction.subject, read_entry(stored, origin))
        if fault or redaction.sequence <= stored.sequence:
            raise IntegrityError(
                f"entry {redaction.sequence} (redaction {redaction.id}): {fault or 'is too early'}",
                remedy="workbench verify",
            )
        yield stored.sequence, redaction.sequence


def _signed(stored: Iterable[StoredEntry], chain: KeyChain, origin: str) -> Sequence[Entry]:
    found = []
    for item in stored:
        entry = read_entry(item, origin)
        verify_signature(
            signed_text(origin, entry.leaf), entry.signature, chain.author_at(entry.sequence)
        )
        if isinstance(entry.body, Redaction):
            found.append(entry)
    return found
