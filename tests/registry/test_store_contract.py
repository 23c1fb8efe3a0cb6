"""One suite for every store: SQLite and PostgreSQL keep the same promises in the same words."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import postgres
from tests.registry.conftest import ORIGIN
from tests.registry.reference import frontier_of
from tests.registry.stores import Place
from tests.registry.writers import killed_in_rounds, started_together
from workbench.errors import (
    ConflictError,
    IntegrityError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
)
from workbench.registry.drafts import wish
from workbench.registry.entries import Note, Redaction
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.log import StoredEntry
from workbench.registry.merkle import Frontier, leaf_hash, tree_root
from workbench.registry.notes import SigningKey
from workbench.registry.requests import request
from workbench.registry.store import SCHEMA_VERSION, Store, store_exists
from workbench.registry.subtrees import grown, prefix
from workbench.registry.verify import verify_log
from workbench.registry.writer import Writer

SECRET = "correct horse battery staple"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The test database; it is left as it was found, save for dropped schemas."""
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    with postgres.server() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a store may be made; there is none yet."""
    if request.param == "sqlite":
        yield Place(url=f"sqlite:///{tmp_path}/state/ledger.db", root=tmp_path)
        return
    url = request.getfixturevalue("postgres_url")
    place = Place(url=f"{url}&schema=test" if "?" in url else f"{url}?schema=test", root=tmp_path)
    yield place
    place.sql("DROP SCHEMA IF EXISTS test CASCADE")


def numbered(count: int, first: int = 0) -> list[StoredEntry]:
    return [
        StoredEntry(sequence=n, leaf=leaf_hash(b"e%d" % n), envelope=b"e%d" % n, salt=b"s" * 16,
                    body=b"b%d" % n, signature="", id=f"id-{n}", kind="odd" if n % 2 else "even",
                    subject="lab")
        for n in range(first, first + count)
    ]  # fmt: skip


@pytest.fixture
def filled(place: Place) -> Place:
    """A store with 700 entries that belong to no log."""
    store = place.create_store()
    entries = numbered(700)
    with store.lock():
        store.fill(entries, [f"a{n}" for n in range(700)], [])
    store.close()
    return place


def test_store_that_is_not_there_is_not_found(place: Place) -> None:
    assert not store_exists(place.url)
    for method in (place.open_store, place.read_store):
        with pytest.raises(NotFoundError, match="there is no ledger"):
            method()


def test_created_store_is_empty_and_created_again_it_is_the_same(place: Place) -> None:
    with_entry = place.create_store()
    assert not store_exists(place.url)
    assert (with_entry.tree(), with_entry.last_note(), with_entry.heads()) == (Frontier(), "", [])
    with with_entry.lock():
        (entry,) = numbered(1)
        with_entry.append([entry], ["a"], grown(Frontier(), [entry.leaf]))
    assert store_exists(place.url)
    with_entry.close()
    again = place.create_store()
    assert again.tree().size == 1
    again.close()


def test_append_one_and_several_are_there_in_full(place: Place) -> None:
    store = place.create_store()
    tree, all_entries = Frontier(), numbered(9)
    for batch in (all_entries[:1], all_entries[1:7], all_entries[7:]):
        with store.lock():
            assert store.tree() == tree
            growth = grown(tree, [entry.leaf for entry in batch])
            store.append(batch, [f"a{entry.sequence}" for entry in batch], growth)
            tree = growth.tree
    assert list(store.records(below=9)) == all_entries
    assert list(store.records(since=3, below=5)) == all_entries[3:5]
    assert store.announcements(since=2, below=4) == ["a2", "a3"]
    assert store.tree() == frontier_of(entry.leaf for entry in all_entries)
    assert store.leaves(4) == [entry.leaf for entry in all_entries[:4]]
    store.close()


def test_append_text_and_bytes_come_back_as_they_went_in(place: Place) -> None:
    """Quotes, backslashes, question marks and every byte: nothing is taken for SQL."""
    store = place.create_store()
    odd = "'; DROP TABLE entries; -- ? \\ \"é\n\t"
    (entry,) = numbered(1)
    entry = replace(entry, envelope=bytes(range(256)), body=odd.encode(), subject=odd, salt=b"'?\0")
    with store.lock():
        store.append([entry], [odd], grown(Frontier(), [entry.leaf]))
        store.add_head(1, odd)
    assert list(store.records(below=1, subject=odd)) == [entry]
    assert store.announcements(since=0, below=1) == [odd]
    assert store.heads() == [(1, odd)]
    store.close()


def test_append_that_is_refused_leaves_nothing(place: Place) -> None:
    store = place.create_store()
    first, second, third = numbered(3)
    with store.lock():
        store.append([first], ["a"], grown(Frontier(), [first.leaf]))
    before = store.tree()
    for bad in (
        [third],
        [second, replace(third, leaf=first.leaf)],
        [second, replace(third, id=first.id)],
        [replace(second, sequence=0)],
    ):
        growth = grown(before, [entry.leaf for entry in bad])
        with pytest.raises(IntegrityError, match="refused"), store.lock():
            store.append(bad, ["a"] * len(bad), growth)
        assert store.tree() == before
        assert list(store.records(below=9)) == [first]
    with store.lock():
        store.append([second], ["a"], grown(before, [second.leaf]))
    assert store.tree().size == 2
    store.close()


def test_records_filter_and_are_never_cut_short(filled: Place) -> None:
    """B6: more rows than one chunk."""
    store = filled.read_store()
    entries = numbered(700)
    assert list(store.records(below=700)) == entries
    assert list(store.records(below=601, kind="odd")) == entries[1:601:2]
    assert list(store.records(below=700, kind="odd", subject="other")) == []
    assert list(store.records(since=511, below=514)) == entries[511:514]
    store.close()


def test_unknown_leaves_are_told_from_known_ones(filled: Place) -> None:
    store = filled.read_store()
    known = [entry.leaf for entry in numbered(700)]
    unknown = [leaf_hash(b"x%d" % n) for n in range(3)]
    assert store.unknown_leaves([unknown[0], *known, *unknown[1:]]) == unknown
    assert store.unknown_leaves([]) == []
    store.close()


def test_hashes_are_the_roots_of_complete_subtrees(filled: Place) -> None:
    store = filled.read_store()
    leaves = [entry.leaf for entry in numbered(700)]
    assert store.hashes(0, 5, 9) == leaves[5:9]
    assert store.hashes(1, 0, 2) == [tree_root(leaves[:256]), tree_root(leaves[256:512])]
    assert store.hashes(1, 1, 2) == [tree_root(leaves[256:512])]
    assert store.hashes(1, 1, 1) == []
    for size in (1, 2, 255, 256, 257, 511, 512, 513, 700):
        assert prefix(store.hashes, size) == frontier_of(leaves[:size])
    with pytest.raises(IntegrityError, match="has 0 of the hashes 2 to 3 of level 1"):
        store.hashes(1, 2, 3)
    store.close()


def test_heads_are_kept_in_order_and_cover_what_is_there(place: Place) -> None:
    store = place.create_store()
    entries = numbered(3)
    with store.lock():
        store.append(entries, ["a"] * 3, grown(Frontier(), [entry.leaf for entry in entries]))
        assert store.last_note() == ""
        store.add_head(1, "one")
        store.add_head(3, "three")
    assert store.heads() == [(1, "one"), (3, "three")]
    assert store.last_note() == "three"
    for size in (2, 3, 4):
        with pytest.raises(IntegrityError, match="a signed head is newer"), store.lock():
            store.add_head(size, "x")
    assert store.last_note() == "three"
    store.close()


def _columns(first: str) -> str:
    rest = "kind, subject, envelope, salt, body, signature, announcement"
    return f"INSERT INTO entries SELECT {first}, {rest} FROM entries WHERE sequence = 3"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE entries SET kind = 'x'", "never changed"),
        ("UPDATE entries SET body = '', salt = '' WHERE sequence = 3", "never changed"),
        ("DELETE FROM entries", "never deleted"),
        (_columns("701, leaf, 'new'"), "without a gap"),
        (_columns("700, leaf, 'new'"), "each once"),
        ("UPDATE tree SET size = size + 2", "grows with its entries"),
        ("UPDATE tree SET frontier = ''", "grows with its entries"),
        ("DELETE FROM tree", "never deleted"),
        ("INSERT INTO tree VALUES (1, 0, '')", "there is one tree"),
        ("INSERT INTO heads VALUES (701, 'x')", "durable entries only"),
        ("UPDATE subtrees SET hash = ''", "never changed"),
        ("DELETE FROM subtrees", "never deleted"),
        ("INSERT INTO subtrees VALUES (1, 0, '')", "kept once"),
        ("INSERT INTO redactions VALUES (3, 5)", "no redaction entry names"),
        ("INSERT INTO redactions VALUES (3, 900)", "no redaction entry names"),
    ],
)  # fmt: skip
def test_guards_refuse_what_is_not_an_append(filled: Place, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        filled.sql(statement, guarded=True)
    assert filled.sql("SELECT count(*) FROM entries WHERE length(body) > 0")[0][0] == 700


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["entries", "tree", "heads", "subtrees", "redactions"])
def test_guards_refuse_truncate(filled: Place, table: str) -> None:
    if filled.is_sqlite:
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises(Exception, match="never emptied"):
        filled.sql(f"TRUNCATE {table}", guarded=True)


def test_lock_keeps_threads_apart_and_is_given_back_after_an_error(place: Place) -> None:
    store, inside, seen = place.create_store(), 0, []

    def work() -> None:
        nonlocal inside
        for _ in range(20):
            with store.lock():
                inside += 1
                seen.append(inside)
                store.tree()
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 80
    for error in (ValueError, ConflictError):
        with pytest.raises(error), store.lock():
            raise error("no")
        with store.lock():
            pass
    store.close()


def test_reserved_name_is_held_by_one_at_a_time_and_does_not_keep_anybody_from_writing(
    place: Place,
) -> None:
    here, there = place.create_store(), place.open_store()
    with here.reserved("0001-x confirmatory") as mine:
        with there.reserved("0001-x confirmatory") as theirs, there.reserved("0002-y") as other:
            assert (mine, theirs, other) == (True, False, True)
        with there.lock_if_free() as free:
            assert free
    with there.reserved("0001-x confirmatory") as again:
        assert again
    with pytest.raises(RuntimeError), here.reserved("0001-x confirmatory"):
        raise RuntimeError
    with there.reserved("0001-x confirmatory") as after:
        assert after
    here.close()
    there.close()


def test_store_may_be_used_after_it_was_closed(filled: Place) -> None:
    store = filled.open_store()
    store.close()
    assert store.tree().size == 700
    store.close()
    store.close()


def test_store_of_a_later_version_is_refused_with_the_way_out(filled: Place) -> None:
    later = SCHEMA_VERSION + 1
    filled.sql(
        f"PRAGMA user_version = {later}"
        if filled.is_sqlite
        else f"UPDATE schema_version SET version_num = '{later}'"
    )
    for method in (filled.open_store, filled.read_store, filled.create_store):
        with pytest.raises(IntegrityError, match=f"schema version {later}") as refusal:
            method()
        assert "pip install --upgrade" in refusal.value.remedy


def test_reader_cannot_write(filled: Place) -> None:
    store = filled.read_store()
    (entry,) = numbered(1, first=700)
    with pytest.raises(StoreUnavailableError, match=r"read-?only"), store.lock():
        store.append([entry], [""], grown(store.tree(), [entry.leaf]))
    assert store.tree().size == 700
    store.close()


# The ledger over both stores


def test_ledger_is_written_healed_read_and_verified(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.create() as ledger:
        first = ledger.append(Note(text="one"), subject="lab")
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "_sign", lambda *_: None)
            ledger.append(Note(text="two"), subject="lab", refs=[first.leaf])
        assert ledger.head().size == 2
    with place.open() as ledger:
        assert ledger.head().size == 3
        third = ledger.append(Note(text="three"), subject="lab")
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
        assert [entry.sequence for entry in ledger.entries()] == [0, 1, 2, 3]
        assert list(ledger.entries())[-1] == third
    with place.inspect() as reader:
        assert reader.vkey == str(load_keys(place.keys_dir, ORIGIN).log.verifier)
        assert verify_log(reader, vkey=reader.vkey, kept_head=None).size == 4
        with pytest.raises(ConflictError, match="only inspected"):
            reader.append(Note(text="x"), subject="lab")


def test_several_entries_without_a_head_are_signed_if_each_was_announced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.create() as ledger:
        known = place.last_head.read_bytes()
        with monkeypatch.context() as patch:
            # What a loss of power leaves: entries, but neither their heads nor the last one.
            patch.setattr(Writer, "_sign", lambda *_: None)
            patch.setattr(Writer, "continued_tree", lambda writer: writer._store.tree())
            for n in range(300):
                ledger.append(Note(text=str(n)), subject="lab")
    assert place.last_head.read_bytes() == known
    forged = "UPDATE entries SET announcement = 'mac1:00' WHERE sequence = 150"
    (announced,) = place.sql("SELECT announcement FROM entries WHERE sequence = 150")[0]
    place.sql(forged)
    with pytest.raises(IntegrityError, match=r"entry 150 \(note .* by something else"):
        place.open()
    place.sql(f"UPDATE entries SET announcement = '{announced}' WHERE sequence = 150")
    with place.open() as ledger:
        assert ledger.head().size == 301
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_writer_on_another_machine_goes_on_from_its_own_last_head(place: Place) -> None:
    """Both have the keys; each knows only the heads that it signed itself."""
    with place.create() as ledger:
        elsewhere = place.last_head.read_bytes()
        for n in range(5):
            ledger.append(Note(text=str(n)), subject="lab")
        here = place.last_head.read_bytes()
        place.last_head.write_bytes(elsewhere)
        assert ledger.append(Note(text="from there"), subject="lab").sequence == 6
        place.last_head.write_bytes(here)
        assert ledger.append(Note(text="from here"), subject="lab").sequence == 7
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
        assert len(list(ledger.notes())) == 8


def test_store_that_was_rolled_back_is_refused(place: Place) -> None:
    with place.create() as ledger:
        for n in range(3):
            ledger.append(Note(text=str(n)), subject="lab")
    place.sql(
        "DELETE FROM entries WHERE sequence = 3",
        "DELETE FROM heads WHERE size = 4",
        "UPDATE tree SET size = 3",
    )
    with pytest.raises(IntegrityError, match=r"rolled back|do not make 3 leaves"):
        place.open()


# Erasing and restoring


def _redacted(place: Place) -> tuple[Ledger, int, int]:
    ledger = place.create()
    entry = ledger.append(Note(text=SECRET), subject="lab")
    ledger.append(Note(text="other"), subject="lab")
    body = Redaction(reason="a name", what="personal_data")
    redaction = ledger.append(body, subject="lab", refs=[entry.leaf])
    return ledger, entry.sequence, redaction.sequence


def erase(ledger: Ledger, sequence: int, by: int) -> None:
    with ledger._store.lock():
        ledger._store.erase(sequence, by=by)


def test_erase_takes_the_body_and_nothing_else(place: Place) -> None:
    ledger, entry, redaction = _redacted(place)
    before = list(ledger.records())
    for _ in range(2):
        erase(ledger, entry, redaction)
        after = list(ledger.records())
        assert after[entry].is_hidden
        assert after[entry] == replace(before[entry], body=b"", salt=b"")
        assert after[:entry] + after[entry + 1 :] == before[:entry] + before[entry + 1 :]
    assert ledger.append(Note(text="go on"), subject="lab").sequence == 4
    ledger.close()
    if place.is_sqlite:
        folder = place.file.parent
        assert not [p for p in folder.iterdir() if SECRET.encode() in p.read_bytes()]


def test_erase_needs_a_redaction_that_names_the_entry(place: Place) -> None:
    ledger, entry, redaction = _redacted(place)
    for sequence, by in (
        (entry + 1, redaction), (entry, entry + 1), (redaction, redaction), (99, redaction),
    ):  # fmt: skip
        with pytest.raises(IntegrityError, match="no redaction entry names"):
            erase(ledger, sequence, by)
    assert not any(stored.is_hidden for stored in ledger.records())
    ledger.close()


def test_erase_while_somebody_reads_is_not_reported_as_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not place.is_sqlite:
        pytest.skip("PostgreSQL waits for its readers")
    monkeypatch.setattr("workbench.registry.store.sqlite._BUSY_SECONDS", 0.05)
    ledger, entry, redaction = _redacted(place)
    with place.inspect() as other, other._store._connection() as reader:  # type: ignore[attr-defined]
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        with pytest.raises(StoreUnavailableError, match="is being read"):
            erase(ledger, entry, redaction)
        reader.execute("COMMIT")
    erase(ledger, entry, redaction)
    assert list(ledger.records())[entry].is_hidden
    ledger.close()


def test_fill_gives_the_log_back_with_its_holes(place: Place, tmp_path: Path) -> None:
    ledger, entry, redaction = _redacted(place)
    erase(ledger, entry, redaction)
    records, notes = list(ledger.records()), list(ledger.notes())
    ledger.close()
    other = Place(url=f"sqlite:///{tmp_path}/restored.db", root=place.root)
    store = other.create_store()
    with store.lock():
        # A published log gives no indices; the caller takes them from the envelopes.
        store.fill(records, [""] * len(records), notes[-1:])
    assert list(store.records(below=9)) == records
    assert store.heads() == [(len(records), notes[-1])]
    with pytest.raises(ConflictError, match="already holds 4 entries"), store.lock():
        store.fill(records, [""] * 4, [])
    store.close()
    with other.open() as restored:
        assert restored.append(Note(text="after"), subject="lab").sequence == 4
        erase(restored, entry, redaction)


def test_fill_that_fails_leaves_the_store_empty(place: Place) -> None:
    store = place.create_store()
    entries = numbered(5)
    with pytest.raises(IntegrityError), store.lock():
        store.fill([*entries[:3], entries[4]], [""] * 4, [])
    assert store.tree() == Frontier()
    assert list(store.records(below=9)) == []
    store.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://host", "names no database"),
        ("postgresql://host/a/b", "names no database"),
        ("postgresql://host/db?schema=A-B", "not a lower-case SQL name"),
        ("postgresql://host/db?sslmode=maybe", "none of disable"),
        ("postgresql://user:geheim@host/db?color=red", "'color'"),
    ],
)
def test_postgres_url_that_cannot_be_used_is_refused_without_its_password(
    url: str, message: str
) -> None:
    with pytest.raises(InvalidFileError, match=message) as refusal:
        store_exists(url)
    assert "geheim" not in str(refusal.value)


# Many writers, and killed ones


@pytest.mark.slow
def test_sixteen_processes_starting_together_write_every_row_once(place: Place) -> None:
    """B4: 3,200 rows, no exception, one schema; they also race to create it."""
    leaves = started_together(place, processes=16, count=200)
    with place.open() as ledger:
        texts = [entry.body.text for entry in ledger.entries(kind="note")]  # type: ignore[attr-defined]
        assert len(texts) == len(set(texts)) == len(set(leaves)) == 3200
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
    assert place.sql("SELECT version_num FROM schema_version", guarded=True)[0][0] == str(
        SCHEMA_VERSION
    )


@pytest.mark.slow
def test_writer_killed_in_the_middle_again_and_again_loses_nothing(place: Place) -> None:
    """C3 and A9 in kind: kill -9, 1,000 rounds over one SQLite log and 150 over PostgreSQL."""
    rounds = 1000 if place.is_sqlite else 150
    acknowledged, unsigned = killed_in_rounds(place, rounds)
    assert acknowledged >= rounds
    assert unsigned > 0  # or the moments were not those that this is about
    with place.open() as ledger:
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
        assert ledger.head().size >= acknowledged + 1


# Writers that find the log taken ask the one that has it next


def _waiting(place: Place) -> int:
    if place.is_sqlite:
        spool = place.file.with_name("ledger.db.requests")
        lines = spool.read_bytes().split(b"\n") if spool.exists() else []
        return sum(bool(line) for line in lines)
    count: int = place.sql("SELECT count(*) FROM requests", guarded=True)[0][0]
    return count


@contextmanager
def asked(place: Place, count: int) -> Iterator[Store]:
    """Hold the log while writers ask for an entry each; they are through when this is left."""

    def write(n: int) -> None:
        with place.open(lambda: datetime.now(UTC)) as ledger:
            ready.wait()
            go.wait()
            ledger.append(Note(text=f"asked {n}"), subject="lab")

    ready, go = threading.Barrier(count + 1), threading.Event()
    threads = [threading.Thread(target=write, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    store = place.open_store()
    with store.lock():
        go.set()
        while _waiting(place) < count:
            time.sleep(0.01)
        yield store
    for thread in threads:
        thread.join()
    store.close()


def _notes(ledger: Ledger) -> list[str]:
    return [entry.body.text for entry in ledger.entries(kind="note")]  # type: ignore[attr-defined]


def test_writers_that_wait_are_served_in_one_commit(place: Place) -> None:
    place.create().close()
    with asked(place, 5):
        pass
    with place.open() as ledger:
        assert sorted(_notes(ledger)) == [f"asked {n}" for n in range(5)]
        assert len(list(ledger.notes())) == 2  # the first entry's head, and one over all five
        times = [entry.time for entry in ledger.entries(kind="note")]
        assert times == sorted(times)
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
    assert _waiting(place) == 0


def test_writer_that_waits_refuses_what_cannot_be_recorded_and_minds_the_size(
    place: Place,
) -> None:
    place.create().close()
    with asked(place, 1) as store:
        writer = place.open_store()
        keys = place.keys
        waiting = Writer(store=writer, keys=keys, actor="a", clock=lambda: datetime.now(UTC))
        with pytest.raises(NotFoundError, match="to no entry"):
            waiting.append_in_turn(wish(Note(text="x"), "lab", ["00" * 32]))
        with pytest.raises(InvalidFileError, match="subject"):
            waiting.append_in_turn(wish(Note(text="x"), "../x"))
        assert _waiting(place) == 1
        assert store.tree().size == 1
        writer.close()
    with place.open() as ledger:
        with pytest.raises(ConflictError, match="grew beyond 1 entries"):
            ledger.append(Note(text="x"), subject="lab", at_size=1)
        assert ledger.append(Note(text="x"), subject="lab", at_size=2).sequence == 2
        assert _notes(ledger) == ["asked 0", "x"]


def test_request_that_a_killed_writer_took_with_it_is_made_again(place: Place) -> None:
    place.create().close()
    with asked(place, 3) as store, store.spool() as spool:
        if not place.is_sqlite:
            place.sql("DELETE FROM requests")
        assert len(spool.taken()) == (3 if place.is_sqlite else 0)
    with place.open() as ledger:
        assert sorted(_notes(ledger)) == [f"asked {n}" for n in range(3)]
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_request_of_somebody_without_the_key_is_passed_over(place: Place) -> None:
    """Whoever can write to the store alone gets nothing signed by asking."""
    with place.create() as ledger:
        known = ledger.append(Note(text="one"), subject="lab")
        (stored,) = ledger._store.records(since=1, below=2)
        forged = replace(stored, envelope=b"{}", leaf=leaf_hash(b"{}"), id="new")
        stranger = SigningKey(name=f"{ORIGIN}/author", seed=b"\x01" * 32)
        author = place.keys.author
        lines = [
            request(forged, stranger, ORIGIN),
            request(forged, author, "example.com/other"),
            request(stored, author, ORIGIN),  # replayed
            request(stored, author, ORIGIN)[:50],  # torn
            request(replace(forged, id=stored.id), author, ORIGIN),  # refused by the store
            b"nonsense",
        ]
        for line in lines:
            with ledger._store.spool() as spool:
                spool.put(line)
        assert ledger.append(Note(text="two"), subject="lab", refs=[known.leaf]).sequence == 2
        assert _notes(ledger) == ["one", "two"]
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
    assert _waiting(place) == 0
