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
_SALT_TEXT = re.compile(rb"[0-9a-f]{32}")
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
    bodies: list[bytes] = []
    salts: list[bytes] = []
    signatures: list[str] = []
    for sequence, line in enumerate(lines[: tile.width], tile.start):
        bound, found, tail = line.rpartition(_SALT)
        if found and tail[32:] == b'","sequence":%d,"signature":""}' % sequence:
            # Nearly every line: the body as it stands between `{"body":` and the salt.
            body, salt, signature = bound[8:], tail[:32], b""
            match = bound[:8] == b'{"body":' and _SALT_TEXT.fullmatch(salt)
        else:
            match = _BODY_LINE.fullmatch(line)
            body, salt, number, signature = match.groups(b"") if match else (b"",) * 4
            match = match if number == b"%d" % sequence else None
        if not match:
            at = sequence - tile.start + 1
            raise IntegrityError(f"{tile.body_path} line {at} is not the body of entry {sequence}")
        bodies.append(body)
        salts.append(bytes.fromhex(salt.decode()))
        signatures.append(signature.decode())
    return bodies, salts, signatures
