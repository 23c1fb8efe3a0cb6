"""A published log to read and to verify: static files in a folder or on the web, nothing else.

``checkpoint`` (the signed head, so named by C2SP), ``tile/…`` (hashes and envelopes),
``bodies/…`` (what the envelopes bind), ``log.vkey`` and ``author.vkey``.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.heads import SignedHead, parse_head
from workbench.registry.log import (
    Columns,
    Entry,
    KeysInForce,
    ReplayedTree,
    StoredEntry,
    read_entry,
)
from workbench.registry.merkle import HASH_SIZE, leaf_hashes
from workbench.registry.places import Folder, Place
from workbench.registry.proofs import TileHashes
from workbench.registry.tiles import (
    HEIGHT,
    WIDTH,
    Tile,
    level_tiles,
    read_bodies,
    read_bundle,
    read_tile,
)

CHECKPOINT = "checkpoint"
LOG_VKEY = "log.vkey"
AUTHOR_VKEY = "author.vkey"
_LIMITS = {CHECKPOINT: 2**16, LOG_VKEY: 2**12, AUTHOR_VKEY: 2**12}
_MOST_BODY_BYTES = 2**28
_MOST_ANCHOR_BYTES = 2**20
_MOST_BUNDLE_BYTES = WIDTH * (2**16 + 1)
_TILE_NAME = re.compile(r"tile/(entries|[0-9]{1,2})/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([0-9]{1,3}))?")


class PublishedLog:
    """A published log. Knows no database and no keys."""

    def __init__(self, place: Path | Place) -> None:
        """Take where the files lie."""
        self._place: Place = Folder(place) if isinstance(place, Path) else place

    @property
    def origin(self) -> str:
        """Identity of the log, as its signed head says.

        Raises:
            NotFoundError: nothing was published here.
        """
        return self.head().origin

    @property
    def vkey(self) -> str:
        """The verifier key published beside the log: take the one you trust from elsewhere."""
        return self.read(LOG_VKEY).decode("utf-8", "replace").strip()

    def head(self) -> SignedHead:
        """Return the published head; its signature is not checked here.

        Raises:
            NotFoundError: nothing was published here.
            IntegrityError: it is malformed.
        """
        try:
            data = self._place.read(CHECKPOINT, _LIMITS[CHECKPOINT])
        except NotFoundError as error:
            raise self._place.without_log() from error
        return parse_head(data.decode("utf-8", "replace"))

    def notes(self) -> list[str]:
        """Return the one published head."""
        return [self.head().note]

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        """Yield the entries in order; those that are not wanted are not checked.

        Raises:
            IntegrityError: a file is missing or an entry is not what it was.
        """
        origin = self.origin
        for columns in self.columns():
            for at in _wanted(columns, kind, subject):
                yield read_entry(columns.stored(at), origin)

    def records(self, *, since: int = 0) -> Iterator[StoredEntry]:
        """Yield the bytes of the entries in order, unchecked, from ``since`` on.

        Raises:
            IntegrityError: a file is missing, cut short or malformed.
        """
        for columns in self._columns(since):
            for at, sequence in enumerate(columns.sequences):
                if sequence >= since:
                    yield columns.stored(at)

    def columns(self) -> Iterator[Columns]:
        """Yield the same entries, all of them, a tile at a time."""
        return self._columns(0)

    def _columns(self, since: int) -> Iterator[Columns]:
        for tile in level_tiles(0, self.head().size, since):
            leaves = self._part(tile, lambda of: of.path, read_tile)
            envelopes = self._part(tile, lambda of: of.bundle_path, read_bundle)
            bodies, salts, signatures = read_bodies(self.read(tile.body_path), tile)
            yield Columns(
                sequences=range(tile.start, tile.start + tile.width),
                leaves=leaves,
                envelopes=envelopes,
                salts=salts,
                bodies=bodies,
                signatures=signatures,
            )

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return hashes of the tree from the tiles, unchecked (see `HashSource`).

        Raises:
            IntegrityError: the published head does not cover them, or a tile cannot be read.
        """
        return TileHashes(self.read, self.head().size).hashes(level, start, stop)

    def faults(self, tree: ReplayedTree, keys: KeysInForce | None) -> Iterator[str]:
        """Yield which files contradict the entries: tiles of every level and size, key files.

        Where files can be listed, those that no head needs are looked at, too. The tiles that the
        entries were read from agree with them already.
        """
        if keys is not None:
            for name, key in ((LOG_VKEY, keys.log), (AUTHOR_VKEY, keys.author)):
                if self.read(name) != f"{key}\n".encode():
                    yield f"{name} is not the key that the log names"
        listed = self._place.names("tile")
        expected = {tile.path for tile in _tiles_above(tree.size)}
        for name in sorted(expected):
            full = name.partition(".p/")[0]
            if listed is not None and name not in listed and full not in listed:
                yield f"{name} is missing"
            elif not self._agrees(name if listed is None or name in listed else full, tree):
                yield f"{name} is not what the entries give"
        for tile in level_tiles(0, tree.size):
            expected |= {tile.path, tile.bundle_path}
        for name in listed or ():
            if name not in expected and not name.endswith(".tmp") and not self._agrees(name, tree):
                yield f"{name} is not what the entries give"

    def _agrees(self, name: str, tree: ReplayedTree) -> bool:
        """Return whether a file below ``tile/`` holds what its name says of this tree.

        Of what the head does not cover yet, only the size is looked at: a publication may be on its
        way.
        """
        match = _TILE_NAME.fullmatch(name)
        if not match:
            return False
        level = 0 if match[1] == "entries" else int(match[1])
        index = int(re.sub(r"\D", "", match[2]))
        tile = Tile(level=level, index=index, width=int(match[3] or WIDTH))
        available = tree.size >> (HEIGHT * level)
        covered = min(max(available - tile.start, 0), tile.width)
        try:
            data = self.read(name)
            if match[1] == "entries":
                found = leaf_hashes(read_bundle(data, tile))
            else:
                found = read_tile(data, tile)
        except IntegrityError:
            return False
        return found[:covered] == (
            tree.hashes(level, tile.start, tile.start + covered) if covered else []
        )

    def _part(
        self,
        tile: Tile,
        name_of: Callable[[Tile], str],
        parse: Callable[[bytes, Tile], list[bytes]],
    ) -> list[bytes]:
        """Return what a tile or bundle holds, from its full form where the partial one is gone."""
        try:
            return parse(self.read(name_of(tile)), tile)
        except IntegrityError:
            if tile.width == WIDTH:
                raise
            full = Tile(level=tile.level, index=tile.index, width=WIDTH)
            with contextlib.suppress(IntegrityError):
                return parse(self.read(name_of(full)), full)[: tile.width]
            raise

    def read(self, name: str) -> bytes:
        """Return a file of the log, unchecked.

        Raises:
            IntegrityError: it is missing, too long, or cannot be read.
        """
        try:
            return self._place.read(name, _limit(name))
        except NotFoundError as error:
            raise IntegrityError(error.message) from error


def _wanted(columns: Columns, kind: str | None, subject: str | None) -> Iterator[int]:
    """Yield where entries of this kind and subject are; the others need not be looked into."""
    if kind is None and subject is None:
        yield from range(len(columns.envelopes))
        return
    marks = [f'"kind":"{kind}"'.encode()] if kind else []
    marks += [f'"subject":"{subject}"'.encode()] if subject else []
    for at, envelope in enumerate(columns.envelopes):
        # A string of an envelope escapes its quotes, so that the mark is only ever the member.
        if all(mark in envelope for mark in marks):
            yield at


def _tiles_above(size: int) -> Iterator[Tile]:
    """Yield the tiles of a tree whose hashes are over more than one leaf."""
    level, hashes = 1, size // WIDTH
    while hashes:
        yield from level_tiles(level, hashes)
        level, hashes = level + 1, hashes // WIDTH


def _limit(name: str) -> int:
    if name.startswith("bodies/"):
        return _MOST_BODY_BYTES
    if name.startswith("anchors/"):
        return _MOST_ANCHOR_BYTES
    if name.startswith("tile/entries/"):
        return _MOST_BUNDLE_BYTES
    return _LIMITS.get(name, WIDTH * HASH_SIZE)
