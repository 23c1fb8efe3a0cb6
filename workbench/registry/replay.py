"""The Merkle tree over a log's entries as they are read, and where each leaf of it stands.

One pass fills it. What it keeps of a leaf is 32 bytes and a place of 4 in an index, so that a log
of a million entries takes 40 MB and every reference and every earlier root is checked exactly.
"""

from array import array
from collections.abc import Iterable, Sequence

from workbench.errors import IntegrityError
from workbench.registry.merkle import HASH_SIZE, Frontier, tree_root
from workbench.registry.proofs import root
from workbench.registry.subtrees import prefix
from workbench.registry.tiles import HEIGHT, WIDTH

_FIRST_SLOTS = 1 << 10


class GrowingTree:
    """The tree over the leaves that were added, all of them at hand."""

    def __init__(self) -> None:
        self._leaves = bytearray()
        self._levels: list[list[bytes]] = []
        """Level 1 first: roots of complete subtrees of 256^level leaves."""
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        """Open addressing: one more than the position of a leaf, 0 where a slot is free."""

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self._leaves) // HASH_SIZE

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes at the end."""
        before = self.size
        self._leaves += b"".join(leaves)
        if 2 * self.size > len(self._slots):
            self._reindex()
        else:
            self._index(leaves, before)
        if before % WIDTH == 0 and len(leaves) == WIDTH:
            self._keep(0, tree_root(leaves))
            return
        for tile in range(before // WIDTH, self.size // WIDTH):
            self._keep(0, tree_root(self.hashes(0, tile * WIDTH, (tile + 1) * WIDTH)))

    def _keep(self, level: int, found: bytes) -> None:
        """Keep the root of a full tile of a level, and that of each one above which it fills."""
        if level == len(self._levels):
            self._levels.append([])
        above = self._levels[level]
        above.append(found)
        if len(above) % WIDTH == 0:
            self._keep(level + 1, tree_root(above[-WIDTH:]))

    def position(self, leaf: bytes) -> int:
        """Return where the leaf hash stands first, -1 when it is not in the tree."""
        return self.positions((leaf,))[0]

    def positions(self, leaves: Iterable[bytes]) -> list[int]:
        """Return where each leaf hash stands first, -1 for those that are not in the tree."""
        slots, mask, held = self._slots, len(self._slots) - 1, self._leaves
        found = []
        for leaf in leaves:
            # Python keys this hash anew in each process, so that no log can be made to collide.
            slot = hash(leaf) & mask
            place = slots[slot]
            while place and held[place * HASH_SIZE - HASH_SIZE : place * HASH_SIZE] != leaf:
                slot = (slot + 1) & mask
                place = slots[slot]
            found.append(place - 1)
        return found

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return roots of complete subtrees of 256^level leaves (see `HashSource`).

        Raises:
            IntegrityError: the tree is not that large.
        """
        if not 0 <= start <= stop <= self.size >> (HEIGHT * level):
            raise IntegrityError(
                f"hashes {start} to {stop} of level {level} are not in a tree of {self.size} leaves"
            )
        if level:
            return self._levels[level - 1][start:stop]
        part = bytes(self._leaves[start * HASH_SIZE : stop * HASH_SIZE])
        return [part[at : at + HASH_SIZE] for at in range(0, len(part), HASH_SIZE)]

    def root_at(self, size: int) -> bytes:
        """Return the root over the first ``size`` leaves.

        Raises:
            IntegrityError: the tree is not that large.
        """
        return root(self, size)

    def frontier(self, size: int | None = None) -> Frontier:
        """Return what is needed to append to the tree, or to its first ``size`` leaves.

        Raises:
            IntegrityError: the tree is not that large.
        """
        return prefix(self.hashes, self.size if size is None else size)

    def _index(self, leaves: Sequence[bytes], start: int) -> None:
        slots, mask = self._slots, len(self._slots) - 1
        for place, leaf in enumerate(leaves, start + 1):
            slot = hash(leaf) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = place

    def _reindex(self) -> None:
        """Make room for twice the leaves, and index them all."""
        slots = len(self._slots)
        while 2 * self.size > slots:
            slots *= 2
        self._slots = array("I", bytes(4 * slots))
        for start in range(0, self.size, WIDTH):
            self._index(self.hashes(0, start, min(start + WIDTH, self.size)), start)
