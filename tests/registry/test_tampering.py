"""Whoever changes a log is found out, and the entry is named."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.registry.conftest import (
    ORIGIN,
    STORY_KINDS,
    SUBJECT,
    LogFolder,
    registration,
    run_started,
)
from tests.registry.stories import CHANGE_KINDS, SECOND, tell_changes
from workbench.canonical import canonical_json
from workbench.registry.entries import BODIES, Anchor, Body, Note, RunEnded, SweepEnded
from workbench.registry.heads import SignedHead, parse_head, sign_head
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.log import (
    Columns,
    RawLog,
    StoredEntry,
    body_hash,
    columns_of,
    signed_text,
)
from workbench.registry.merkle import leaf_hash, tree_root
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.seeds import time_locked_seed
from workbench.registry.verify import STEPS, LogReport, verify_log
from workbench.reports.verification import VerifiableLog

CHANGES = tell_changes()
REDACTED = next(stored.sequence for stored in CHANGES.stored if not stored.body)
NUMBER = {step.name: number for number, step in enumerate(STEPS, start=1)}


class Altered:
    """A log of which the intruder serves other records or heads."""

    def __init__(
        self, source: RawLog, records: Sequence[StoredEntry], notes: list[str] | None = None
    ) -> None:
        self._source = source
        self._records = records
        self._notes = list(source.notes()) if notes is None else notes

    @property
    def origin(self) -> str:
        return self._source.origin

    def head(self) -> SignedHead:
        return parse_head(self._notes[-1])

    def records(self, *, since: int = 0) -> Iterator[StoredEntry]:
        return iter(self._records[since:])

    def columns(self) -> Iterator[Columns]:
        return columns_of(self._records)

    def notes(self) -> list[str]:
        return self._notes

    def faults(self, tree: object, keys: object) -> list[str]:
        return []


def _vkey(story: LogFolder) -> str:
    return str(load_keys(story.root / "keys", ORIGIN).log.verifier)


def _failure(report: LogReport, name: str, entry: str) -> None:
    """Check that this check failed first, that it names the entry, and that no later one ran."""
    failure = report.first_failure
    assert failure is not None
    assert (failure.name, failure.number) == (name, NUMBER[name]), failure
    assert entry in failure.detail
    assert all(check.passed for check in report.checks[: failure.number - 1])
    assert all("not run" in check.detail for check in report.checks[failure.number :])


Keys = tuple[object, ...]


def _changes(value: object, path: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Yield (path, other value) for every leaf, every list and every mapping of a JSON value."""
    if isinstance(value, dict):
        yield path, {**value, "intruder": 1}
        for key, item in value.items():
            yield path, {k: v for k, v in value.items() if k != key}
            yield from _changes(item, (*path, key))
    elif isinstance(value, list):
        yield path, [*value, "intruder"]
        for at, item in enumerate(value):
            yield path, [*value[:at], *value[at + 1 :]]
            yield from _changes(item, (*path, at))
    elif isinstance(value, bool):
        yield path, not value
    elif isinstance(value, int):
        yield path, value + 1
    elif isinstance(value, str):
        yield path, f"{value}0"
    else:
        raise TypeError(f"{value!r} is not in the profile")


def _changed(value: object, path: Keys, new: object) -> object:
    if not path:
        return new
    copy = value.copy()  # type: ignore[attr-defined]
    copy[path[0]] = _changed(copy[path[0]], path[1:], new)
    return copy


def _every_change(data: bytes) -> Iterator[bytes]:
    value = json.loads(data)
    for path, new in _changes(value):
        yield canonical_json(_changed(value, path, new))
    yield data + b" "


def _index(records: Sequence[StoredEntry], kind: str) -> int:
    return next(at for at, stored in enumerate(records) if stored.kind == kind)


def _rehashed(stored: StoredEntry, **changes: object) -> StoredEntry:
    """Return the record with its envelope changed and its leaf hash made to fit again."""
    envelope = canonical_json(json.loads(stored.envelope) | changes)
    return replace(stored, envelope=envelope, leaf=leaf_hash(envelope))


def _check_every_change(log: VerifiableLog, at: int) -> None:
    """Change each field of one entry in turn: each change is caught, and the entry named."""
    records, newest = list(log.records()), list(log.notes())[-1:]
    original = records[at]
    kind = str(original.kind)

    def report(changed: StoredEntry) -> LogReport:
        assert changed != original
        altered = [*records[:at], changed, *records[at + 1 :]]
        return verify_log(Altered(log, altered, newest), vkey=log.vkey, kept_head=None)

    bodies = list(_every_change(original.body))
    fields = type(BODIES[kind].model_validate(json.loads(original.body))).model_fields
    assert len(bodies) > len(fields)
    for body in bodies:
        _failure(report(replace(original, body=body)), "body hashes", f"entry {at} ({kind} ")
        # The intruder also makes the hashes fit: then the signed root does not.
        digest = body_hash(original.salt, body)
        rehashed = _rehashed(replace(original, body=body), body_hash=digest)
        _failure(report(rehashed), "Merkle root", "not the one that was signed")
    for envelope in _every_change(original.envelope):
        naive = report(replace(original, envelope=envelope))
        _failure(naive, "leaf hashes", f"entry {at} (")
        fitting = replace(original, envelope=envelope, leaf=leaf_hash(envelope))
        _failure(report(fitting), "Merkle root", "not the one that was signed")
    named = f"entry {at} ({kind} "
    _failure(report(replace(original, leaf=bytes(32))), "leaf hashes", named)
    _failure(report(replace(original, salt=bytes(16))), "body hashes", named)
    _failure(report(replace(original, salt=original.salt + b"x")), "body hashes", named)
    _failure(report(replace(original, salt=b"")), "body hashes", named)
    _failure(report(replace(original, body=b"")), "body hashes", named)
    _failure(report(replace(original, body=b"", salt=b"")), "bodies", named)
    other = "" if original.signature else "AAAA"
    _failure(report(replace(original, signature=other)), "author signatures", named)
    _failure(report(replace(original, sequence=99)), "all entries", f"entry {at} is missing")
    for column in ("id", "kind", "subject"):
        _failure(report(replace(original, **{column: ""})), "envelopes", named)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", STORY_KINDS)
def test_tampering_every_field_of_every_kind_is_caught_and_named(
    story: LogFolder, kind: str
) -> None:
    with story.open() as ledger:
        _check_every_change(ledger, _index(list(ledger.records()), kind))


@pytest.mark.parametrize("at", range(len(CHANGES.stored)))
def test_tampering_every_field_of_every_change_is_caught_and_named(at: int) -> None:
    if at == REDACTED:
        return
    withheld = CHANGES.stored[at].subject == SECOND and CHANGES.stored[at].kind == "registration"
    if not withheld:
        _check_every_change(CHANGES, at)


def test_tampering_every_kind_is_in_the_log(story: LogFolder) -> None:
    with story.open() as ledger:
        assert {stored.kind for stored in ledger.records()} == set(STORY_KINDS)
    assert {stored.kind for stored in CHANGES.stored} >= set(CHANGE_KINDS)
    assert {*STORY_KINDS, *CHANGE_KINDS} == set(BODIES)


@pytest.mark.parametrize("at", range(len(CHANGES.stored)))
def test_tampering_change_deleted_or_swapped_or_repeated_is_caught(at: int) -> None:
    records, count = CHANGES.stored, len(CHANGES.stored)

    def report(altered: list[StoredEntry]) -> LogReport:
        renumbered = [replace(stored, sequence=n) for n, stored in enumerate(altered)]
        return verify_log(Altered(CHANGES, renumbered), vkey=CHANGES.vkey, kept_head=None)

    shorter = report([*records[:at], *records[at + 1 :]])
    _failure(shorter, "all entries", f"entry {count - 1} is missing")
    repeated = [*records[: at + 1], *records[at:-1]][:count]
    if repeated != records:
        _failure(report(repeated), "Merkle root", "not the one that was signed")
    if at:
        swapped = [*records[: at - 1], records[at], records[at - 1], *records[at + 1 :]]
        _failure(report(swapped), "Merkle root", "not the one that was signed")


@pytest.mark.parametrize("at", range(17))
def test_tampering_entry_deleted_or_swapped_or_repeated_is_caught(
    story: LogFolder, at: int
) -> None:
    with story.open() as ledger:
        records = list(ledger.records())

        def report(altered: list[StoredEntry]) -> LogReport:
            renumbered = [replace(stored, sequence=n) for n, stored in enumerate(altered)]
            return verify_log(Altered(ledger, renumbered), vkey=ledger.vkey, kept_head=None)

        assert len(records) == 17
        _failure(report([*records[:at], *records[at + 1 :]]), "all entries", "entry 16 is missing")
        repeated = [*records[: at + 1], *records[at:-1]][:17]
        if repeated != records:
            _failure(report(repeated), "Merkle root", "not the one that was signed")
        if at:
            swapped = [*records[: at - 1], records[at], records[at - 1], *records[at + 1 :]]
            _failure(report(swapped), "Merkle root", "not the one that was signed")


STORE_CHANGES = {
    "UPDATE entries SET body = CAST(replace(body, 'bpb', 'bqb') AS BLOB) WHERE sequence = 4":
        ("body hashes", "entry 4 (trial "),
    "UPDATE entries SET envelope = CAST(replace(envelope, 'rese', 'rase') AS BLOB)"
    " WHERE sequence = 4": ("leaf hashes", "entry 4 (trial "),
    "UPDATE entries SET body = CAST(body AS TEXT) WHERE sequence = 4":
        ("all entries", "entry 4 (trial "),
    "UPDATE entries SET id = x'00' WHERE sequence = 4": ("all entries", "entry 4 (trial "),
    "UPDATE tree SET frontier = hex(zeroblob(16)) || hex(zeroblob(16))":
        ("indices and tiles", "not bytes"),
    "UPDATE heads SET note = x'00' WHERE size = 17": ("signed head", "a text, a blank line"),
    "UPDATE entries SET salt = zeroblob(16) WHERE sequence = 14":
        ("body hashes", "entry 14 (verdict "),
    "UPDATE entries SET leaf = zeroblob(32) WHERE sequence = 14":
        ("leaf hashes", "entry 14 (verdict "),
    "UPDATE entries SET signature = '' WHERE sequence = 14":
        ("author signatures", "entry 14 (verdict "),
    "UPDATE entries SET kind = 'note' WHERE sequence = 14": ("envelopes", "entry 14 (verdict "),
    "UPDATE entries SET subject = 'lab' WHERE sequence = 14": ("envelopes", "entry 14 (verdict "),
    "UPDATE entries SET id = 'x' WHERE sequence = 14": ("envelopes", "entry 14 (verdict "),
    "DELETE FROM entries WHERE sequence = 4": ("all entries", "entry 4 is missing"),
    "DELETE FROM entries WHERE sequence = 16": ("all entries", "entry 16 is missing"),
    "UPDATE heads SET note = (SELECT note FROM heads WHERE size = 3) WHERE size = 17":
        ("earlier heads", "out of order"),
    "UPDATE heads SET note = replace(note, '— ', '- ') WHERE size = 5":
        ("earlier heads", "malformed"),
    "UPDATE heads SET size = 99 WHERE size = 17": ("indices and tiles", "row 99 is of size 17"),
    "DELETE FROM heads WHERE size = 17": ("indices and tiles", "a head of size 17 was signed"),
    "UPDATE tree SET frontier = zeroblob(64)": ("indices and tiles", "not that of its entries"),
    "UPDATE tree SET size = 16": ("indices and tiles", "17 entries, its tree has 16"),
    "DELETE FROM tree": ("indices and tiles", "has lost the tree"),
    "DELETE FROM heads": ("signed head", "no signed head"),
}  # fmt: skip


@pytest.mark.parametrize("statement", STORE_CHANGES)
def test_tampering_store_changed_behind_the_triggers_is_caught(
    story: LogFolder, statement: str
) -> None:
    ledger = story.open()
    story.sql(statement)
    name, named = STORE_CHANGES[statement]
    _failure(verify_log(ledger, vkey=ledger.vkey, kept_head=None), name, named)
    ledger.close()


def _published_files(story: LogFolder) -> list[str]:
    paths = sorted(path for path in story.published.rglob("*") if path.is_file())
    return [path.relative_to(story.published).as_posix() for path in paths]


def test_tampering_any_flipped_byte_of_any_published_file_is_caught(story: LogFolder) -> None:
    vkey, files = _vkey(story), _published_files(story)
    assert files == ["author.vkey", "bodies/000.jsonl", "checkpoint", "log.vkey",
                     "tile/0/000.p/17", "tile/entries/000.p/17"]  # fmt: skip
    for name in files:
        path = story.published / name
        data = path.read_bytes()
        for at in {0, 1, len(data) // 3, len(data) // 2, len(data) - 2, len(data) - 1}:
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            report = verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None)
            assert not report.passed, (name, at)
        path.write_bytes(data)
    assert verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None).passed


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_tampering_published_file_truncated_or_missing_is_caught(
    story: LogFolder, keep: float
) -> None:
    vkey = _vkey(story)
    for name in _published_files(story):
        path = story.published / name
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * keep)])
        assert not verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None).passed
        path.unlink()
        assert not verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None).passed
        path.write_bytes(data)


def test_tampering_stray_or_changed_older_tile_is_named(story: LogFolder) -> None:
    with story.open() as ledger:
        ledger.append(Note(text="more"), subject="lab")
        publish(ledger, story.published)
        vkey = ledger.vkey
    older = story.published / "tile" / "0" / "000.p" / "17"
    data = older.read_bytes()
    older.write_bytes(bytes(len(data)))
    report = verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None)
    _failure(report, "indices and tiles", "tile/0/000.p/17 is not what the entries give")
    older.write_bytes(data)
    for stray in ("notes.txt", "7/000", "0/x001/000", "0/000.p/99"):
        path = story.published / "tile" / stray
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"hello")
        report = verify_log(PublishedLog(story.published), vkey=vkey, kept_head=None)
        _failure(report, "indices and tiles", f"tile/{stray} is not what the entries give")
        path.unlink()


def test_truncation_to_an_older_signed_head_is_caught_by_the_kept_head(story: LogFolder) -> None:
    with story.open() as ledger:
        records, notes = list(ledger.records()), list(ledger.notes())
        shorter = Altered(ledger, records[:12], notes[:12])
        unaware = verify_log(shorter, vkey=ledger.vkey, kept_head=None)
        assert unaware.passed
        assert "no kept head was given" in unaware.warnings[0]
        aware = verify_log(shorter, vkey=ledger.vkey, kept_head=notes[-1])
        _failure(aware, "kept head", "you kept a head over 17 entries, the log now has 12")
        foreign = notes[-1].replace(ORIGIN, "example.com/other")
        other = verify_log(ledger, vkey=ledger.vkey, kept_head=foreign)
        _failure(other, "kept head", f"of log 'example.com/other', this is log '{ORIGIN}'")
        again = verify_log(ledger, vkey=ledger.vkey, kept_head=notes[11])
        assert again.passed
        assert again.warnings == ()


def test_log_cut_back_to_before_a_rotation_is_said_to_be_cut_back(story: LogFolder) -> None:
    """The key that signed the kept head is in none of the entries that are left."""
    with story.open() as ledger:
        old, size = ledger.vkey, ledger.head().size
        records, notes = list(ledger.records()), list(ledger.notes())
        ledger.rotate("log", why="scheduled", reason="yearly")
        kept = ledger.head().note
        report = verify_log(Altered(ledger, records, notes), vkey=old, kept_head=kept)
        told = f"a head over {size + 1} entries, the log now has {size}: it was cut back. No key"
        _failure(report, "kept head", told)


def _resigned(story: LogFolder, ledger: Ledger, records: list[StoredEntry]) -> Altered:
    """What an insider with the log's key, but not the author's, can serve."""
    key = load_keys(story.root / "keys", ORIGIN).log
    root = tree_root(leaf_hash(stored.envelope) for stored in records)
    return Altered(ledger, records, [sign_head(key, len(records), root).note])


def test_fork_by_the_keeper_of_the_key_is_caught_by_the_kept_head(story: LogFolder) -> None:
    with story.open() as ledger:
        records, kept = list(ledger.records()), ledger.head().note
        records[16] = _rehashed(records[16], actor="somebody")
        fork = _resigned(story, ledger, records)
        assert verify_log(fork, vkey=ledger.vkey, kept_head=None).passed
        report = verify_log(fork, vkey=ledger.vkey, kept_head=kept)
        _failure(report, "kept head", "the first 17 entries are not those of the head")


def test_earlier_head_signed_over_other_entries_is_caught(story: LogFolder) -> None:
    key = load_keys(story.root / "keys", ORIGIN).log
    with story.open() as ledger:
        notes = list(ledger.notes())
        notes[4] = sign_head(key, 5, bytes(32)).note
        report = verify_log(
            Altered(ledger, list(ledger.records()), notes), vkey=ledger.vkey, kept_head=None
        )
        _failure(report, "earlier heads", "the head of size 5 was signed over other entries")


def _insider(story: LogFolder, at: int, change: Callable[[StoredEntry], StoredEntry]) -> LogReport:
    with story.open() as ledger:
        records = list(ledger.records())
        records[at] = change(records[at])
        return verify_log(_resigned(story, ledger, records), vkey=ledger.vkey, kept_head=None)


def _with_body(stored: StoredEntry, body: bytes) -> StoredEntry:
    changed = replace(stored, body=body)
    return _rehashed(changed, body_hash=body_hash(stored.salt, body))


INSIDER = {
    "envelope with spaces": (16, "envelopes", lambda s: _raw(s, s.envelope + b" ")),
    "envelope not JSON": (16, "envelopes", lambda s: _raw(s, b"nothing")),
    "envelope with a null": (16, "envelopes", lambda s: _rehashed(s, actor=None)),
    "envelope with a float": (16, "envelopes", lambda s: _rehashed(s, v=1.5)),
    "envelope of a later format": (16, "envelopes", lambda s: _rehashed(s, v=2)),
    "envelope with another key": (16, "envelopes", lambda s: _rehashed(s, extra="x")),
    "envelope too long": (16, "envelopes", lambda s: _rehashed(s, refs=["0" * 64] * 1000)),
    "entry of another log": (16, "envelopes", lambda s: _rehashed(s, log="example.com/other")),
    "unknown kind": (16, "bodies", lambda s: _rehashed(replace(s, kind="rumour"), kind="rumour")),
    "body of another kind": (16, "bodies", lambda s: _with_body(s, b'{"question":"?"}')),
    "body with spaces": (16, "bodies", lambda s: _with_body(s, b'{"text": "hello"}')),
    "body with a float": (16, "bodies", lambda s: _with_body(s, b'{"text":1.5}')),
    "body with a key twice": (16, "bodies", lambda s: _with_body(s, b'{"text":"","text":""}')),
    "first entry of another kind": (0, "first entry", lambda s: _rehashed(
        replace(_with_body(s, b'{"text":"x"}'), kind="note"), kind="note")),
    "first entry of another key": (0, "first entry", lambda s: _with_body(
        s, canonical_json(json.loads(s.body) | {"log_key": "x"}))),
    "later entry refers to itself": (16, "references", lambda s: _rehashed(s, refs=[s.leaf.hex()])),
    "decision changed without the author": (15, "author signatures", lambda s: _with_body(
        s, canonical_json(json.loads(s.body) | {"chosen": "no"}))),
    "note with a signature": (16, "author signatures", lambda s: replace(s, signature="AAAA")),
    "decision without a signature": (15, "author signatures", lambda s: replace(s, signature="")),
}  # fmt: skip


def _raw(stored: StoredEntry, envelope: bytes) -> StoredEntry:
    return replace(stored, envelope=envelope, leaf=leaf_hash(envelope))


@pytest.mark.parametrize("case", INSIDER)
def test_malformed_entry_signed_by_the_keeper_of_the_key_is_caught(
    story: LogFolder, case: str
) -> None:
    at, name, change = INSIDER[case]
    report = _insider(story, at, change)
    _failure(report, name, "entry 0" if at == 0 else f"entry {at} (")


def test_second_first_entry_and_repeated_identifier_are_caught(story: LogFolder) -> None:
    with story.open() as ledger:
        records = list(ledger.records())
        second = replace(_rehashed(records[0], id=json.loads(records[16].envelope)["id"]),
                         sequence=16, id=records[16].id)  # fmt: skip
        report = verify_log(
            _resigned(story, ledger, [*records[:16], second]), vkey=ledger.vkey, kept_head=None
        )
        _failure(report, "first entry", "entry 16 (genesis")
        twin = _rehashed(replace(records[16], id=records[15].id), id=records[15].id)
        report = verify_log(
            _resigned(story, ledger, [*records[:16], twin]), vkey=ledger.vkey, kept_head=None
        )
        _failure(report, "identifiers", "entry 15 has the same id")


def test_reference_to_a_later_entry_is_caught(story: LogFolder) -> None:
    with story.open() as ledger:
        later = list(ledger.records())[16].leaf.hex()
    report = _insider(story, 12, lambda stored: _rehashed(stored, refs=[later]))
    _failure(report, "references", f"it refers to {later}, which is no earlier entry")


def test_clock_that_went_back_is_a_warning(story: LogFolder) -> None:
    report = _insider(story, 16, lambda s: _rehashed(s, time="2020-01-01T00:00:00.000Z"))
    assert report.passed
    assert "entry 16 (note" in report.warnings[1]


def test_verify_with_another_key_or_of_an_empty_log_fails_at_the_head(story: LogFolder) -> None:
    with story.open() as ledger:
        other = sign_head(load_keys(story.root / "keys", ORIGIN).author, 1, bytes(32))
        report = verify_log(Altered(ledger, [], [other.note]), vkey=ledger.vkey, kept_head=None)
        _failure(report, "signed head", "no signature by the key")
        assert (report.size, report.head, report.warnings) == (0, "", ())
        report = verify_log(_resigned(story, ledger, []), vkey=ledger.vkey, kept_head=None)
        _failure(report, "signed head", "covers no entry")


CONDUCT: dict[str, tuple[str, str, Body, bool]] = {
    "confirmatory entry without registration": (
        "order of conduct", "refers to no earlier registration",
        SweepEnded(mode="confirmatory", declared=1, counts={}, finished=True), False),
    "experiment registered twice": (
        "order of conduct", "was registered before", registration(), False),
    "attempt ends that did not begin": (
        "order of conduct", "refers to no start",
        RunEnded(mode="confirmatory", run="r", attempt=1, outcome="failed", last_step=0,
                 surviving_step=0, planned_steps=1, tokens=0, device_seconds=0.0), True),
    "seed that was chosen": ("seeds", "its seed is 12345, not", run_started(12345), True),
    "seed that was not registered": (
        "seeds", "treatment seed 2 was not registered", run_started(1, seed_index=2), True),
    "arm that was not registered": (
        "seeds", "third seed 0 was not registered", run_started(1, arm="third"), True),
}  # fmt: skip


@pytest.mark.parametrize("case", CONDUCT)
def test_conduct_out_of_order_is_caught(story: LogFolder, case: str) -> None:
    name, message, body, refer = CONDUCT[case]
    with story.open() as ledger:
        registered = next(ledger.entries(kind="registration"))
        refs = [registered.leaf] if refer else []
        entry = ledger.append(body, subject=SUBJECT, refs=refs)
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(report, name, f"entry 17 ({entry.kind} {entry.id}): ")
        assert message in report.checks[NUMBER[name] - 1].detail


def test_conduct_registration_of_another_experiment_does_not_count(story: LogFolder) -> None:
    with story.open() as ledger:
        registered = next(ledger.entries(kind="registration"))
        body = SweepEnded(mode="confirmatory", declared=1, counts={}, finished=True)
        ledger.append(body, subject="0002-other", refs=[registered.leaf])
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(report, "order of conduct", "no earlier registration of 0002-other")


def test_conduct_exploratory_entries_need_no_registration(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        body = SweepEnded(mode="exploratory", declared=1, counts={}, finished=True)
        ledger.append(body, subject="recipe:mix@1")
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def _registered(ledger: Ledger, covered: str) -> tuple[str, Anchor]:
    before = ledger.head()
    registered = ledger.append(registration(), subject=SUBJECT)
    head = ledger.head() if covered == "covered" else before
    return registered.leaf, Anchor(method="embedded", head=head.note, tree_size=head.size)


def test_conduct_run_before_its_anchor_is_caught(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        leaf, anchor = _registered(ledger, "covered")
        seed = time_locked_seed(anchor.head, leaf, 0)
        ledger.append(run_started(seed), subject=SUBJECT, refs=[leaf])
        ledger.append(anchor, subject=SUBJECT, refs=[leaf])
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(report, "seeds", "its registration has no anchor before it")


def test_conduct_only_the_first_anchor_gives_seeds(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        leaf, anchor = _registered(ledger, "covered")
        ledger.append(anchor, subject=SUBJECT, refs=[leaf])
        head = ledger.head()
        second = Anchor(method="embedded", head=head.note, tree_size=head.size)
        ledger.append(second, subject=SUBJECT, refs=[leaf])
        seed = time_locked_seed(second.head, leaf, 0)
        ledger.append(run_started(seed), subject=SUBJECT, refs=[leaf])
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(report, "seeds", f"its seed is {seed}, not")


def _anchor_cases(anchor: Anchor, story: LogFolder) -> dict[str, tuple[Anchor, str]]:
    key = load_keys(story.root / "keys", ORIGIN).log
    forged = sign_head(key, anchor.tree_size, bytes(32))
    future = sign_head(key, 99, bytes(32))
    return {
        "size differs": (anchor.model_copy(update={"tree_size": 1}), "is of size 2, it says 1"),
        "not signed": (anchor.model_copy(update={"head": "x\n\n— a AAAA\n"}), "does not verify"),
        "other history": (anchor.model_copy(update={"head": forged.note}), "over other entries"),
        "of the future": (
            Anchor(method="embedded", head=future.note, tree_size=99), "is of size 99"),
    }  # fmt: skip


@pytest.mark.parametrize("case", ["size differs", "not signed", "other history", "of the future"])
def test_anchor_with_a_head_that_is_not_this_logs_is_caught(fresh: LogFolder, case: str) -> None:
    with fresh.create() as ledger:
        leaf, anchor = _registered(ledger, "covered")
        wrong, message = _anchor_cases(anchor, fresh)[case]
        ledger.append(wrong, subject=SUBJECT, refs=[leaf])
        _failure(verify_log(ledger, vkey=ledger.vkey, kept_head=None), "anchors", message)


def test_anchor_that_does_not_cover_or_name_its_registration_is_caught(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        leaf, early = _registered(ledger, "not covered")
        entry = ledger.append(early, subject=SUBJECT, refs=[leaf])
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(
            report, "anchors", f"entry {entry.sequence} (anchor {entry.id}): its head does not"
        )


def test_anchor_without_a_registration_is_caught(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        _, anchor = _registered(ledger, "covered")
        ledger.append(anchor, subject=SUBJECT)
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        _failure(report, "anchors", f"it refers to no registration of {SUBJECT}")


def test_author_signature_is_over_the_log_and_the_leaf(story: LogFolder) -> None:
    with story.open() as ledger:
        entry = next(ledger.entries(kind="verdict"))
    author = load_keys(story.root / "keys", ORIGIN).author
    raw = base64.b64decode(entry.signature)
    assert author.verifier.accepts(raw[4:], signed_text(ORIGIN, entry.leaf).encode())
    assert not author.verifier.accepts(raw[4:], signed_text("other.com/log", entry.leaf).encode())


def test_checks_are_documented_under_their_numbers() -> None:
    text = (Path(__file__).parents[2] / "docs" / "record-format.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| [0-9]+ \|", line)]
    assert rows == [f"| {n} | {step.name} | {step.claim} |" for n, step in enumerate(STEPS, 1)]
