"""The published log: C2SP tiles that a stranger's reader takes, and ours takes a stranger's."""

import json
import shutil
from pathlib import Path

import pytest

from tests.registry.conftest import LogFolder
from tests.registry.reference import levels_of
from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.entries import Note
from workbench.registry.heads import verify_head
from workbench.registry.merkle import leaf_hash, tree_root
from workbench.registry.notes import VerifierKey
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.tiles import (
    Tile,
    level_tiles,
    read_bundle,
    read_tile,
    write_bundle,
)
from workbench.registry.verify import verify_log


def test_tessera_log_every_size_verifies_with_our_reader(shared_data: Path) -> None:
    vectors = shared_data / "ledger-vectors" / "tessera-testlog"
    key = VerifierKey.parse((vectors / "log.vkey").read_text())
    folder = vectors / "log"
    for size in range(1, 16):
        head = verify_head((folder / f"checkpoint.{size}").read_text(), key)
        (tile,) = level_tiles(0, head.size)
        hashes = read_tile((folder / tile.path).read_bytes(), tile)
        entries = read_bundle((folder / tile.bundle_path).read_bytes(), tile)
        assert [leaf_hash(entry) for entry in entries] == hashes
        assert tree_root(hashes) == head.root
        assert write_bundle(entries) == (folder / tile.bundle_path).read_bytes()
        assert b"".join(levels_of(hashes)[0]) == (folder / tile.path).read_bytes()


def test_tile_paths_follow_the_specification() -> None:
    assert Tile(level=0, index=1234067, width=256).path == "tile/0/x001/x234/067"
    assert Tile(level=2, index=0, width=1).path == "tile/2/000.p/1"
    assert Tile(level=0, index=273, width=112).bundle_path == "tile/entries/273.p/112"
    assert Tile(level=0, index=1000, width=256).body_path == "bodies/x001/000.jsonl"


def test_tiles_of_the_specifications_example_of_70000_leaves() -> None:
    levels = levels_of([bytes(32)] * 70_000)
    tiles = [list(level_tiles(level, len(hashes))) for level, hashes in enumerate(levels)]
    widths = [[tile.width for tile in level] for level in tiles]
    assert widths == [[256] * 273 + [112], [256, 17], [1]]
    at_256 = levels_of([bytes(32)] * 256)
    assert [len(level) for level in at_256] == [256, 1]
    assert at_256[1] == [tree_root([bytes(32)] * 256)]


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x05abc", b"", b"\x00\x00\x00\x00"])
def test_bundle_cut_short_or_of_another_width_is_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"tile/entries/000.p/1 "):
        read_bundle(data, Tile(level=0, index=0, width=1))


def test_tile_of_another_width_is_refused() -> None:
    with pytest.raises(IntegrityError, match="has 33 bytes, not 1 hashes"):
        read_tile(bytes(33), Tile(level=0, index=0, width=1))


def test_publish_again_without_news_writes_nothing(story: LogFolder) -> None:
    with story.open() as ledger:
        summary = publish(ledger, story.published)
    assert (summary.size, summary.new_entries, summary.files) == (17, 0, ())


@pytest.mark.slow
def test_publish_grows_across_a_full_tile_and_drops_only_superseded_partials(
    fresh: LogFolder,
) -> None:
    with fresh.create() as ledger:
        sizes = []
        for upto in (1, 100, 255, 256, 257, 300):
            while ledger.head().size < upto:
                ledger.append(Note(text=f"note {ledger.head().size}"), subject="lab")
            summary = publish(ledger, fresh.published)
            sizes.append(summary.head.size)
            report = verify_log(
                PublishedLog(fresh.published), vkey=ledger.vkey, kept_head=summary.head.note
            )
            assert report.passed, report.first_failure
            if upto == 255:
                partials = {path.name for path in fresh.published.glob("tile/0/000.p/*")}
                # tlog-tiles: a reader of an older head still finds its partial tile.
                assert partials == {"1", "100", "255"}
        assert sizes == [1, 100, 255, 256, 257, 300]
        assert not (fresh.published / "tile/0/000.p").exists()
        files = {path.relative_to(fresh.published).as_posix()
                 for path in fresh.published.rglob("*") if path.is_file()}  # fmt: skip
        assert files == {
            "checkpoint", "log.vkey", "author.vkey", "bodies/000.jsonl", "bodies/001.jsonl",
            "tile/0/000", "tile/0/001.p/1", "tile/0/001.p/44", "tile/1/000.p/1",
            "tile/entries/000", "tile/entries/001.p/1", "tile/entries/001.p/44",
        }  # fmt: skip
        assert list(PublishedLog(fresh.published).entries()) == list(ledger.entries())


@pytest.mark.slow
def test_publish_changed_tile_of_a_higher_level_is_caught(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        for n in range(256):
            ledger.append(Note(text=str(n)), subject="lab")
        publish(ledger, fresh.published)
        tile = fresh.published / "tile/1/000.p/1"
        for data in (bytes(32), b""):
            tile.write_bytes(data)
            report = verify_log(PublishedLog(fresh.published), vkey=ledger.vkey, kept_head=None)
            assert report.first_failure is not None
            assert "tile/1/000.p/1 is not what" in report.first_failure.detail
        tile.unlink()
        report = verify_log(PublishedLog(fresh.published), vkey=ledger.vkey, kept_head=None)
        assert report.first_failure is not None
        assert "tile/1/000.p/1 is missing" in report.first_failure.detail


def test_publish_into_the_folder_of_another_history_is_refused(
    story: LogFolder, fresh: LogFolder
) -> None:
    with fresh.create() as ledger, pytest.raises(IntegrityError, match="no signature by the key"):
        publish(ledger, story.published)
    older = story.published / "checkpoint"
    with story.open() as ledger:
        ledger.append(Note(text="x"), subject="lab")
        publish(ledger, story.published)
        newest = older.read_text()
    # The store is rolled back by one entry, together with its keys.
    shutil.copy(story.database, story.root / "copy.db")
    story.sql("DELETE FROM entries WHERE sequence = 17", "DELETE FROM heads WHERE size = 18")
    with pytest.raises(IntegrityError, match=r"rolled back|17 entries"), story.open() as ledger:
        publish(ledger, story.published)
    assert older.read_text() == newest


def test_publish_shorter_log_over_a_longer_one_is_refused(story: LogFolder) -> None:
    shorter = PublishedLog(story.published)
    copy = story.root / "copy"
    shutil.copytree(story.published, copy)
    with story.open() as ledger:
        ledger.append(Note(text="x"), subject="lab")
        publish(ledger, story.published)
        assert publish(shorter, copy).new_entries == 1
    shutil.rmtree(copy)
    shutil.copytree(story.published, copy)
    with story.open() as ledger:
        ledger.append(Note(text="y"), subject="lab")
        publish(ledger, copy)
    with pytest.raises(IntegrityError, match="19 entries that are not a prefix"):
        publish(shorter, copy)


def test_publish_log_whose_entries_are_not_signed_is_refused(story: LogFolder) -> None:
    ledger = story.open()
    story.sql("UPDATE entries SET leaf = zeroblob(32) WHERE sequence = 5")
    with pytest.raises(IntegrityError, match="not those that its head covers"):
        publish(ledger, story.root / "new")
    story.sql("DELETE FROM heads")
    with pytest.raises(IntegrityError, match="has no signed head"):
        publish(ledger, story.root / "new")
    ledger.close()


def test_publish_copies_a_published_log(story: LogFolder) -> None:
    publish(PublishedLog(story.published), story.root / "mirror")
    for path in story.published.rglob("*"):
        if path.is_file():
            twin = story.root / "mirror" / path.relative_to(story.published)
            assert twin.read_bytes() == path.read_bytes()


def test_publish_killed_in_the_middle_leaves_the_old_log_and_is_finished_by_the_next(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: a torn publication never reads as a log."""
    with story.open() as ledger:
        ledger.append(Note(text="x"), subject="lab")
        before = story.published.rename(story.root / "before")
        for stop in range(4):
            written: list[str] = []
            shutil.rmtree(story.published, ignore_errors=True)
            shutil.copytree(before, story.published)

            def dying(
                path: Path, data: bytes, stop: int = stop, written: list[str] = written
            ) -> None:
                if len(written) == stop:
                    path.with_name(f".{path.name}.1.1.tmp").write_bytes(data[:7])
                    raise KeyboardInterrupt
                written.append(path.name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

            with monkeypatch.context() as patch:
                patch.setattr("workbench.registry.publish.write_atomic", dying)
                with pytest.raises(KeyboardInterrupt):
                    publish(ledger, story.published)
            published = PublishedLog(story.published)
            assert published.head().size == 17
            report = verify_log(published, vkey=ledger.vkey, kept_head=None)
            assert report.passed, report.first_failure
            assert len(list(published.entries())) == 17
        publish(ledger, story.published)
        assert verify_log(PublishedLog(story.published), vkey=ledger.vkey, kept_head=None).passed
        assert not list(story.published.rglob("*.tmp"))


def test_published_bodies_are_json_lines_that_anything_reads(story: LogFolder) -> None:
    """B10."""
    lines = (story.published / "bodies" / "000.jsonl").read_text("utf-8").splitlines()

    def refuse(text: str) -> None:
        raise AssertionError(text)

    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row["sequence"] for row in rows] == list(range(17))
    assert rows[16]["body"] == {"text": "Looks good\nto me"}
    assert len(bytes.fromhex(rows[0]["salt"])) == 16


@pytest.mark.parametrize("cut", ["last newline", "last line", "in a line"])
def test_published_bodies_cut_short_are_refused(story: LogFolder, cut: str) -> None:
    """C3."""
    path = story.published / "bodies" / "000.jsonl"
    data = path.read_bytes()
    end = {"last newline": -1, "last line": data[:-1].rindex(b"\n") + 1, "in a line": -7}[cut]
    path.write_bytes(data[:end])
    with pytest.raises(IntegrityError, match=r"bodies/000\.jsonl is cut short: 16 whole bodies"):
        list(PublishedLog(story.published).entries())


def test_published_log_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="holds no published log"):
        _ = PublishedLog(tmp_path).origin


def test_published_log_shows_its_key(story: LogFolder) -> None:
    with story.open() as ledger:
        assert PublishedLog(story.published).vkey == ledger.vkey


def test_published_log_without_genesis_is_refused_by_publish(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        ledger.append(Note(text="x"), subject="lab")

        class Headless:
            origin = ledger.origin
            head = ledger.head

            def records(self, *, since: int = 0) -> object:
                return iter(list(ledger.records())[1:])

            def entries(self, kind: str) -> object:
                return (entry for entry in ledger.entries(kind=kind) if entry.sequence)

        with pytest.raises(IntegrityError, match="first entry, which names its keys, is missing"):
            publish(Headless(), fresh.root / "out")  # type: ignore[arg-type]
