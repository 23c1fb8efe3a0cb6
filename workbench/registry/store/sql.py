"""What the stores have in common: the statements, which both databases understand.

A statement marks its values with ``?``. The triggers behind the tables are guard-rails against
mistakes, not security: whoever can write the tables can drop them. The Merkle tree and its signed
heads are what shows a change.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from workbench.errors import ConflictError, IntegrityError
from workbench.registry.heads import parse_head
from workbench.registry.log import StoredEntry
from workbench.registry.merkle import Frontier
from workbench.registry.store.interface import Spool
from workbench.registry.subtrees import Growth, grown

Value: TypeAlias = int | str | bytes
Statement: TypeAlias = tuple[str, tuple[Value, ...]]

_CHUNK = 512
# In the order of the table, which is that of the constructor's fields below.
_COLUMNS: dict[str, type] = {
    "sequence": int,
    "leaf": bytes,
    "id": str,
    "kind": str,
    "subject": str,
    "envelope": bytes,
    "salt": bytes,
    "body": bytes,
    "signature": str,
}
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM entries"
INSERT = (
    f"INSERT INTO entries ({', '.join(_COLUMNS)}, announcement) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Counting rows would read them all; the sequence has no gaps.
TREE = "SELECT size, frontier, (SELECT coalesce(max(sequence) + 1, 0) FROM entries) FROM tree"
LAST_NOTE = "SELECT note FROM heads ORDER BY size DESC LIMIT 1"
FOUND = f"SELECT sequence, ({LAST_NOTE}) FROM entries WHERE leaf = ?"
GROW = "UPDATE tree SET size = ?, frontier = ?"
_SUBTREE = "INSERT INTO subtrees (level, position, hash) VALUES (?, ?, ?)"
HEAD = "INSERT INTO heads (size, note) VALUES (?, ?)"


class SqlStore(ABC):
    """A store behind SQL. What differs between databases is abstract here."""

    version: int
    """Schema version of the tables."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, for messages; never a password."""

    @abstractmethod
    def close(self) -> None:
        """Give the connections back. A later call opens new ones."""

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """Give the connections back if what is done meanwhile fails, for the caller gets no store.

        The error goes on.
        """
        try:
            yield
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def lock(self) -> AbstractContextManager[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant."""

    @abstractmethod
    def lock_if_free(self) -> AbstractContextManager[bool]:
        """Hold the writer lock and yield True, or yield False at once where another one has it."""

    @abstractmethod
    def reserved(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name against all others who use this store, and yield True, or False at once."""

    @abstractmethod
    def spool(self) -> AbstractContextManager[Spool]:
        """Open the requests to the next writer."""

    @abstractmethod
    def awaited(self, leaf: bytes, turn: int) -> tuple[int, str] | None:
        """Wait a while for other writers; return the entry's sequence and the newest head."""

    @abstractmethod
    def settle(self) -> None:
        """Return only when everything that this store shows would survive a loss of power."""

    @abstractmethod
    def _read(self, sql: str, *values: Value) -> list[Any]:
        """Return the rows of one query."""

    @abstractmethod
    def _write(self, statements: Sequence[Statement], *, durable: bool) -> None:
        """Do all of the statements or none of them."""

    @abstractmethod
    def _scrub(self) -> None:
        """Remove what erased values left behind in the database's files."""

    def tree(self) -> Frontier:
        """Return the durable tree."""
        return self._tree_of(self._read(TREE))

    def _tree_of(self, rows: Sequence[Any]) -> Frontier:
        if not rows:
            raise IntegrityError(
                f"{self.place} has lost the tree over its entries", remedy="workbench verify"
            )
        size, data, count = rows[0]
        if not isinstance(data, bytes):
            raise IntegrityError(f"{self.place} holds a tree that is not bytes")
        if size != count:
            raise IntegrityError(f"{self.place} holds {count} entries, its tree has {size}")
        return Frontier.from_bytes(size, data)

    def _has_entries(self) -> bool:
        return bool(self._read("SELECT 1 FROM entries LIMIT 1"))

    def append(
        self, entries: Sequence[StoredEntry], announcements: Sequence[str], growth: Growth
    ) -> None:
        """Make the entries and the tree that includes them durable, all or nothing."""
        self._write(_appending(entries, announcements, growth), durable=True)

    def add_head(self, size: int, note: str) -> None:
        """Keep a signed head."""
        self._write([(HEAD, (size, note))], durable=False)

    def announcements(self, *, since: int, below: int) -> list[str]:
        """Return the writers' announcements of these entries, by sequence."""
        rows = self._read(
            "SELECT announcement FROM entries WHERE sequence >= ? AND sequence < ? "
            "ORDER BY sequence",
            since,
            below,
        )
        return [str(row[0]) for row in rows]

    def heads(self) -> list[tuple[int, str]]:
        """Return the size column and the note of each signed head, oldest first."""
        return [
            (row[0], str(row[1]))
            for row in self._read("SELECT size, note FROM heads ORDER BY size")
        ]

    def last_note(self) -> str:
        """Return the newest signed head, empty when there is none."""
        rows = self._read(LAST_NOTE)
        return str(rows[0][0]) if rows else ""

    def records(
        self, *, since: int = 0, below: int, kind: str | None = None, subject: str | None = None
    ) -> Iterator[StoredEntry]:
        """Yield entries by sequence. No transaction stays open between two of them."""
        conditions, values = ["sequence < ?"], [below]
        wanted: list[Value] = [*values]
        for column, value in (("kind", kind), ("subject", subject)):
            if value is not None:
                conditions.append(f"{column} = ?")
                wanted.append(value)
        query = f"{_SELECT} WHERE {' AND '.join(conditions)} AND sequence >= ? ORDER BY sequence"
        while True:
            rows = self._read(f"{query} LIMIT {_CHUNK}", *wanted, since)
            yield from map(_stored, rows)
            if len(rows) < _CHUNK:
                return
            since = rows[-1][0] + 1

    def leaves(self, below: int) -> list[bytes]:
        """Return the leaf hashes of the first entries."""
        rows = self._read("SELECT leaf FROM entries WHERE sequence < ? ORDER BY sequence", below)
        return [row[0] for row in rows]

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return roots of complete subtrees of 256**level leaves; of level 0 the leaf hashes."""
        if level == 0:
            query = (
                "SELECT leaf FROM entries WHERE sequence >= ? AND sequence < ? ORDER BY sequence"
            )
            found = [row[0] for row in self._read(query, start, stop)]
        elif self.version == 1:
            found = self._computed(level)[start:stop]
        else:
            query = (
                "SELECT hash FROM subtrees WHERE level = ? AND position >= ? AND position < ? "
                "ORDER BY position"
            )
            found = [row[0] for row in self._read(query, level, start, stop)]
        if len(found) != max(0, stop - start):
            raise IntegrityError(
                f"{self.place} has {len(found)} of the hashes {start} to {stop} of level {level}",
                remedy="workbench verify",
            )
        return found

    def _computed(self, level: int) -> list[bytes]:
        # A store of version 1 that nobody has written to since.
        (count,) = self._read("SELECT coalesce(max(sequence) + 1, 0) FROM entries")[0]
        subtrees = grown(Frontier(), self.leaves(count)).subtrees
        return [subtree.root for subtree in subtrees if subtree.level == level]

    def sequence_of(self, leaf: bytes) -> int | None:
        """Return the place of the entry with this leaf hash, or None."""
        rows = self._read("SELECT sequence FROM entries WHERE leaf = ?", leaf)
        return rows[0][0] if rows else None

    def unknown_leaves(self, leaves: Sequence[bytes]) -> list[bytes]:
        """Return those of the leaf hashes that no entry has."""
        known: set[bytes] = set()
        for at in range(0, len(leaves), _CHUNK):
            chunk = leaves[at : at + _CHUNK]
            marks = ", ".join("?" * len(chunk))
            rows = self._read(f"SELECT leaf FROM entries WHERE leaf IN ({marks})", *chunk)
            known.update(row[0] for row in rows)
        return [leaf for leaf in leaves if leaf not in known]

    def erase(self, sequence: int, *, by: int) -> None:
        """Erase body and salt of an entry from the store's files. May be repeated."""
        named = self._read("SELECT redacted_by FROM redactions WHERE sequence = ?", sequence)
        statements: list[Statement] = []
        if not named:
            statements.append(
                ("INSERT INTO redactions (sequence, redacted_by) VALUES (?, ?)", (sequence, by))
            )
        statements.append(
            (
                "UPDATE entries SET body = ?, salt = ? WHERE sequence = ? AND length(salt) > 0",
                (b"", b"", sequence),
            )
        )
        self._write(statements, durable=True)
        self._scrub()

    def fill(
        self, entries: Sequence[StoredEntry], announcements: Sequence[str], notes: Sequence[str]
    ) -> None:
        """Put a whole log into an empty store, all or nothing, with the heads that were signed."""
        size = self.tree().size
        if size:
            raise ConflictError(
                f"{self.place} already holds {size} entries", remedy="workbench status"
            )
        growth = grown(Frontier(), (entry.leaf for entry in entries))
        statements = _appending(entries, announcements, growth)
        statements += [(HEAD, (parse_head(note).size, note)) for note in notes]
        self._write(statements, durable=True)


def _appending(
    entries: Sequence[StoredEntry], announcements: Sequence[str], growth: Growth
) -> list[Statement]:
    statements: list[Statement] = [
        (
            INSERT,
            (
                entry.sequence,
                entry.leaf,
                entry.id or "",
                entry.kind or "",
                entry.subject or "",
                entry.envelope,
                entry.salt,
                entry.body,
                entry.signature,
                announcement,
            ),
        )
        for entry, announcement in zip(entries, announcements, strict=True)
    ]
    statements += [(_SUBTREE, (s.level, s.position, s.root)) for s in growth.subtrees]
    statements.append((GROW, (growth.tree.size, growth.tree.to_bytes())))
    return statements


def _stored(row: Sequence[Any]) -> StoredEntry:
    """Return the entry of a row. SQLite lets any column hold any type, so that is checked here."""
    for (column, wanted), value in zip(_COLUMNS.items(), row, strict=True):
        if not isinstance(value, wanted):
            raise IntegrityError(
                f"entry {row[0]} ({row[3]} {row[2]}): its column {column} holds a "
                f"{type(value).__name__}"
            )
    sequence, leaf, identifier, kind, subject, envelope, salt, body, signature = row
    return StoredEntry(
        sequence=sequence,
        leaf=leaf,
        envelope=envelope,
        salt=salt,
        body=body,
        signature=signature,
        id=identifier,
        kind=kind,
        subject=subject,
    )
