"""Attacks on a log, each tried against readers who hold more and less, with and without its keys.

The honest log is the first story: 17 entries. An outsider vouches for the head over its first 12;
the reader of last week kept the head over all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from tests.registry.conftest import SUBJECT, tell
from tests.registry.forge import BEGAN, ForgedLog, key
from workbench.canonical import canonical_json, parse_json
from workbench.registry.entries import Embargo, Genesis, Note, Redaction
from workbench.registry.log import StoredEntry, body_hash, read_body, read_envelope, signed_text
from workbench.registry.merkle import leaf_hash
from workbench.registry.rotation import rotation_body
from workbench.registry.verify import LogReport, verify_log

ANCHORED = 12
EARLY, LATE, VERDICT = 4, 15, 14
"""A trial before the anchored head, a decision and a verdict after it."""
Cell = Literal["caught", "noted", "harmless", "missed"]
COLUMNS = (
    "self-check", "kept head", "anchor",
    "self-check, holds the keys", "kept head, holds the keys", "anchor, holds the keys",
)  # fmt: skip


@dataclass(kw_only=True)
class Served:
    """What a reader is given."""

    log: ForgedLog
    kept: str
    """The head that this reader kept; of two readers, the one who is lied to."""
    marks: tuple[str, ...] = ()
    """Entries of which a warning must speak to count as noted."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack and what becomes of it before each verifier, in the order of `COLUMNS`."""

    name: str
    attempt: Callable[[bool], Served]
    """Takes whether the attacker holds the log's and the author's key."""
    expected: tuple[Cell, Cell, Cell, Cell, Cell, Cell]


def honest() -> ForgedLog:
    log = ForgedLog()
    tell(log)  # type: ignore[arg-type]
    return log


HONEST = honest()


def served(records: list[StoredEntry], *, keys: bool, head: str = "") -> Served:
    """Return a log of these records under a new head, or under one that was signed before."""
    log = honest()
    log.stored = [replace(stored, sequence=at) for at, stored in enumerate(records)]
    if keys:
        log.sign_all()
    log.heads = [head or log.heads[-1]]
    return Served(log=log, kept=HONEST.heads[-1])


def rewritten(stored: StoredEntry, body: dict[str, object], **members: object) -> StoredEntry:
    """Return the record with other content, all its hashes and its signature made to fit."""
    data = canonical_json(parse_json(stored.body) | body)
    changes = members | {"body_hash": body_hash(stored.salt, data)}
    envelope = read_envelope(stored.envelope).model_copy(update=changes).to_bytes()
    leaf = leaf_hash(envelope)
    text = signed_text(HONEST.origin, leaf.hex())
    signature = HONEST.author_key.signature(text) if stored.signature else ""
    return replace(stored, body=data, envelope=envelope, leaf=leaf, signature=signature)


def edit_payload(keys: bool) -> Served:
    records = list(HONEST.stored)
    data = canonical_json(parse_json(records[EARLY].body) | {"value": "1.5"})
    records[EARLY] = replace(records[EARLY], body=data)
    return served(records, keys=keys)


def edit_and_rehash(keys: bool, at: int = EARLY) -> Served:
    records = list(HONEST.stored)
    change: dict[str, object] = {"value": "1.5"} if at == EARLY else {"chosen": "no"}
    records[at] = rewritten(records[at], change)
    return served(records, keys=keys)


def edit_after_anchor(keys: bool) -> Served:
    return edit_and_rehash(keys, LATE)


def delete(keys: bool) -> Served:
    found = served(list(HONEST.stored), keys=keys)
    del found.log.stored[EARLY]
    return found


def delete_and_renumber(keys: bool) -> Served:
    return served([s for s in HONEST.stored if s.sequence != EARLY], keys=keys)


def truncate_above(keys: bool) -> Served:
    return served(HONEST.stored[:13], keys=keys, head=HONEST.heads[12])


def truncate_below(keys: bool) -> Served:
    return served(HONEST.stored[:8], keys=keys, head=HONEST.heads[7])


def replay_old_head(keys: bool) -> Served:
    return served(list(HONEST.stored), keys=False, head=HONEST.heads[12])


def reorder(keys: bool) -> Served:
    records = list(HONEST.stored)
    # The intruder swaps the times, too.
    times = [read_envelope(records[at].envelope).time for at in (EARLY, EARLY + 1)]
    records[EARLY] = rewritten(HONEST.stored[EARLY + 1], {}, time=times[0])
    records[EARLY + 1] = rewritten(HONEST.stored[EARLY], {}, time=times[1])
    return served(records, keys=keys)


def insert_back_dated(keys: bool) -> Served:
    time = BEGAN + timedelta(seconds=EARLY, milliseconds=-500)
    extra = HONEST.made(EARLY, Note(text="we knew this all along"), subject=SUBJECT, time=time)
    return served([*HONEST.stored[:EARLY], extra, *HONEST.stored[EARLY:]], keys=keys)


def append_back_dated(keys: bool) -> Served:
    time = BEGAN + timedelta(seconds=EARLY)
    extra = HONEST.made(17, Note(text="we knew this all along"), subject=SUBJECT, time=time)
    found = served([*HONEST.stored, extra], keys=keys)
    if not keys:
        found.log.heads = HONEST.heads[-1:]
    found.marks = ("entry 17",)
    return found


def fork(keys: bool, at: int) -> Served:
    """Show this reader another end since their first visit: their kept head is of it."""
    log = honest()
    log.stored, log.heads = log.stored[:at], log.heads[:at]
    while len(log.stored) < 17:
        log.add(Note(text=f"another history {len(log.stored)}"), subject=SUBJECT)
    found = served(log.stored, keys=keys, head="" if keys else HONEST.heads[-1])
    found.kept = found.log.heads[-1] if keys else HONEST.heads[-1]
    return found


def replaced_key(keys: bool) -> Served:
    log = ForgedLog(number=66)
    tell(log)  # type: ignore[arg-type]
    log.heads = log.heads[-1:]
    return Served(log=log, kept=HONEST.heads[-1])


def withhold(keys: bool) -> Served:
    records = list(HONEST.stored)
    records[VERDICT] = replace(records[VERDICT], body=b"", salt=b"")
    return served(records, keys=keys)


def withhold_under_back_dated_embargo(keys: bool) -> Served:
    time = BEGAN + timedelta(seconds=9, milliseconds=500)
    embargo = HONEST.made(9, Embargo(until="2099-01-01", reason="r"), subject=SUBJECT, time=time)
    records = [*HONEST.stored[:10], embargo, *HONEST.stored[10:]]
    records[VERDICT + 1] = replace(records[VERDICT + 1], body=b"", salt=b"")
    found = served(records, keys=keys)
    found.marks = (f"{SUBJECT} is under embargo",)
    return found


def redact_the_verdict(keys: bool) -> Served:
    log = honest()
    body = Redaction(reason="an error", what="other")
    log.add(body, subject=SUBJECT, refs=[log.stored[VERDICT].leaf.hex()])
    log.hide(VERDICT)
    if not keys:
        log.heads = HONEST.heads[-1:]
    log.heads = log.heads[-1:]
    return Served(log=log, kept=HONEST.heads[-1], marks=("1 redacted",))


def rotate_to_own_key(keys: bool) -> Served:
    log = honest()
    thief = key(log.origin, 66)
    old = log.log_key if keys else thief
    body = rotation_body(
        log.origin, "log", old=old, new=thief, why="scheduled", reason="nothing to see"
    )
    log.stored.append(log.made(17, body.model_copy(update={"old_key": log.vkey}), subject="lab"))
    log.log_key = thief
    log.sign()
    log.heads = log.heads[-1:]
    return Served(log=log, kept=HONEST.heads[-1])


def move_signature(keys: bool) -> Served:
    records = list(HONEST.stored)
    records[VERDICT] = replace(records[VERDICT], signature=records[LATE].signature)
    return served(records, keys=keys)


def second_log(keys: bool) -> Served:
    """The same experiment was registered in another log of the same people, and came out badly."""
    return Served(log=HONEST, kept=HONEST.heads[-1])


def examined(attack: Attack, column: str) -> Cell:
    """Return what becomes of the attack before one verifier."""
    reader, _, holder = column.partition(", ")
    found = attack.attempt(bool(holder))
    if reader == "self-check":
        beside = _key_beside(found.log)
        report = verify_log(found.log, vkey=beside, kept_head=None)
    else:
        kept = found.kept if reader == "kept head" else HONEST.heads[ANCHORED - 1]
        report = verify_log(found.log, vkey=HONEST.vkey, kept_head=kept)
    return _outcome(found, report, is_second_log=attack.attempt is second_log)


def _key_beside(log: ForgedLog) -> str:
    """Return the key that lies beside the log: whoever serves the files chose it."""
    genesis = read_body(Genesis.kind, log.stored[0].body)
    assert isinstance(genesis, Genesis)
    return genesis.log_key


def _outcome(found: Served, report: LogReport, *, is_second_log: bool) -> Cell:
    if not report.passed:
        return "caught"
    said = [*report.warnings, *(check.detail for check in report.checks)]
    if any(mark in text for mark in found.marks for text in said):
        return "noted"
    shown = [(s.envelope, s.body) for s in found.log.records()]
    same = shown == [(s.envelope, s.body) for s in HONEST.records()]
    return "harmless" if same and not is_second_log else "missed"


CAUGHT: tuple[Cell, Cell, Cell, Cell, Cell, Cell] = ("caught",) * 6  # type: ignore[assignment]
ATTACKS = (
    Attack(name="edit payload", attempt=edit_payload, expected=CAUGHT),
    Attack(name="edit and rehash", attempt=edit_and_rehash,
           expected=("caught", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="delete", attempt=delete, expected=CAUGHT),
    Attack(name="delete and renumber", attempt=delete_and_renumber,
           expected=("caught", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="truncate above the anchor", attempt=truncate_above,
           expected=("missed", "caught", "missed", "missed", "caught", "missed")),
    Attack(name="truncate below the anchor", attempt=truncate_below,
           expected=("missed", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="reorder", attempt=reorder,
           expected=("caught", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="insert back-dated", attempt=insert_back_dated,
           expected=("caught", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="append back-dated", attempt=append_back_dated,
           expected=("harmless", "harmless", "harmless", "noted", "noted", "noted")),
    Attack(name="edit after the anchor", attempt=edit_after_anchor,
           expected=("caught", "caught", "caught", "missed", "caught", "missed")),
    Attack(name="two forks, parting before the anchor", attempt=lambda keys: fork(keys, 10),
           expected=("caught", "caught", "caught", "missed", "missed", "caught")),
    Attack(name="two forks, parting after the anchor", attempt=lambda keys: fork(keys, 13),
           expected=("caught", "caught", "caught", "missed", "missed", "missed")),
    Attack(name="replaced key", attempt=replaced_key,
           expected=("missed", "caught", "caught", "missed", "caught", "caught")),
    Attack(name="replayed old head", attempt=replay_old_head,
           expected=("missed", "caught", "missed", "missed", "caught", "missed")),
    Attack(name="withhold a verdict", attempt=withhold, expected=CAUGHT),
    Attack(name="withhold a verdict under a back-dated embargo",
           attempt=withhold_under_back_dated_embargo,
           expected=("caught", "caught", "caught", "noted", "caught", "caught")),
    Attack(name="redact an unwelcome verdict", attempt=redact_the_verdict,
           expected=("caught", "caught", "caught", "noted", "noted", "noted")),
    Attack(name="rotate to a key of one's own", attempt=rotate_to_own_key,
           expected=("caught", "caught", "caught", "missed", "missed", "missed")),
    Attack(name="move an author's signature", attempt=move_signature, expected=CAUGHT),
    Attack(name="show the better of two logs", attempt=second_log,
           expected=("missed", "missed", "missed", "missed", "missed", "missed")),
)  # fmt: skip


def table() -> str:
    """Return the table of `docs/record-format.md`."""
    rows = [f"| Attack | {' | '.join(COLUMNS)} |", f"|---{'|---' * len(COLUMNS)}|"]
    rows += [f"| {attack.name} | {' | '.join(attack.expected)} |" for attack in ATTACKS]
    return "\n".join(rows)
