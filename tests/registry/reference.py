"""Trees and proofs from all leaves at once, by RFC 6962's own recursion: slow, and plain to see.

The package computes the same from parts of a tree; these are what it is held against.
"""

from collections.abc import Iterable, Sequence

from workbench.registry.merkle import Frontier, largest_power_below, tree_root
from workbench.registry.tiles import WIDTH


def frontier_of(leaf_hashes: Iterable[bytes]) -> Frontier:
    """Return the frontier of the tree over these leaf hashes."""
    frontier = Frontier()
    for leaf in leaf_hashes:
        frontier = frontier.appended(leaf)
    return frontier


def inclusion_proof(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of one leaf, lowest sibling first (RFC 6962, section 2.1.1).

    Raises:
        IndexError: the tree has no such leaf.
    """
    if not 0 <= index < len(leaf_hashes):
        raise IndexError(f"leaf {index} is not in a tree of {len(leaf_hashes)}")
    if len(leaf_hashes) == 1:
        return []
    split = largest_power_below(len(leaf_hashes))
    left, right = leaf_hashes[:split], leaf_hashes[split:]
    if index < split:
        return [*inclusion_proof(left, index), tree_root(right)]
    return [*inclusion_proof(right, index - split), tree_root(left)]


def consistency_proof(leaf_hashes: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the proof that the first ``old_size`` leaves are a prefix (RFC 6962, section 2.1.2).

    Raises:
        IndexError: the old tree is empty or larger than this one.
    """
    if not 0 < old_size <= len(leaf_hashes):
        raise IndexError(f"{old_size} leaves are not a prefix of {len(leaf_hashes)}")
    return _subproof(leaf_hashes, old_size, known=True)


def _subproof(leaves: Sequence[bytes], old_size: int, *, known: bool) -> list[bytes]:
    # known: the verifier already holds this subtree's root as (part of) the old root.
    if old_size == len(leaves):
        return [] if known else [tree_root(leaves)]
    split = largest_power_below(len(leaves))
    left, right = leaves[:split], leaves[split:]
    if old_size <= split:
        return [*_subproof(left, old_size, known=known), tree_root(right)]
    return [*_subproof(right, old_size - split, known=False), tree_root(left)]


def levels_of(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return the hashes of each tile level of a tree, the leaf hashes first.

    Each hash of a level is the root over one full tile of the level below.
    """
    levels = [list(leaves)]
    while len(levels[-1]) >= WIDTH:
        below = levels[-1]
        full = range(0, len(below) - WIDTH + 1, WIDTH)
        levels.append([tree_root(below[at : at + WIDTH]) for at in full])
    return levels
