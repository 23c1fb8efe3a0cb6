"""A store of version 1, made by the program of that time, becomes one of version 2."""

import sqlite3
import threading
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN
from tests.registry.stores import Place
from workbench.errors import IntegrityError
from workbench.registry.entries import Note
from workbench.registry.keys import keys_folder
from workbench.registry.merkle import tree_root
from workbench.registry.notes import SigningKey
from workbench.registry.verify import verify_log

DUMP = Path(__file__).parent / "data" / "store-v1.sql"


@pytest.fixture
def old(tmp_path: Path) -> Place:
    """Four entries, of which a crash left the last, a decision, without a signed head."""
    place = Place(url=f"sqlite:///{tmp_path}/ledger.db", root=tmp_path)
    connection = sqlite3.connect(place.file)
    connection.executescript(DUMP.read_text("utf-8"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    folder = keys_folder(place.keys_dir, ORIGIN)
    folder.mkdir(parents=True, mode=0o700)
    for name, key in (
        ("log.key", SigningKey(name=ORIGIN, seed=bytes(range(32)))),
        ("author.key", SigningKey(name=f"{ORIGIN}/author", seed=bytes(32))),
    ):
        (folder / name).write_text(key.to_text())
        (folder / name).chmod(0o600)
    ((newest,),) = place.sql("SELECT note FROM heads WHERE size = 3", guarded=True)
    place.last_head.write_text(newest)
    return place


def _version(place: Place) -> int:
    version: int = place.sql("PRAGMA user_version", guarded=True)[0][0]
    return version


def test_old_store_is_read_as_it_is(old: Place) -> None:
    before = old.file.read_bytes()
    with old.inspect() as reader:
        assert [entry.kind for entry in reader.entries()] == ["genesis", "note", "note"]
        assert verify_log(reader, vkey=reader.vkey, kept_head=None).passed
        assert reader.hashes(0, 0, 3) == [bytes.fromhex(entry.leaf) for entry in reader.entries()]
    assert _version(old) == 1
    assert old.file.read_bytes() == before


def test_old_store_is_migrated_and_healed_when_it_is_opened_to_write(old: Place) -> None:
    with old.open() as ledger:
        assert _version(old) == 2
        # Its unsigned entry was announced by a signature, as version 1 did.
        assert [entry.kind for entry in ledger.entries()] == ["genesis", "note", "note", "decision"]
        for n in range(260):
            ledger.append(Note(text=str(n)), subject="lab")
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
        leaves = ledger.hashes(0, 0, 264)
        assert ledger.hashes(1, 0, 1) == [tree_root(leaves[:256])]
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        old.sql("UPDATE entries SET kind = 'x'", guarded=True)


def test_old_store_with_more_than_a_subtree_gets_its_roots(old: Place) -> None:
    columns = "kind, subject, envelope, salt, body, signature"
    rows = [
        f"INSERT INTO entries SELECT {n}, CAST('{n:032}' AS BLOB), 'i{n}', {columns} "
        "FROM entries WHERE sequence = 1"
        for n in range(4, 600)
    ]
    old.sql(*rows, "UPDATE tree SET size = 600")
    store = old.read_store()
    computed = store.hashes(1, 0, 2)
    store.close()
    store = old.open_store()
    assert store.hashes(1, 0, 2) == computed
    assert computed == [tree_root(store.hashes(0, 0, 256)), tree_root(store.hashes(0, 256, 512))]
    store.close()


def test_old_unsigned_entry_that_nobody_announced_is_refused_after_the_migration(
    old: Place,
) -> None:
    old.sql("UPDATE tree SET announcement = ''")
    with pytest.raises(IntegrityError, match=r"entry 3 \(decision .* by something else"):
        old.open()


def test_migration_that_fails_leaves_the_old_store(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.sql("DROP TABLE heads")  # so that the last statements of the migration fail
    with pytest.raises(Exception, match="heads"):
        old.open()
    assert _version(old) == 1
    assert "announcement" in old.sql("SELECT sql FROM sqlite_master WHERE name = 'tree'")[0][0]


def test_migration_by_several_at_once_happens_once(old: Place) -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            old.open_store().close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test fails on it
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert _version(old) == 2
    assert old.sql("SELECT version_num FROM schema_version", guarded=True) == [("2",)]
