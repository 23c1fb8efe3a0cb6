"""Writing and reading a ledger, and both kinds of log behind the same interface."""

import base64
import hashlib
import json
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import rfc8785

from tests.registry.conftest import ORIGIN, STORY_KINDS, SUBJECT, LogFolder, ticking
from workbench.errors import (
    ConflictError,
    IntegrityError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
)
from workbench.registry.entries import BODIES, Decision, Note, Trial
from workbench.registry.heads import verify_head
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger, LogSource
from workbench.registry.log import MAX_ENVELOPE_BYTES, read_entry, timestamp, uuid7
from workbench.registry.merkle import leaf_hash, tree_root
from workbench.registry.notes import SigningKey, VerifierKey
from workbench.registry.publish import PublishedLog
from workbench.registry.store import create_store, open_store
from workbench.registry.verify import verify_log


@pytest.fixture(params=["ledger", "published"])
def source(request: pytest.FixtureRequest, story: LogFolder) -> LogSource:
    return story.open() if request.param == "ledger" else PublishedLog(story.published)


def test_source_yields_every_kind_in_order_with_typed_bodies(source: LogSource) -> None:
    entries = list(source.entries())
    assert [entry.sequence for entry in entries] == list(range(17))
    assert {entry.kind for entry in entries} == set(STORY_KINDS)
    for entry in entries:
        assert type(entry.body) is BODIES[entry.kind]
        assert entry.leaf == leaf_hash(entry.envelope).hex()
        assert json.loads(entry.body_bytes) == entry.body.to_json()
        assert bool(entry.signature) == entry.body.signed
    assert entries[0].subject == "lab"
    assert entries[1].time == "2026-01-01T00:00:01.000Z"
    assert entries[4].refs == (entries[1].leaf,)


def test_source_filters_by_kind_and_by_subject(source: LogSource) -> None:
    assert [entry.kind for entry in source.entries(kind="trial")] == ["trial"]
    assert len(list(source.entries(subject=SUBJECT))) == 16
    assert list(source.entries(kind="trial", subject="lab")) == []


def test_source_head_covers_the_entries(source: LogSource) -> None:
    head = source.head()
    assert head is not None
    leaves = [bytes.fromhex(entry.leaf) for entry in source.entries()]
    assert (head.origin, source.origin, head.size) == (ORIGIN, ORIGIN, 17)
    assert head.root == tree_root(leaves)


def test_source_both_kinds_give_equal_entries(story: LogFolder) -> None:
    with story.open() as ledger:
        assert list(ledger.entries()) == list(PublishedLog(story.published).entries())


def test_source_of_another_log_is_refused_on_reading(story: LogFolder) -> None:
    story.sql("UPDATE entries SET envelope = CAST(replace(envelope, 'lab', 'lub') AS BLOB)")
    # Opened to write, the first entry is read at once, because it names the keys.
    with pytest.raises(IntegrityError, match=r"entry 0 .genesis .*leaf"), story.open() as ledger:
        list(ledger.entries())


def test_source_changed_body_is_refused_on_reading(story: LogFolder) -> None:
    story.sql("UPDATE entries SET body = CAST(body || ' ' AS BLOB) WHERE sequence = 16")
    with (
        story.open() as ledger,
        pytest.raises(IntegrityError, match=r"entry 16 .note .*body") as no,
    ):
        list(ledger.entries())
    assert no.value.remedy == "workbench verify"


def test_entry_of_another_log_is_refused_on_reading(story: LogFolder) -> None:
    with story.open() as ledger:
        stored = next(ledger.records())
        assert read_entry(stored, ORIGIN).kind == "genesis"
        with pytest.raises(IntegrityError, match=r"entry 0 .*it belongs to log 'example\.com/lab'"):
            read_entry(stored, "example.com/other")


def test_inspect_shows_a_store_that_open_refuses_and_takes_no_entries(story: LogFolder) -> None:
    arguments = {"url": f"sqlite:///{story.database}", "origin": ORIGIN}
    with Ledger.inspect(**arguments, keys_dir=story.root / "keys") as ledger:
        assert len(list(ledger.entries())) == 17
        with pytest.raises(ConflictError, match="only inspected"):
            ledger.append(Note(text="x"), subject="lab")
    story.sql("UPDATE tree SET frontier = zeroblob(64)")
    with pytest.raises(IntegrityError):
        story.open()
    with Ledger.inspect(**arguments, keys_dir=story.root / "keys") as ledger:
        assert not verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_create_then_open_continues_the_same_log(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        first = ledger.append(Note(text="one"), subject="lab")
    with fresh.open() as ledger:
        second = ledger.append(Note(text="two"), subject="lab", refs=[first.leaf])
        assert (first.sequence, second.sequence) == (1, 2)
        assert verify_head(ledger.head().note, VerifierKey.parse(ledger.vkey)).size == 3
        assert (fresh.keys / "last-head").read_text() == ledger.head().note
        assert [entry.body for entry in ledger.entries(kind="note")] == [
            Note(text="one"), Note(text="two")]  # fmt: skip


def test_create_twice_is_refused_and_changes_nothing(fresh: LogFolder) -> None:
    fresh.create().close()
    before = (fresh.keys / "log.key").read_bytes()
    with pytest.raises(ConflictError, match="have already signed a log"):
        fresh.create()
    (fresh.keys / "last-head").rename(fresh.root / "kept")
    with pytest.raises(ConflictError, match="already holds a log"):
        fresh.create()
    assert (fresh.keys / "log.key").read_bytes() == before


def test_create_after_keys_only_takes_them_up(fresh: LogFolder, tmp_path: Path) -> None:
    fresh.create().close()
    again = LogFolder(root=tmp_path / "again")
    again.keys.mkdir(parents=True, mode=0o700)
    for name in ("log.key", "author.key"):
        (again.keys / name).write_bytes((fresh.keys / name).read_bytes())
        (again.keys / name).chmod(0o600)
    with again.create() as ledger:
        assert ledger.vkey == str(load_keys(fresh.root / "keys", ORIGIN).log.verifier)


def test_record_format_of_version_1_stays_as_it_is(fresh: LogFolder) -> None:
    """Same keys, clock and entropy: the same bytes, whatever the code becomes."""
    fresh.keys.mkdir(parents=True, mode=0o700)
    for name, key in (
        ("log.key", SigningKey(name=ORIGIN, seed=bytes(range(32)))),
        ("author.key", SigningKey(name=f"{ORIGIN}/author", seed=bytes(32))),
    ):
        (fresh.keys / name).write_text(key.to_text())
        (fresh.keys / name).chmod(0o600)
    with Ledger.create(
        url=f"sqlite:///{fresh.database}", origin=ORIGIN, keys_dir=fresh.root / "keys",
        actor="researcher", clock=ticking(), lab_name="lab", entropy=lambda count: bytes(count),
    ) as ledger:  # fmt: skip
        decision = Decision(question="?", options=["a"], chosen="a", basis="rule", evidence=[],
                            owner="o", reversible=True, would_reverse="é")  # fmt: skip
        entry = ledger.append(decision, subject="lab")
        assert entry.envelope.decode() == GOLDEN_ENVELOPE
        assert entry.signature == GOLDEN_SIGNATURE
        assert ledger.head().note == GOLDEN_HEAD
        stored = list(ledger.records())
    # The same by hand, from the words of docs/record-format.md.
    body = rfc8785.dumps(json.loads(entry.body_bytes))
    digest = hashlib.sha256(b"\x02" + bytes(16) + body).hexdigest()
    assert json.loads(entry.envelope)["body_hash"] == digest
    leaves = [hashlib.sha256(b"\x00" + one.envelope).digest() for one in stored]
    root = hashlib.sha256(b"\x01" + leaves[0] + leaves[1]).digest()
    assert base64.b64decode(GOLDEN_HEAD.split("\n")[2]) == root


GOLDEN_ENVELOPE = (
    '{"actor":"researcher","body_hash":"a432329a32355fa48964d40d6c0ca1cc1aa86498310aac0b719261cbd94e'
    '9ae4","id":"019b76da-abe8-7000-8000-000000000000","kind":"decision","log":"example.com/lab",'
    '"refs":[],"subject":"lab","time":"2026-01-01T00:00:01.000Z","v":1}'
)
GOLDEN_SIGNATURE = (
    "GHtMEge+PFpCiiiD/EoAHQZ0D/ucxNny/ct12xmaSCDo5leK/DflEpqRkHTYZAE31iZeL2K7medd4gyzbs0ZubF/UgM="
)
GOLDEN_HEAD = (
    "example.com/lab\n2\n2YRA3dqpvqhb7wsYua0ExJvcEbVKAbpHdc6w8LrqnK0=\n\n— example.com/lab "
    "9E18b4bF+Ll88n3FXEAdLVqkn4jDhqGxV3jzzx6vExHiTMfJvITGnifOPoZRV2JlHuAZOnGzle0Xwhyu59bfgnOqEwE=\n"
)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"subject": "../x"}, InvalidFileError, "subject"),
        ({"subject": ""}, InvalidFileError, "subject"),
        ({"refs": ["xyz"]}, InvalidFileError, "not leaf hashes"),
        ({"refs": ["00" * 32]}, NotFoundError, "to no entry"),
        ({"refs": ["AB" * 32]}, NotFoundError, "to no entry"),
        ({"body": Note(text="\ud800")}, InvalidFileError, "surrogate"),
    ],
)
def test_append_what_cannot_be_recorded_is_refused_and_leaves_no_trace(
    story: LogFolder, change: dict[str, object], error: type[Exception], message: str
) -> None:
    with story.open() as ledger:
        arguments: dict[str, object] = {"body": Note(text="x"), "subject": "lab", "refs": []}
        with pytest.raises(error, match=message):
            ledger.append(**(arguments | change))  # type: ignore[arg-type]
        assert ledger.head().size == 17
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_append_upper_case_or_repeated_reference_is_refused(story: LogFolder) -> None:
    with story.open() as ledger:
        leaf = next(ledger.entries()).leaf
        with pytest.raises(InvalidFileError, match="refs"):
            ledger.append(Note(text="x"), subject="lab", refs=[leaf.upper()])
        with pytest.raises(NotFoundError, match="repeated"):
            ledger.append(Note(text="x"), subject="lab", refs=[leaf, leaf])


def test_append_body_with_a_key_outside_the_profile_is_refused(story: LogFolder) -> None:
    params = {"Balance-Weight": 0.1}
    trial = Trial(mode="exploratory", number=0, state="failed", scale="s", params=params, seed="1",
                  metric="m", steps=0, tokens=0, device_seconds=0.0, mlflow_run="")  # fmt: skip
    with story.open() as ledger, pytest.raises(InvalidFileError, match="snake_case"):
        ledger.append(trial, subject=SUBJECT)


def test_append_envelope_too_long_for_a_bundle_is_refused(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_ENVELOPE_BYTES == 65535
    with story.open() as ledger:
        leaves = [entry.leaf for entry in ledger.entries()]
        longest = len(ledger.append(Note(text="x"), subject="lab", refs=leaves).envelope)
        monkeypatch.setattr("workbench.registry.writer.MAX_ENVELOPE_BYTES", longest)
        ledger.append(Note(text="y"), subject="lab", refs=leaves)
        monkeypatch.setattr("workbench.registry.writer.MAX_ENVELOPE_BYTES", longest - 1)
        with pytest.raises(InvalidFileError, match="17 references are too many"):
            ledger.append(Note(text="z"), subject="lab", refs=leaves)
        assert ledger.head().size == 19


def test_append_clock_without_a_time_zone_is_refused(story: LogFolder) -> None:
    with (
        story.open(clock=lambda: datetime(2026, 1, 1)) as ledger,  # noqa: DTZ001
        pytest.raises(InvalidFileError, match="no time zone"),
    ):
        ledger.append(Note(text="x"), subject="lab")


def test_append_non_finite_value_is_marked_and_read_back(story: LogFolder) -> None:
    """B2, B10."""
    with story.open() as ledger:
        ended = next(ledger.entries(kind="run_ended"))
    assert b'"loss":"non-finite(nan)"' in ended.body_bytes
    assert b"NaN" not in ended.body_bytes


def test_append_from_threads_gives_one_sequence(fresh: LogFolder) -> None:
    """B4, within one process."""
    with fresh.create() as ledger:

        def write(n: int) -> None:
            for m in range(5):
                ledger.append(Note(text=f"{n}.{m}"), subject="lab")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        texts = {entry.body.text for entry in ledger.entries(kind="note")}  # type: ignore[attr-defined]
        assert texts == {f"{n}.{m}" for n in range(4) for m in range(5)}
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_open_store_rolled_back_is_refused(story: LogFolder) -> None:
    story.sql(
        "DELETE FROM entries WHERE sequence = 16",
        "UPDATE tree SET size = 16, frontier = (SELECT zeroblob(32))",
        "DELETE FROM heads WHERE size = 17",
    )
    with pytest.raises(IntegrityError, match="holds 16 entries but a head over 17 was signed"):
        story.open()


def test_open_older_copy_of_the_store_is_refused_also_on_append(story: LogFolder) -> None:
    ledger = story.open()
    older = story.database.read_bytes()
    with story.open() as other:
        other.append(Note(text="newer"), subject="lab")
    ledger.close()
    for leftover in story.database.parent.glob("ledger.db-*"):
        leftover.unlink()
    story.database.write_bytes(older)
    with pytest.raises(IntegrityError, match="rolled back"):
        story.open()
    with pytest.raises(IntegrityError, match="rolled back"):
        ledger.append(Note(text="fork"), subject="lab")
    ledger.close()


def test_open_store_with_other_entries_than_signed_is_refused(story: LogFolder) -> None:
    story.sql("UPDATE tree SET frontier = zeroblob(64)")
    with pytest.raises(IntegrityError, match="not those that were signed"):
        story.open()


def test_open_without_the_last_head_is_refused(story: LogFolder) -> None:
    (story.keys / "last-head").unlink()
    with pytest.raises(IntegrityError, match="last signed head covers 0") as refusal:
        story.open()
    assert "backup of the keys" in refusal.value.remedy


def test_open_with_a_last_head_of_another_key_is_refused(story: LogFolder) -> None:
    path = story.keys / "last-head"
    path.write_text(path.read_text().replace("\n17\n", "\n18\n"))
    with pytest.raises(IntegrityError, match="does not fit what it signs"):
        story.open()


def test_open_missing_store_or_other_file_is_refused(story: LogFolder, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no ledger at"):
        open_store(f"sqlite:///{tmp_path}/none.db")
    (tmp_path / "text.db").write_text("not a database, but long enough to be taken for one" * 50)
    with pytest.raises(IntegrityError, match="not a database"):
        open_store(f"sqlite:///{tmp_path}/text.db")
    story.sql("PRAGMA user_version = 7")
    with pytest.raises(IntegrityError, match="schema version 7"):
        story.open()


def test_ledger_without_a_signed_head_says_so(story: LogFolder) -> None:
    ledger = story.open()
    story.sql("DELETE FROM heads")
    with pytest.raises(IntegrityError, match="has no signed head"):
        ledger.head()
    ledger.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://host/db", ""])
def test_store_url_that_is_not_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidFileError, match="neither a SQLite file nor"):
        create_store(url)


def test_store_in_an_impossible_place_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="cannot be created"):
        create_store(f"sqlite:///{tmp_path}/file/ledger.db")


def test_store_locked_by_another_program_is_unavailable_and_nothing_is_written(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.registry.store.sqlite._BUSY_SECONDS", 0.05)
    with story.open() as ledger:
        other = sqlite3.connect(story.database, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            ledger.append(Note(text="x"), subject="lab")
        other.execute("ROLLBACK")
        other.close()
        assert ledger.append(Note(text="x"), subject="lab").sequence == 17


def test_store_lock_file_that_cannot_be_opened_is_unavailable(story: LogFolder) -> None:
    (story.database.parent / "ledger.db.lock").unlink()
    (story.database.parent / "ledger.db.lock").mkdir()
    with pytest.raises(StoreUnavailableError, match="lock"):
        story.open()


def _copy(verb: str, first: str) -> str:
    rest = "kind, subject, envelope, salt, body, signature, announcement"
    return f"{verb} INTO entries SELECT {first}, {rest} FROM entries WHERE sequence = 3"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entries SET kind = 'x'", "never changed"),
        ("DELETE FROM entries", "never deleted"),
        ("INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 3", "each once"),
        (_copy("REPLACE", "17, leaf, 'new'"), "each once"),
        (_copy("REPLACE", "17, x'00', id"), "each once"),
        (_copy("INSERT", "18, x'00', 'new'"), "without a gap"),
        (_copy("INSERT", "NULL, x'00', 'new'"), "without a gap"),
        ("UPDATE tree SET size = size + 2", "grows with its entries"),
        ("UPDATE tree SET frontier = x''", "grows with its entries"),
        ("DELETE FROM tree", "never deleted"),
        ("REPLACE INTO tree VALUES (1, 0, x'')", "there is one tree"),
        ("UPDATE heads SET note = ''", "never changed"),
        ("DELETE FROM heads", "never deleted"),
        ("REPLACE INTO heads VALUES (17, 'x')", "newer than the last"),
        ("INSERT INTO heads VALUES (18, 'x')", "durable entries only"),
    ],
)  # fmt: skip
def test_store_triggers_refuse_what_is_not_an_append(
    story: LogFolder, statement: str, message: str
) -> None:
    connection = sqlite3.connect(story.database)
    with pytest.raises(sqlite3.IntegrityError, match=message):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("chunk", [1, 5, 17, 18])
def test_store_records_read_in_chunks_are_all_there_in_order(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """B6: nothing is cut off at a page's end."""
    monkeypatch.setattr("workbench.registry.store.sql._CHUNK", chunk)
    with story.open() as ledger:
        assert [entry.sequence for entry in ledger.entries()] == list(range(17))
        assert [entry.sequence for entry in ledger.entries(subject="lab")] == [0]


def test_uuid7_carries_its_moment_and_its_version() -> None:
    text = uuid7(datetime(2026, 1, 1, tzinfo=UTC), b"\xff" * 10)
    assert text == "019b76da-a800-7fff-bfff-ffffffffffff"
    assert int(text.replace("-", "")[:12], 16) == 1767225600000
    assert uuid7(datetime(2026, 1, 1, tzinfo=UTC), bytes(10))[14:20] == "7000-8"


def test_timestamp_is_utc_with_milliseconds() -> None:
    moment = datetime.fromisoformat("2026-01-01T01:00:00.123456+02:00")
    assert timestamp(moment) == "2025-12-31T23:00:00.123Z"
