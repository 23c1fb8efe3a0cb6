"""Writing and reading the published log: static files from which a stranger verifies everything.

``checkpoint`` (the signed head, so named by C2SP), ``tile/…`` (hashes and envelopes),
``bodies/…`` (what the envelopes bind), ``log.vkey`` and ``author.vkey``.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.entries import Genesis
from workbench.registry.files import write_atomic
from workbench.registry.heads import SignedHead, parse_head, verify_head
from workbench.registry.log import Entry, RawLog, StoredEntry, read_entry
from workbench.registry.merkle import tree_root
from workbench.registry.notes import VerifierKey
from workbench.registry.proofs import TileHashes
from workbench.registry.tiles import (
    WIDTH,
    Tile,
    level_tiles,
    levels_of,
    read_bundle,
    read_tile,
    write_bundle,
)

CHECKPOINT = "checkpoint"
LOG_VKEY = "log.vkey"
AUTHOR_VKEY = "author.vkey"
# The body is between fixed ends, so that its bytes are taken as they stand and never re-serialised.
_BODY_LINE = re.compile(
    rb'\{"body":(.*),"salt":"([0-9a-f]{32})","sequence":(0|[1-9][0-9]*),'
    rb'"signature":"([A-Za-z0-9+/=]*)"\}'
)


@dataclass(frozen=True, kw_only=True)
class PublishSummary:
    """What a publication added."""

    head: SignedHead
    new_entries: int
    files: tuple[str, ...]
    """Written, relative to the folder, in the order of writing."""

    @property
    def size(self) -> int:
        """Entries that are now published."""
        return self.head.size


def publish(source: RawLog, folder: Path) -> PublishSummary:
    """Bring the published files up to the log's newest signed head.

    A reader at any moment finds a whole log: the signed head is replaced after all that it covers.
    Files that an earlier publication wrote are not repaired, so that evidence is not overwritten.

    Raises:
        IntegrityError: the log is inconsistent, or the folder holds another history.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _one_publisher(folder):
        notes = source.notes()
        if not notes:
            raise IntegrityError(f"log {source.origin!r} has no signed head to publish")
        size = parse_head(notes[-1]).size
        records = [stored for stored in source.records() if stored.sequence < size]
        genesis = _genesis(records, source.origin)
        head = verify_head(notes[-1], VerifierKey.parse(genesis.log_key))
        leaves = [stored.leaf for stored in records]
        if tree_root(leaves) != head.root or len(leaves) != size:
            raise IntegrityError("the log's entries are not those that its head covers")
        since = _published_size(folder, VerifierKey.parse(genesis.log_key), leaves)
        files = _write_files(folder, records, since)
        for name, text in ((LOG_VKEY, genesis.log_key), (AUTHOR_VKEY, genesis.author_key)):
            if not (folder / name).exists():
                write_atomic(folder / name, f"{text}\n".encode())
                files.append(name)
        if since < size:
            write_atomic(folder / CHECKPOINT, head.note.encode())
            files.append(CHECKPOINT)
        _remove_superseded(folder)
    return PublishSummary(head=head, new_entries=size - since, files=tuple(files))


class PublishedLog:
    """A published folder as a log to read and to verify. Knows no database and no keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
        return self._read(LOG_VKEY).decode("utf-8", "replace").strip()

    def head(self) -> SignedHead:
        """Return the published head; its signature is not checked here.

        Raises:
            NotFoundError: nothing was published here.
        """
        if not (self._folder / CHECKPOINT).is_file():
            raise NotFoundError(
                f"{self._folder} holds no published log", remedy="workbench publish"
            )
        return parse_head(self.notes()[-1])

    def notes(self) -> list[str]:
        """Return the one published head."""
        return [self._read(CHECKPOINT).decode("utf-8", "replace")]

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        """Yield the entries in order.

        Raises:
            IntegrityError: a file is missing or an entry is not what it was.
        """
        origin = self.origin
        for stored in self.records():
            entry = read_entry(stored, origin)
            if kind in (None, entry.kind) and subject in (None, entry.subject):
                yield entry

    def records(self) -> Iterator[StoredEntry]:
        """Yield the bytes of the entries in order, unchecked.

        Raises:
            IntegrityError: a file is missing, cut short or malformed.
        """
        for tile in level_tiles(0, self.head().size):
            leaves = read_tile(self._read(tile.path), tile)
            envelopes = read_bundle(self._read(tile.bundle_path), tile)
            bodies = self._bodies(tile)
            for at, (leaf, envelope) in enumerate(zip(leaves, envelopes, strict=True)):
                body, salt, signature = bodies[at]
                yield StoredEntry(
                    sequence=tile.start + at,
                    leaf=leaf,
                    envelope=envelope,
                    salt=salt,
                    body=body,
                    signature=signature,
                )

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return hashes of the tree from the tiles, unchecked (see `HashSource`).

        Raises:
            IntegrityError: the published head does not cover them, or a tile cannot be read.
        """
        return TileHashes(self._read, self.head().size).hashes(level, start, stop)

    def faults(self, leaves: Sequence[bytes]) -> list[str]:
        """Return which files contradict the entries: tiles of every level and size, key files."""
        records = list(self.records())
        genesis = _genesis(records, self.origin)
        keys = ((LOG_VKEY, genesis.log_key), (AUTHOR_VKEY, genesis.author_key))
        found = [
            f"{name} is not the key that the first entry names"
            for name, key in keys
            if self._read(name) != f"{key}\n".encode()
        ]
        levels = levels_of(leaves)
        envelopes = [stored.envelope for stored in records]
        expected = {tile.path for level, hashes in enumerate(levels)
                    for tile in level_tiles(level, len(hashes))}  # fmt: skip
        for path in sorted((self._folder / "tile").rglob("*")):
            name = path.relative_to(self._folder).as_posix()
            if path.is_file() and not path.name.endswith(".tmp"):
                expected.discard(name)
                if path.read_bytes() != _content(name, levels, envelopes):
                    found.append(f"{name} is not what the entries give")
        return [*found, *(f"{name} is missing" for name in sorted(expected))]

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise IntegrityError(f"{name} of the published log cannot be read: {error}") from error

    def _bodies(self, tile: Tile) -> list[tuple[bytes, bytes, str]]:
        *lines, torn = self._read(tile.body_path).split(b"\n")
        if torn or len(lines) < tile.width:
            whole = f"{len(lines)} whole bodies of {tile.width}"
            raise IntegrityError(f"{tile.body_path} is cut short: {whole}")
        found: list[tuple[bytes, bytes, str]] = []
        for at, line in enumerate(lines[: tile.width]):
            match = _BODY_LINE.fullmatch(line)
            if not match or int(match[3]) != tile.start + at:
                raise IntegrityError(
                    f"{tile.body_path} line {at + 1} is not the body of entry {tile.start + at}"
                )
            found.append((match[1], bytes.fromhex(match[2].decode()), match[4].decode()))
        return found


def _genesis(records: Sequence[StoredEntry], origin: str) -> Genesis:
    if not records:
        raise IntegrityError("the log has no first entry")
    body = read_entry(records[0], origin).body
    if not isinstance(body, Genesis):
        raise IntegrityError(f"the first entry is a {body.kind}, not the genesis")
    return body


def _published_size(folder: Path, key: VerifierKey, leaves: Sequence[bytes]) -> int:
    """Return how many entries are published; refuse a folder that holds another history."""
    if not (folder / CHECKPOINT).is_file():
        return 0
    head = verify_head((folder / CHECKPOINT).read_bytes().decode("utf-8", "replace"), key)
    if head.size > len(leaves) or tree_root(leaves[: head.size]) != head.root:
        raise IntegrityError(
            f"{folder} publishes {head.size} entries that are not a prefix of this log",
            remedy="find out which of the two histories is right before publishing either",
        )
    return head.size


def _write_files(folder: Path, records: Sequence[StoredEntry], since: int) -> list[str]:
    """Write every tile, bundle and body file that entries from ``since`` on are in."""
    if since == len(records):
        return []
    levels = levels_of([stored.leaf for stored in records])
    envelopes = [stored.envelope for stored in records]
    files: dict[str, bytes] = {}
    for tile in level_tiles(0, len(records), since):
        bodies = records[tile.start : tile.start + tile.width]
        files[tile.body_path] = b"".join(_body_line(stored) for stored in bodies)
        files[tile.bundle_path] = write_bundle(envelopes[tile.start : tile.start + tile.width])
    for level, hashes in enumerate(levels):
        for tile in level_tiles(level, len(hashes), since // WIDTH**level):
            files[tile.path] = b"".join(hashes[tile.start : tile.start + tile.width])
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return list(files)


def _body_line(stored: StoredEntry) -> bytes:
    tail = f'"salt":"{stored.salt.hex()}","sequence":{stored.sequence},'
    return b'{"body":' + stored.body + f',{tail}"signature":"{stored.signature}"}}\n'.encode()


def _remove_superseded(folder: Path) -> None:
    """Remove the partial tiles beside full ones, and what a killed publication left."""
    # tlog-tiles keeps a partial tile for readers of older heads until its full tile is there.
    for path in (folder / "tile").rglob("*.p"):
        if path.with_suffix("").is_file():
            for partial in path.iterdir():
                partial.unlink()
            path.rmdir()
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


def _content(name: str, levels: Sequence[Sequence[bytes]], envelopes: Sequence[bytes]) -> bytes:
    """Return what a file below ``tile/`` must hold; nothing when the name is not of a tile."""
    match = re.fullmatch(r"tile/(entries|[0-9]+)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([0-9]+))?", name)
    if not match:
        return b""
    bundle = match[1] == "entries"
    level = 0 if bundle else int(match[1])
    hashes: Sequence[bytes] = levels[level] if level < len(levels) else ()
    start = int(re.sub(r"\D", "", match[2])) * WIDTH
    end = start + int(match[3] or WIDTH)
    if end > len(hashes):
        return b""
    return write_bundle(envelopes[start:end]) if bundle else b"".join(hashes[start:end])


@contextmanager
def _one_publisher(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
