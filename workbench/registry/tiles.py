"""The static files of a published log: hash tiles and entry bundles (C2SP tlog-tiles)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.errors import IntegrityError
from workbench.registry.merkle import EMPTY_ROOT, HASH_SIZE, tree_root

# The body is between fixed ends, so that its bytes are taken as they stand and never re-serialised.
_BODY_LINE = re.compile(
    rb'\{(?:"body":(.*),"salt":"([0-9a-f]{32})",)?"sequence":(0|[1-9][0-9]*),'
    rb'"signature":"([A-Za-z0-9+/=]*)"\}'
)
_SALT = b',"salt":"'
_BODY = b'{"body":'
_SALTS = re.compile(rb"[0-9a-f]*")
HEIGHT = 8
"""Levels of the tree that one tile spans."""
WIDTH = 1 << HEIGHT
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


class GrowingTiles:
    """The unfinished tile of each level of a tree, while leaves are added to it."""

    def __init__(self, hashes: Callable[[int, int, int], list[bytes]], size: int) -> None:
        """Take what reads hashes of the tree so far (see `HashSource`), and its size."""
        self._parts: list[list[bytes]] = []
        self._counts: list[int] = []
        while size:
            self._parts.append(hashes(len(self._parts), size // WIDTH * WIDTH, size))
            self._counts.append(size)
            size //= WIDTH
        self._touched: set[int] = set()

    def add(self, leaf: bytes) -> Iterator[tuple[Tile, list[bytes]]]:
        """Add a leaf hash, and yield the tiles that it completes. Must be exhausted."""
        level, new = 0, leaf
        while True:
            if level == len(self._parts):
                self._parts.append([])
                self._counts.append(0)
            part = self._parts[level]
            part.append(new)
            self._counts[level] += 1
            self._touched.add(level)
            if len(part) < WIDTH:
                return
            yield Tile(level=level, index=self._counts[level] // WIDTH - 1, width=WIDTH), part
            self._parts[level] = []
            level, new = level + 1, tree_root(part)

    def unfinished(self) -> Iterator[tuple[Tile, list[bytes]]]:
        """Yield the partial tiles that hashes were added to."""
        for level in sorted(self._touched):
            if self._parts[level]:
                index = self._counts[level] // WIDTH
                yield (
                    Tile(level=level, index=index, width=len(self._parts[level])),
                    self._parts[level],
                )

    def root(self) -> bytes:
        """Return the root of the tree."""
        # The tree below a level's last whole subtree stands beside it like one more of them.
        below: list[bytes] = []
        for part in self._parts:
            hashes = [*part, *below]
            below = [tree_root(hashes)] if hashes else []
        return below[0] if below else EMPTY_ROOT


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
    at, size = 0, len(data)
    while at + 1 < size:
        start = at + 2
        at = start + (data[at] << 8 | data[at + 1])
        entries.append(data[start:at])
    if at != size:
        raise IntegrityError(f"{tile.bundle_path} is cut short at byte {size}")
    if len(entries) != tile.width:
        raise IntegrityError(f"{tile.bundle_path} has {len(entries)} entries, not {tile.width}")
    return entries


def body_line(sequence: int, body: bytes, salt: bytes, signature: str) -> bytes:
    """Return the line of an entry in a file of bodies; without body and salt it is a hole."""
    bound = b'"body":' + body + f',"salt":"{salt.hex()}",'.encode() if body or salt else b""
    return b"{" + bound + f'"sequence":{sequence},"signature":"{signature}"}}\n'.encode()


def read_bodies(data: bytes, tile: Tile) -> tuple[list[bytes], list[bytes], list[str]]:
    """Return bodies, salts and signatures of the entries of a tile; a hole has the last one only.

    The file may hold more lines than the tile has entries: it grows until the tile is full.

    Raises:
        IntegrityError: it is cut short, or a line is not that of its entry.
    """
    *lines, torn = data.split(b"\n")
    if torn or len(lines) < tile.width:
        whole = f"{len(lines)} whole bodies of {tile.width}"
        raise IntegrityError(f"{tile.body_path} is cut short: {whole}")
    plain = _plain_bodies(lines[: tile.width], tile.start)
    if plain is not None:
        return *plain, [""] * tile.width
    bodies: list[bytes] = []
    salts: list[bytes] = []
    signatures: list[str] = []
    for sequence, line in enumerate(lines[: tile.width], tile.start):
        match = _BODY_LINE.fullmatch(line)
        if not match or match[3] != b"%d" % sequence:
            at = sequence - tile.start + 1
            raise IntegrityError(f"{tile.body_path} line {at} is not the body of entry {sequence}")
        bodies.append(match[1] or b"")
        salts.append(bytes.fromhex((match[2] or b"").decode()))
        signatures.append(match[4].decode())
    return bodies, salts, signatures


def _plain_bodies(lines: list[bytes], start: int) -> tuple[list[bytes], list[bytes]] | None:
    """Return bodies and salts of lines that have no signature and no hole; None for others."""
    parts = [line.rpartition(_SALT) for line in lines]
    tails = [b'","sequence":%d,"signature":""}' % sequence
             for sequence in range(start, start + len(lines))]  # fmt: skip
    if [tail[32:] for _, _, tail in parts] != tails:
        return None
    digits = b"".join([tail[:32] for _, _, tail in parts])
    if {bound[:8] for bound, _, _ in parts} != {_BODY} or not _SALTS.fullmatch(digits):
        return None
    salts = bytes.fromhex(digits.decode())
    return (
        [bound[8:] for bound, _, _ in parts],
        [salts[at : at + 16] for at in range(0, len(salts), 16)],
    )
