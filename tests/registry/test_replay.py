"""The tree over entries that stream by, against the tree computed from all of them."""

import hashlib

import pytest

from tests.registry.reference import frontier_of, levels_of
from workbench.errors import IntegrityError
from workbench.registry.merkle import tree_root
from workbench.registry.replay import GrowingTree
from workbench.registry.tiles import WIDTH, GrowingTiles, level_tiles

LEAVES = [hashlib.sha256(b"%d" % at).digest() for at in range(3 * WIDTH + 5)]
SIZES = (0, 1, 2, 3, 255, 256, 257, 511, 512, 513, len(LEAVES))


def grown(part: int, count: int = len(LEAVES)) -> GrowingTree:
    tree = GrowingTree()
    for at in range(0, count, part):
        tree.extend(LEAVES[at : min(at + part, count)])
    return tree


@pytest.mark.parametrize("part", [1, 7, 255, 256, 300, 1000])
def test_root_and_frontier_of_every_prefix_are_those_of_all_leaves(part: int) -> None:
    tree = grown(part)
    for size in SIZES:
        assert tree.root_at(size) == tree_root(LEAVES[:size])
        assert tree.frontier(size) == frontier_of(LEAVES[:size])
    assert tree.hashes(1, 0, 3) == levels_of(LEAVES)[1]
    assert [tree.position(leaf) for leaf in LEAVES] == list(range(len(LEAVES)))
    assert tree.positions([bytes(32), LEAVES[3]]) == [-1, 3]


def test_position_of_a_leaf_that_is_there_twice_is_the_first() -> None:
    tree = GrowingTree()
    tree.extend([LEAVES[0], LEAVES[1], LEAVES[0]])
    assert tree.position(LEAVES[0]) == 0


def test_hashes_beyond_the_tree_are_refused() -> None:
    tree = grown(256)
    for level, start, stop in ((0, 0, tree.size + 1), (1, 3, 4), (0, 2, 1)):
        with pytest.raises(IntegrityError, match=f"{start} to {stop} of level {level}"):
            tree.hashes(level, start, stop)


@pytest.mark.parametrize("since", SIZES)
def test_tiles_that_go_on_from_any_size_are_those_of_the_whole_tree(since: int) -> None:
    levels = levels_of(LEAVES[:since])
    tiles = GrowingTiles(lambda level, start, stop: levels[level][start:stop], since)
    found = {tile.path: part for leaf in LEAVES[since:] for tile, part in tiles.add(leaf)}
    assert tiles.root() == tree_root(LEAVES)
    found |= {tile.path: part for tile, part in tiles.unfinished()}
    for level, hashes in enumerate(levels_of(LEAVES)):
        for tile in level_tiles(level, len(hashes)):
            if tile.path in found:
                assert found.pop(tile.path) == hashes[tile.start : tile.start + tile.width]
            else:
                assert tile.start + tile.width <= since // WIDTH**level
    assert found == {}
