"""Roots and proofs of a log from parts of its tree: O(log n) tiles a proof, never all entries.

What is read is not trusted: a caller checks a proof against a head whose signature it verified.
"""

from collections.abc import Callable

from workbench.errors import IntegrityError
from workbench.registry.log import HashSource
from workbench.registry.merkle import (
    EMPTY_ROOT,
    HASH_SIZE,
    Frontier,
    complete_root,
    largest_power_below,
)
from workbench.registry.tiles import HEIGHT, WIDTH, Tile, read_tile


def root(source: HashSource, size: int) -> bytes:
    """Return the root of the tree over the first ``size`` leaves."""
    return _Tree(source, size).root(0, size) if size else EMPTY_ROOT


def inclusion(source: HashSource, index: int, size: int) -> list[bytes]:
    """Return the audit path of a leaf, lowest sibling first (RFC 6962, section 2.1.1).

    Raises:
        IndexError: the tree has no such leaf.
        IntegrityError: the log does not hold the tree.
    """
    if not 0 <= index < size:
        raise IndexError(f"leaf {index} is not in a tree of {size}")
    tree = _Tree(source, size)
    proof: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + largest_power_below(stop - start)
        if index < middle:
            proof.append(tree.root(middle, stop))
            stop = middle
        else:
            proof.append(tree.root(start, middle))
            start = middle
    return proof[::-1]


def consistency(source: HashSource, old_size: int, new_size: int) -> list[bytes]:
    """Return the proof that the old tree is a prefix of the new one (RFC 6962, section 2.1.2).

    Raises:
        IndexError: the old tree is empty or larger than the new one.
        IntegrityError: the log does not hold the tree.
    """
    if not 0 < old_size <= new_size:
        raise IndexError(f"{old_size} leaves are not a prefix of {new_size}")
    tree = _Tree(source, new_size)
    proof: list[bytes] = []
    start, stop = 0, new_size
    while old_size != stop:
        middle = start + largest_power_below(stop - start)
        if old_size <= middle:
            proof.append(tree.root(middle, stop))
            stop = middle
        else:
            proof.append(tree.root(start, middle))
            start = middle
    # The verifier holds the root of a subtree that starts the log; any other it must be told.
    if start:
        proof.append(tree.root(start, stop))
    return proof[::-1]


class TileHashes:
    """The hashes of a tree in static files (C2SP tlog-tiles), read as they are needed.

    Where a partial tile is gone because its full one was published meanwhile, that one is read.
    """

    def __init__(self, read: Callable[[str], bytes], size: int) -> None:
        """Take what reads a file by its path below the log, and the size of the log's head."""
        self._read = read
        self._size = size
        self._kept: dict[str, list[bytes]] = {}

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return hashes ``start`` to ``stop`` of a level, unchecked (see `HashSource`)."""
        available = self._size >> (HEIGHT * level)
        if not 0 <= start <= stop <= available:
            raise IntegrityError(
                f"hashes {start} to {stop} of level {level} are not in a tree of "
                f"{self._size} leaves"
            )
        found: list[bytes] = []
        while start < stop:
            index, at = divmod(start, WIDTH)
            width = min(WIDTH, available - index * WIDTH)
            part = self._tile(Tile(level=level, index=index, width=width))[at : at + stop - start]
            found += part
            start += len(part)
        return found

    def _tile(self, tile: Tile) -> list[bytes]:
        if tile.path not in self._kept:
            self._kept[tile.path] = self._read_tile(tile)
        return self._kept[tile.path]

    def _read_tile(self, tile: Tile) -> list[bytes]:
        try:
            return read_tile(self._read(tile.path), tile)
        except IntegrityError:
            if tile.width == WIDTH:
                raise
        full = Tile(level=tile.level, index=tile.index, width=WIDTH)
        try:
            return read_tile(self._read(full.path), full)[: tile.width]
        except IntegrityError as error:
            raise IntegrityError(
                f"neither {tile.path} nor {full.path} can be read: {error.message}"
            ) from error


class _Tree:
    """One tree of a log. Reads each stretch of 256 hashes once, however often it is needed."""

    def __init__(self, source: HashSource, size: int) -> None:
        self._source = source
        self._size = size
        self._kept: dict[tuple[int, int], list[bytes]] = {}

    def root(self, start: int, stop: int) -> bytes:
        """Return the root over these leaves, which must be a subtree of RFC 6962's recursion."""
        count = stop - start
        peaks: list[bytes] = []
        while start < stop:
            width = 1 << ((stop - start).bit_length() - 1)
            peaks.append(self._complete(start, width))
            start += width
        return Frontier(size=count, peaks=tuple(peaks)).root()

    def _complete(self, start: int, count: int) -> bytes:
        """Return the root of a complete subtree of ``count`` = 2^k leaves."""
        level, rest = divmod(count.bit_length() - 1, HEIGHT)
        first = start >> (HEIGHT * level)
        return complete_root(self._stretch(level, first, 1 << rest))

    def _stretch(self, level: int, first: int, count: int) -> list[bytes]:
        # A complete subtree below 256 hashes never crosses a tile.
        index, at = divmod(first, WIDTH)
        if (level, index) not in self._kept:
            available = self._size >> (HEIGHT * level)
            stop = min(available, (index + 1) * WIDTH)
            found = self._source.hashes(level, index * WIDTH, stop)
            if len(found) != stop - index * WIDTH or any(len(h) != HASH_SIZE for h in found):
                raise IntegrityError(
                    f"the log gave {len(found)} hashes of level {level} from {index * WIDTH} on, "
                    f"not {stop - index * WIDTH} of {HASH_SIZE} bytes"
                )
            self._kept[level, index] = found
        return self._kept[level, index][at : at + count]
