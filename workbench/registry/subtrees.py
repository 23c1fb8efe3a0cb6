"""Roots of the complete subtrees of 256, 256², … leaves, from which any proof is a few reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from workbench.errors import IntegrityError
from workbench.registry.merkle import Frontier, complete_root, node_hash
from workbench.registry.tiles import HEIGHT

Hashes = Callable[[int, int, int], list[bytes]]
"""``(level, start, stop)`` to the roots of complete subtrees; those of level 0 are leaf hashes."""


@dataclass(frozen=True, kw_only=True)
class Subtree:
    """The root of one complete subtree."""

    level: int
    """At least 1."""
    position: int
    """It covers the leaves from ``position * 256**level`` on."""
    root: bytes


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A tree after leaves were added to it, with the subtrees that they completed."""

    tree: Frontier
    subtrees: tuple[Subtree, ...]


def grown(tree: Frontier, leaves: Iterable[bytes]) -> Growth:
    """Return the tree with these leaf hashes at its end."""
    completed: list[Subtree] = []
    for leaf in leaves:
        tree = _grown_by_one(tree, leaf, completed)
    return Growth(tree=tree, subtrees=tuple(completed))


def _grown_by_one(tree: Frontier, leaf: bytes, completed: list[Subtree]) -> Frontier:
    peaks = [*tree.peaks, leaf]
    remaining, height = tree.size, 0
    while remaining & 1:
        right = peaks.pop()
        root = node_hash(peaks.pop(), right)
        peaks.append(root)
        remaining, height = remaining >> 1, height + 1
        if height % HEIGHT == 0:
            level = height // HEIGHT
            position = ((tree.size + 1) >> height) - 1
            completed.append(Subtree(level=level, position=position, root=root))
    return Frontier(size=tree.size + 1, peaks=tuple(peaks))


def prefix(hashes: Hashes, size: int) -> Frontier:
    """Return the frontier of the first ``size`` leaves, in O(log n) reads.

    Raises:
        IntegrityError: there are fewer leaves.
    """
    peaks: list[bytes] = []
    start = 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            peaks.append(_perfect_root(hashes, start, height))
            start += 1 << height
    return Frontier(size=size, peaks=tuple(peaks))


def _perfect_root(hashes: Hashes, start: int, height: int) -> bytes:
    """Return the root over the 2**height leaves from ``start`` on."""
    level, rest = divmod(height, HEIGHT)
    first = start >> (level * HEIGHT)
    row = hashes(level, first, first + (1 << rest))
    if len(row) != 1 << rest:
        raise IntegrityError(f"the tree has no {1 << height} leaves from {start} on")
    return complete_root(row)
