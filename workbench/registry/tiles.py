"""The static files of a published log: hash tiles and entry bundles (C2SP tlog-tiles)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.errors import IntegrityError
from workbench.registry.merkle import HASH_SIZE, tree_root

WIDTH = 256
"""Hashes of a full tile and entries of a full bundle."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One tile of a tree: ``width`` hashes, each over 256^level leaves."""

    level: int
    index: int
    width: int

    @property
    def path(self) -> str:
        """Path of the hash tile below the log's folder."""
        return f"tile/{self.level}/{_index_path(self.index)}{self._suffix}"

    @property
    def bundle_path(self) -> str:
        """Path of the entry bundle beside a level-0 tile."""
        return f"tile/entries/{_index_path(self.index)}{self._suffix}"

    @property
    def body_path(self) -> str:
        """Path of the bodies of the bundle's entries; one file that grows until it is full."""
        return f"bodies/{_index_path(self.index)}.jsonl"

    @property
    def start(self) -> int:
        """Position of its first hash within its level."""
        return self.index * WIDTH

    @property
    def _suffix(self) -> str:
        return "" if self.width == WIDTH else f".p/{self.width}"


def _index_path(index: int) -> str:
    """Return ``x001/x234/067`` for 1234067."""
    last = f"{index % 1000:03d}"
    while index >= 1000:
        index //= 1000
        last = f"x{index % 1000:03d}/{last}"
    return last


def level_tiles(level: int, num_hashes: int, since: int = 0) -> Iterator[Tile]:
    """Yield the tiles of a level with this many hashes, from the one that hash ``since`` is in."""
    for index in range(since // WIDTH, -(-num_hashes // WIDTH)):
        yield Tile(level=level, index=index, width=min(WIDTH, num_hashes - index * WIDTH))


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


def read_tile(data: bytes, tile: Tile) -> list[bytes]:
    """Return the hashes of a tile.

    Raises:
        IntegrityError: the file has another width.
    """
    if len(data) != tile.width * HASH_SIZE:
        raise IntegrityError(f"{tile.path} has {len(data)} bytes, not {tile.width} hashes")
    return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]


def write_bundle(entries: Sequence[bytes]) -> bytes:
    """Return the entries, each after its length as two big-endian bytes."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def read_bundle(data: bytes, tile: Tile) -> list[bytes]:
    """Return the entries of a bundle.

    Raises:
        IntegrityError: it is cut short, or has another number of entries.
    """
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if at + 2 > len(data) or end > len(data):
            raise IntegrityError(f"{tile.bundle_path} is cut short at byte {len(data)}")
        entries.append(data[at + 2 : end])
        at = end
    if len(entries) != tile.width:
        raise IntegrityError(f"{tile.bundle_path} has {len(entries)} entries, not {tile.width}")
    return entries
