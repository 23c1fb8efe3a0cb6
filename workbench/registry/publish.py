"""Writing the published log: static files from which a stranger verifies everything.

Only what is new is read and written. `workbench.registry.published` reads the files again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from pathlib import Path
from typing import Protocol

from workbench.errors import IntegrityError
from workbench.registry.embargo import Hole, Withholding, withholding_of
from workbench.registry.entries import Embargo, Redaction, Reveal
from workbench.registry.files import alone_in, sync_folder, write_atomic
from workbench.registry.heads import SignedHead, parse_head, verify_head
from workbench.registry.log import Entry, LogSource, RawLog, StoredEntry, name_of, read_outline
from workbench.registry.merkle import tree_root
from workbench.registry.proofs import TileHashes
from workbench.registry.published import AUTHOR_VKEY, CHECKPOINT, LOG_VKEY, PublishedLog
from workbench.registry.rotation import KeyChain, chain_of
from workbench.registry.tiles import WIDTH, GrowingTiles, Tile, body_line, write_bundle

__all__ = ["PublishSummary", "PublishedLog", "publish"]

_STAGED = re.compile(r"\.(.+)\.covered-by-([0-9]+)")
"""Bodies that a redaction emptied, waiting for the head that covers it."""


class PublishableLog(LogSource, RawLog, Protocol):
    """A log whose bytes and whose entries can be read."""

    def head(self) -> SignedHead:
        """Return the newest signed head."""


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


def publish(source: PublishableLog, folder: Path) -> PublishSummary:
    """Bring the published files up to the log's newest signed head.

    A reader at any moment finds a whole log: the signed head is replaced after all that it covers,
    and a redacted body goes only when the head says that it was redacted. Files that an earlier
    publication wrote are not repaired, so that evidence is not overwritten.

    Raises:
        IntegrityError: the log is inconsistent, or the folder holds another history.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        head = source.head()
        chain = chain_of(source)
        verify_head(head.note, chain.log_at(head.size))
        since = _published_size(folder, head, chain)
        _finish_redactions(folder, since)
        writer = _Writer(folder, since, head.size)
        if since < head.size:
            _check_continues(source, head, folder, since)
            writer.put_entries(source)
            if not since:
                writer.put_keys(chain)
            writer.put(CHECKPOINT, head.note.encode())
            _finish_redactions(folder, head.size)
        # The old keys stay until the head that the new ones sign is there.
        writer.put_keys(chain)
        _remove_superseded(folder)
    return PublishSummary(head=head, new_entries=head.size - since, files=tuple(writer.files))


class _Accounts:
    """Which bodies of a log are published, as its embargoes, reveals and redactions have it."""

    def __init__(self, source: PublishableLog, size: int) -> None:
        kinds = (Embargo.kind, Reveal.kind, Redaction.kind)
        found = (entry for kind in kinds for entry in source.entries(kind=kind))
        covered = (entry for entry in found if entry.sequence < size)
        self._entries: list[Entry] = sorted(covered, key=lambda entry: entry.sequence)
        self._withholding: Withholding = withholding_of(self._entries)

    def line(self, stored: StoredEntry) -> bytes:
        """Return an entry's line in the file of bodies.

        Raises:
            IntegrityError: the log has no body of it, and does not say why.
        """
        outline = read_outline(stored.envelope)
        hole = Hole(
            sequence=stored.sequence,
            leaf=stored.leaf.hex(),
            kind=outline.kind,
            subject=outline.subject,
        )
        if self._withholding.accounts_for(hole):
            return body_line(stored.sequence, b"", b"", stored.signature)
        if stored.is_hidden:
            raise IntegrityError(
                f"{name_of(stored)} has no body, and no embargo or redaction accounts for it",
                remedy="workbench verify",
            )
        return body_line(stored.sequence, stored.body, stored.salt, stored.signature)

    def changed(self, source: RawLog, since: int) -> tuple[set[int], set[int]]:
        """Return the tiles of published entries that were revealed, and those that were redacted.

        Only where the new entries reveal or redact something are the old ones looked through.
        """
        new = [entry for entry in self._entries if entry.sequence >= since]
        subjects = {entry.subject for entry in new if isinstance(entry.body, Reveal)}
        leaves = {ref for entry in new if isinstance(entry.body, Redaction) for ref in entry.refs}
        revealed: set[int] = set()
        redacted: set[int] = set()
        for stored in source.records() if subjects or leaves else ():
            if stored.sequence >= since:
                break
            if stored.leaf.hex() in leaves:
                redacted.add(stored.sequence // WIDTH)
            elif read_outline(stored.envelope).subject in subjects:
                revealed.add(stored.sequence // WIDTH)
        return revealed, redacted


class _Writer:
    """Writes the files of a publication, each whole or not at all."""

    def __init__(self, folder: Path, since: int, size: int) -> None:
        self._folder = folder
        self._since = since
        self._size = size
        self.files: list[str] = []
        """Written so far, relative to the folder."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file, unless it holds these bytes already."""
        path = self._folder / name
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
        self.files.append(name)

    def put_keys(self, chain: KeyChain) -> None:
        """Write the keys that are in force after the last published entry."""
        self.put(LOG_VKEY, f"{chain.log_at(self._size)}\n".encode())
        self.put(AUTHOR_VKEY, f"{chain.author_at(self._size)}\n".encode())

    def put_entries(self, source: PublishableLog) -> None:
        """Write every tile, bundle and body file that new, revealed or redacted entries are in."""
        accounts = _Accounts(source, self._size)
        revealed, redacted = accounts.changed(source, self._since)
        tiles = _grown(self._folder, self._since)
        first = self._since // WIDTH
        for index in sorted(index for index in revealed | redacted if index < first):
            records = list(islice(source.records(since=index * WIDTH), WIDTH))
            self._put_bodies(accounts, records, is_redacted=index in redacted)
        for index, group in groupby(self._records(source, first * WIDTH), _tile_index):
            records = list(group)
            tile = Tile(level=0, index=index, width=len(records))
            self._put_bodies(accounts, records, is_redacted=index in redacted)
            self.put(tile.bundle_path, write_bundle([stored.envelope for stored in records]))
            for stored in records:
                if stored.sequence >= self._since:
                    for full, hashes in tiles.add(stored.leaf):
                        self.put(full.path, b"".join(hashes))
        for part, hashes in tiles.unfinished():
            self.put(part.path, b"".join(hashes))

    def _records(self, source: RawLog, since: int) -> Iterator[StoredEntry]:
        records = source.records(since=since)
        return (stored for stored in records if stored.sequence < self._size)

    def _put_bodies(
        self, accounts: _Accounts, records: list[StoredEntry], *, is_redacted: bool
    ) -> None:
        lines = [accounts.line(stored) for stored in records]
        tile = Tile(level=0, index=_tile_index(records[0]), width=len(records))
        name = tile.body_path
        if is_redacted:
            # A reader of the head so far must still find the bodies that it does not say are gone.
            staged = Path(name).with_name(f".{Path(name).name}.covered-by-{self._size}")
            self.put(staged.as_posix(), b"".join(lines))
            before = (self._folder / name).read_bytes().splitlines(keepends=True)
            lines = [
                old if len(old) > len(new) else new
                for old, new in zip_longest(before, lines, fillvalue=b"")
            ]
        self.put(name, b"".join(lines))


def _tile_index(stored: StoredEntry) -> int:
    return stored.sequence // WIDTH


def _grown(folder: Path, size: int) -> GrowingTiles:
    """Return the tiles of the published entries, of which only the last of each level are read."""
    read = PublishedLog(folder).read
    return GrowingTiles(TileHashes(read, size).hashes, size)


def _check_continues(source: RawLog, head: SignedHead, folder: Path, since: int) -> None:
    """Check that the new entries after the published ones give the root of the head."""
    tiles, size = _grown(folder, since), since
    for stored in source.records(since=since):
        if stored.sequence < head.size:
            size += 1
            for _ in tiles.add(stored.leaf):
                pass
    if size == head.size and tiles.root() == head.root:
        return
    leaves = [stored.leaf for stored in source.records() if stored.sequence < head.size]
    if len(leaves) != head.size or tree_root(leaves) != head.root:
        raise IntegrityError(
            "the log's entries are not those that its head covers", remedy="workbench verify"
        )
    raise _another_history(folder, since)


def _published_size(folder: Path, head: SignedHead, chain: KeyChain) -> int:
    """Return how many entries are published; refuse a folder that holds another history."""
    if not (folder / CHECKPOINT).is_file():
        return 0
    note = PublishedLog(folder).head().note
    published = verify_head(note, chain.log_at(parse_head(note).size))
    same = published.size == head.size
    if published.size > head.size or (same and published.root != head.root):
        raise _another_history(folder, published.size)
    return published.size


def _another_history(folder: Path, size: int) -> IntegrityError:
    return IntegrityError(
        f"{folder} publishes {size} entries that are not a prefix of this log",
        remedy="find out which of the two histories is right before publishing either",
    )


def _finish_redactions(folder: Path, size: int) -> None:
    """Put the emptied bodies in place that a head over ``size`` entries covers; drop others."""
    for path in sorted((folder / "bodies").rglob(".*.covered-by-*")):
        match = _STAGED.fullmatch(path.name)
        if match and int(match[2]) <= size:
            path.replace(path.with_name(match[1]))
        else:
            path.unlink()
        sync_folder(path.parent)


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
