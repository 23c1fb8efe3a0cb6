"""Proofs from tiles against those from all leaves, over sizes around every boundary of tiles."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.conftest import LogFolder
from tests.registry.reference import consistency_proof, inclusion_proof, levels_of
from workbench.errors import IntegrityError
from workbench.registry import merkle, proofs
from workbench.registry.published import PublishedLog
from workbench.registry.tiles import level_tiles

LEAVES = [merkle.leaf_hash(str(i).encode()) for i in range(66_000)]
LEVELS = levels_of(LEAVES)


class InMemory:
    """A tree in memory that counts how often it is read."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        self.reads.append((level, start // 256))
        return LEVELS[level][start:stop]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 255, 256, 257, 511, 512, 513, 1000, 65_536, 65_793])
def test_root_from_tiles_is_that_of_all_leaves(size: int) -> None:
    assert proofs.root(InMemory(), size) == merkle.tree_root(LEAVES[:size])


@given(st.data())
def test_inclusion_from_tiles_is_the_proof_from_all_leaves(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 1500))
    index = data.draw(st.integers(0, size - 1))
    expected = inclusion_proof(LEAVES[:size], index)
    assert proofs.inclusion(InMemory(), index, size) == expected


@given(st.data())
def test_consistency_from_tiles_is_the_proof_from_all_leaves(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 1500))
    old = data.draw(st.integers(1, size))
    expected = consistency_proof(LEAVES[:size], old)
    assert proofs.consistency(InMemory(), old, size) == expected


def test_proofs_of_a_large_log_read_few_tiles_each_once() -> None:
    root = merkle.tree_root(LEAVES[:65_793])
    source = InMemory()
    path = proofs.inclusion(source, 300, 65_793)
    merkle.verify_inclusion(LEAVES[300], 300, 65_793, path, root)
    assert len(source.reads) == len(set(source.reads)) <= 6
    source = InMemory()
    path = proofs.consistency(source, 40_001, 65_793)
    merkle.verify_consistency(40_001, 65_793, merkle.tree_root(LEAVES[:40_001]), root, path)
    assert len(source.reads) == len(set(source.reads)) <= 6


@pytest.mark.parametrize("index", [-1, 3])
def test_inclusion_of_no_such_leaf_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="not in a tree of 3"):
        proofs.inclusion(InMemory(), index, 3)


@pytest.mark.parametrize("old", [0, 4])
def test_consistency_of_no_prefix_is_refused(old: int) -> None:
    with pytest.raises(IndexError, match="not a prefix of 3"):
        proofs.consistency(InMemory(), old, 3)


class Short:
    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        return LEAVES[start : stop - 1]


def test_source_that_gives_too_few_hashes_is_refused() -> None:
    with pytest.raises(IntegrityError, match="gave 4 hashes of level 0"):
        proofs.root(Short(), 5)


def _files(size: int) -> dict[str, bytes]:
    return {
        tile.path: b"".join(hashes[tile.start : tile.start + tile.width])
        for level, hashes in enumerate(levels_of(LEAVES[:size]))
        for tile in level_tiles(level, len(hashes))
    }


def _reader(files: dict[str, bytes], size: int) -> proofs.TileHashes:
    def read(name: str) -> bytes:
        if name not in files:
            raise IntegrityError(f"{name} is missing")
        return files[name]

    return proofs.TileHashes(read, size)


@pytest.mark.parametrize("size", [1, 256, 300, 700])
def test_tiles_of_any_size_give_every_hash_and_none_beyond(size: int) -> None:
    tiles = _reader(_files(size), size)
    assert tiles.hashes(0, 0, size) == LEAVES[:size]
    assert tiles.hashes(1, 0, size // 256) == LEVELS[1][: size // 256]
    for beyond in ((0, 0, size + 1), (1, 0, size // 256 + 1), (0, 3, 2)):
        with pytest.raises(IntegrityError, match="are not in a tree of"):
            tiles.hashes(*beyond)


def test_partial_tile_that_became_full_is_read_from_the_full_one() -> None:
    """A publication replaces a partial tile while a reader still holds the older head."""
    older = _files(300)
    assert older.pop("tile/0/001.p/44")
    tiles = _reader(older | _files(700), 300)
    assert proofs.root(tiles, 300) == merkle.tree_root(LEAVES[:300])


def test_missing_tile_is_named() -> None:
    files = _files(300)
    del files["tile/0/001.p/44"]
    with pytest.raises(IntegrityError, match=r"neither tile/0/001\.p/44 nor tile/0/001 can be"):
        proofs.root(_reader(files, 300), 300)
    del files["tile/0/000"]
    with pytest.raises(IntegrityError, match="tile/0/000 is missing"):
        proofs.inclusion(_reader(files, 300), 3, 256)


def test_published_log_proves_its_entries_from_its_tiles(story: LogFolder) -> None:
    log = PublishedLog(story.published)
    head = log.head()
    leaves = [stored.leaf for stored in log.records()]
    assert proofs.root(log, head.size) == head.root
    for index, leaf in enumerate(leaves):
        path = proofs.inclusion(log, index, head.size)
        merkle.verify_inclusion(leaf, index, head.size, path, head.root)


def test_published_log_with_one_changed_tile_byte_proves_nothing(story: LogFolder) -> None:
    log = PublishedLog(story.published)
    head = log.head()
    (tile,) = Path(story.published / "tile" / "0").rglob("*.p/*")
    data = bytearray(tile.read_bytes())
    leaf = bytes(data[:32])
    data[40] ^= 1
    tile.write_bytes(bytes(data))
    path = proofs.inclusion(log, 0, head.size)
    with pytest.raises(IntegrityError):
        merkle.verify_inclusion(leaf, 0, head.size, path, head.root)
