"""What a machine does to a store: torn files, full and read-only disks, clocks that go back.

Nothing acknowledged is lost, and nothing inconsistent is accepted.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.disks import abandoned, disk
from tests.registry.conftest import ORIGIN, LogFolder
from tests.registry.stores import Place
from workbench.errors import IntegrityError, StoreUnavailableError
from workbench.registry.entries import Note
from workbench.registry.heads import verify_head
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.notes import VerifierKey
from workbench.registry.store import store_exists
from workbench.registry.verify import verify_log

PAGE, FRAME_HEADER, WAL_HEADER = 4096, 24, 32
ENTRIES = 13


def place_of(folder: Path) -> Place:
    return Place(url=f"sqlite:///{folder}/state/ledger.db", root=folder)


# A log cut short: the image of a power cut is the file and a beginning of its write-ahead log


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in the middle of its life, its newest entries only in the write-ahead log."""
    folder = tmp_path_factory.mktemp("living")
    with place_of(folder).create() as ledger:
        for n in range(ENTRIES - 1):
            (folder / f"last-head.{n + 1}").write_text(ledger.head().note)
            ledger.append(Note(text=f"entry {n + 1} " + "x" * 200 * (n % 3)), subject="lab")
        (folder / f"last-head.{ENTRIES}").write_text(ledger.head().note)
        shutil.copytree(folder, folder / "image")
    return folder / "image"


def cut(image: Path, folder: Path, size: int, last: int) -> Place:
    """Copy the image with the log cut to that size, and the last head that survived."""
    shutil.copytree(image, folder)
    place = place_of(folder)
    wal = place.file.with_name("ledger.db-wal")
    os.truncate(wal, size)
    place.file.with_name("ledger.db-shm").unlink(missing_ok=True)
    shutil.copyfile(image / f"last-head.{last}", place.last_head)
    return place


def _cuts(image: Path) -> list[int]:
    size = (image / "state" / "ledger.db-wal").stat().st_size
    ends = range(WAL_HEADER, size + 1, PAGE + FRAME_HEADER)
    # Every page's end; within a page's header and within a page; and seven bytes off the tail.
    torn = [at - 7 for at in ends if at > WAL_HEADER] + [at + 9 for at in ends if at < size]
    return sorted({0, 7, *ends, *torn, size, size - 7})


@pytest.mark.slow
def test_write_ahead_log_cut_anywhere_gives_a_prefix_or_a_refusal(
    image: Path, tmp_path: Path
) -> None:
    """C3, at every page boundary: all whole entries load, and a missing signed one is noticed."""
    with Ledger.inspect(url=place_of(image).url, origin=ORIGIN) as reader:
        whole = [entry.leaf for entry in reader.entries()]
        vkey = reader.vkey
    assert len(whole) == ENTRIES
    sizes: set[int] = set()
    cuts = _cuts(image)
    assert len(cuts) > 3 * ENTRIES
    for number, size in enumerate(cuts):
        place = cut(image, tmp_path / str(number), size, ENTRIES)
        try:
            store = place.read_store()
        except IntegrityError:
            assert not sizes  # not even the tables are whole
            continue
        there = store.tree().size
        store.close()
        sizes.add(there)
        if there < ENTRIES:
            with pytest.raises(IntegrityError, match="rolled back"):
                place.open()
        for last in {max(1, there - 2), there} if there else ():
            again = cut(image, tmp_path / f"{number}-{last}", size, last)
            with again.open() as ledger:
                assert [entry.leaf for entry in ledger.entries()] == whole[:there]
                assert ledger.append(Note(text="after"), subject="lab").sequence == there
                assert verify_log(ledger, vkey=vkey, kept_head=None).passed
    assert sizes >= set(range(1, ENTRIES + 1))


def test_seven_bytes_off_the_tail_all_entries_load_and_the_loss_is_reported(
    image: Path, tmp_path: Path
) -> None:
    """C3."""
    size = (image / "state" / "ledger.db-wal").stat().st_size
    place = cut(image, tmp_path / "cut", size - 7, ENTRIES)
    with Ledger.inspect(url=place.url, origin=ORIGIN, keys_dir=place.keys_dir) as reader:
        report = verify_log(reader, vkey=reader.vkey, kept_head=None)
        assert report.size == ENTRIES - 1
        assert report.first_failure is not None
        assert f"a head of size {ENTRIES} was signed" in report.first_failure.detail
    with place.open() as ledger:
        assert len(list(ledger.entries())) == ENTRIES
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_reading_while_a_writer_has_the_store_touches_no_file_of_it(fresh: LogFolder) -> None:
    """C3, second half."""
    place = place_of(fresh.root)
    with place.create() as ledger:
        ledger.append(Note(text="one"), subject="lab")
        files = [place.file, place.file.with_name("ledger.db-wal"), place.last_head]
        before = [path.read_bytes() for path in files]
        with ledger._store.lock(), place.inspect() as reader:
            assert len(list(reader.entries())) == 2
            assert verify_log(reader, vkey=reader.vkey, kept_head=None).passed
        assert [path.read_bytes() for path in files] == before


def test_entry_that_a_killed_writer_had_not_synced_is_synced_before_it_is_signed(
    fresh: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(fresh.root)
    with place.create() as ledger, monkeypatch.context() as patch:
        patch.setattr("workbench.registry.writer.Writer._sign", lambda *_: None)
        ledger.append(Note(text="unsigned"), subject="lab")
        synced: list[str] = []
        real = os.fsync

        def watching(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            assert verify_head(
                place.last_head.read_text(), VerifierKey.parse(ledger.vkey)
            ).size == 1, "signed before it was synced"  # fmt: skip
            real(descriptor)

        patch.setattr(os, "fsync", watching)
        place.open().close()
    assert {"ledger.db", "ledger.db-wal"} <= set(synced)


def test_append_waits_for_the_disk_in_its_commit_only(
    fresh: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place_of(fresh.root).create() as ledger:
        monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("a second sync"))
        for n in range(20):
            ledger.append(Note(text=str(n)), subject="lab")


# The last head beside the keys


@pytest.mark.parametrize("left", ["nothing", "zeros", "half"])
def test_last_head_torn_by_a_loss_of_power_is_made_good_from_the_synced_one(
    fresh: LogFolder, left: str
) -> None:
    place = place_of(fresh.root)
    with place.create() as ledger:
        ledger.append(Note(text="one"), subject="lab")
        note = place.last_head.read_bytes()
    torn = {"nothing": b"", "zeros": bytes(len(note)), "half": note[: len(note) // 2]}[left]
    place.last_head.write_bytes(torn)
    with place.open() as ledger:
        assert ledger.head().size == 2
    assert place.last_head.read_bytes() == note
    place.last_head.write_bytes(torn)
    place.last_head.with_name("last-head.synced").unlink()
    with pytest.raises(IntegrityError, match="the last signed head"):
        place.open()


def test_synced_head_follows_at_a_distance(fresh: LogFolder) -> None:
    place = place_of(fresh.root)
    with place.create() as ledger:
        assert load_keys(place.keys_dir, ORIGIN).synced_size() == 1
        for n in range(300):
            ledger.append(Note(text=str(n)), subject="lab")
        assert load_keys(place.keys_dir, ORIGIN).synced_size() == 257


# Disks


def fill_up(ledger: Ledger, acknowledged: list[str]) -> None:
    while True:
        acknowledged.append(ledger.append(Note(text="x" * 3000), subject="lab").leaf)


def test_full_disk_loses_nothing_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "size=600k"):
        place = Place(url=f"sqlite:///{tmp_path}/disk/ledger.db", root=tmp_path)
        ballast = tmp_path / "disk" / "ballast"
        ballast.write_bytes(bytes(150_000))
        kept: list[str] = []
        with place.create() as ledger:
            for round_ in range(2):
                with pytest.raises(StoreUnavailableError, match=r"full|disk I/O") as refusal:
                    fill_up(ledger, kept)
                assert "disk space" in refusal.value.remedy
                # Whoever reads meanwhile sees everything that was acknowledged.
                leaves = [entry.leaf for entry in ledger.entries()]
                assert kept == leaves[1 : len(kept) + 1]
                if round_ == 0:
                    ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=4m", str(tmp_path / "disk")], check=True)
        with place.open() as ledger:
            assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
            leaves = [entry.leaf for entry in ledger.entries()]
            assert set(kept) <= set(leaves)
            # An append that failed after its commit is signed now; there is at most one a refusal.
            assert len(kept) + 1 <= len(leaves) <= len(kept) + 3
            ledger.append(Note(text="room"), subject="lab")
        assert len(kept) > 10


def test_disk_that_a_killed_session_left_mounted_is_known_by_its_name(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "size=64k"):
        mine = Path("/proc/self/mounts").read_text("utf-8")
        assert str(tmp_path / "disk") in mine
        assert str(tmp_path / "disk") not in abandoned(mine)
        # No process has a number so high.
        theirs = mine.replace(f"workbench-test-{os.getpid()} ", "workbench-test-4194305 ")
        assert str(tmp_path / "disk") in abandoned(theirs)


def test_disk_too_full_to_make_a_store_is_a_refusal_and_leaves_none(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "size=600k"):
        place = Place(url=f"sqlite:///{tmp_path}/disk/ledger.db", root=tmp_path)
        ballast = tmp_path / "disk" / "ballast"
        for room in (0, 8, 16, 40, 80):
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            os.truncate(ballast, ballast.stat().st_size - room * 1024)
            with pytest.raises(StoreUnavailableError, match=r"full|disk I/O") as refusal:
                place.create()
            assert "disk space" in refusal.value.remedy
            assert not store_exists(place.url)
        ballast.unlink()
        with place.create() as ledger:
            assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_file_that_is_something_else_counts_as_a_store_and_is_refused(tmp_path: Path) -> None:
    """Nothing is restored over what may hold a log."""
    place = Place(url=f"sqlite:///{tmp_path}/ledger.db", root=tmp_path)
    assert not store_exists(place.url)
    place.file.write_bytes(b"")
    assert not store_exists(place.url)
    place.sql("CREATE TABLE others (x)", guarded=True)
    assert store_exists(place.url)
    place.file.write_bytes(b"not a database, but long enough to look like a torn one" * 9)
    assert store_exists(place.url)
    with pytest.raises(IntegrityError):
        place.open_store()


def test_full_disk_of_the_keys_is_a_refusal_and_not_a_crash(
    fresh: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(fresh.root)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with place.create() as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(StoreUnavailableError, match="No space left"):
                ledger.append(Note(text="one"), subject="lab")
        assert ledger.append(Note(text="two"), subject="lab").sequence == 2
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


@pytest.mark.parametrize("left", ["closed", "killed", "killed, its index lost"])
def test_read_only_disk_is_read_and_verified_and_takes_no_entry(tmp_path: Path, left: str) -> None:
    folder = tmp_path / "disk"
    with disk(folder, "size=8m"):
        place = place_of(folder)
        script = (
            "import sys, os; from pathlib import Path; from tests.registry.test_faults import *\n"
            "ledger = place_of(Path(sys.argv[1])).create()\n"
            "ledger.append(Note(text='one'), subject='lab')\n"
            "ledger.close() if sys.argv[2] == 'closed' else os._exit(0)\n"
        )
        root = Path(__file__).parents[2]
        subprocess.run(
            [sys.executable, "-c", script, str(folder), left], check=True, cwd=root,
            env=os.environ | {"PYTHONPATH": str(root)},
        )  # fmt: skip
        if left.endswith("lost"):
            place.file.with_name("ledger.db-shm").unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        names = sorted(path.name for path in place.file.parent.iterdir())
        with Ledger.inspect(
            url=place.url, origin=ORIGIN, keys_dir=place.keys_dir
        ) as reader:  # fmt: skip
            assert [entry.kind for entry in reader.entries()] == ["genesis", "note"]
            assert verify_log(reader, vkey=reader.vkey, kept_head=None).passed
        assert sorted(path.name for path in place.file.parent.iterdir()) == names
        with pytest.raises(StoreUnavailableError) as refusal:
            place.open()
        assert "permissions" in refusal.value.remedy


# Clocks


def test_clock_that_goes_back_changes_no_order_and_is_a_warning(fresh: LogFolder) -> None:
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) - timedelta(hours=n) for n in range(99))
    with place_of(fresh.root).create(clock=lambda: next(moments)) as ledger:
        for n in range(5):
            assert ledger.append(Note(text=str(n)), subject="lab").sequence == n + 1
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        assert report.passed
        assert sum("the clock went back" in warning for warning in report.warnings) == 5
        assert len({entry.id for entry in ledger.entries()}) == 6


def test_clock_that_stands_still_gives_entries_of_their_own(fresh: LogFolder) -> None:
    with place_of(fresh.root).create(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger:
        for n in range(5):
            ledger.append(Note(text=str(n)), subject="lab")
        assert len({entry.id for entry in ledger.entries()}) == 6
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
