"""What a ledger needs of a store. One test suite holds every store to it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from workbench.registry.log import StoredEntry
from workbench.registry.merkle import Frontier
from workbench.registry.subtrees import Growth

SCHEMA_VERSION = 2
"""Revision that ``migrations/`` leads to. What a version holds is said in its revision."""


class Spool(Protocol):
    """Requests that wait for the next writer. Nothing in it is durable or acknowledged."""

    def put(self, request: bytes) -> None:
        """Hand a request, which is one line, to whoever writes next."""

    def taken(self) -> list[bytes]:
        """Return the requests in the order in which they were put, and remove them."""


class Store(Protocol):
    """Entries, the durable tree over them, and the heads that were signed.

    Every method raises `StoreUnavailableError` when the store is locked, full, read-only or not
    reachable, and `IntegrityError` when it is damaged or a trigger refuses what is asked.
    """

    @property
    def place(self) -> str:
        """Where it is, for messages; never a password."""

    def close(self) -> None:
        """Give the connections back. A later call opens new ones."""

    def lock(self) -> AbstractContextManager[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant.

        It is dropped when the process dies. Waits for as long as another one holds it.
        """

    def lock_if_free(self) -> AbstractContextManager[bool]:
        """Hold the writer lock and yield True, or yield False at once where another one has it."""

    def reserved(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name against all others who use this store, and yield True, or False at once.

        Appending goes on meanwhile. The name is free again when the process dies or the database
        server restarts.
        """

    def spool(self) -> AbstractContextManager[Spool]:
        """Open the requests to the next writer; `Spool.taken` only under the writer lock."""

    def awaited(self, leaf: bytes, turn: int) -> tuple[int, str] | None:
        """Wait a while for other writers; return the entry's sequence and the newest head.

        Args:
            leaf: leaf hash of the entry that another writer was asked to append.
            turn: how often this was called for it before.

        Returns:
            None where the store does not have the entry yet.
        """

    def tree(self) -> Frontier:
        """Return the durable tree.

        Raises:
            IntegrityError: it does not fit the number of entries, or is malformed.
        """

    def settle(self) -> None:
        """Return only when everything that this store shows would survive a loss of power."""

    def append(
        self, entries: Sequence[StoredEntry], announcements: Sequence[str], growth: Growth
    ) -> None:
        """Make the entries and the tree that includes them durable, all or nothing.

        Only under the lock. When it returns, a loss of power takes nothing of it away.
        """

    def add_head(self, size: int, note: str) -> None:
        """Keep a signed head. A loss of power may take it back, and the next writer signs it again.

        Raises:
            IntegrityError: it is not newer than the last one, or covers entries that are not there.
        """

    def announcements(self, *, since: int, below: int) -> list[str]:
        """Return the writers' announcements of these entries, by sequence."""

    def heads(self) -> list[tuple[int, str]]:
        """Return the size column and the note of each signed head, oldest first."""

    def last_note(self) -> str:
        """Return the newest signed head, empty when there is none."""

    def records(
        self, *, since: int = 0, below: int, kind: str | None = None, subject: str | None = None
    ) -> Iterator[StoredEntry]:
        """Yield entries by sequence. No transaction stays open between two of them."""

    def leaves(self, below: int) -> list[bytes]:
        """Return the leaf hashes of the first entries."""

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return roots of complete subtrees of 256**level leaves; of level 0 the leaf hashes.

        Raises:
            IntegrityError: not all of them are there.
        """

    def sequence_of(self, leaf: bytes) -> int | None:
        """Return the place of the entry with this leaf hash, or None."""

    def unknown_leaves(self, leaves: Sequence[bytes]) -> list[bytes]:
        """Return those of the leaf hashes that no entry has."""

    def erase(self, sequence: int, *, by: int) -> None:
        """Erase body and salt of an entry from the store's files. May be repeated.

        The envelope stays. Copies that the disk, backups or archived logs keep are not reached.

        Args:
            sequence: the entry to erase.
            by: the later redaction entry whose references name it.

        Raises:
            IntegrityError: there is no such redaction.
        """

    def fill(
        self, entries: Sequence[StoredEntry], announcements: Sequence[str], notes: Sequence[str]
    ) -> None:
        """Put a whole log into an empty store, all or nothing, with the heads that were signed.

        An entry without body and salt is a hole. Only under the lock.

        Raises:
            ConflictError: the store holds entries already.
        """
