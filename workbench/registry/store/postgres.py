"""The store of a team: one schema of a PostgreSQL database, and an advisory lock in it."""

import hashlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import (
    IntegrityError,
    NotFoundError,
    StoreUnavailableError,
    WorkbenchError,
)
from workbench.registry.merkle import Frontier
from workbench.registry.store.address import Address, parse_url
from workbench.registry.store.connections import connected, driver, hang_up, hang_up_all
from workbench.registry.store.interface import SCHEMA_VERSION, Spool
from workbench.registry.store.schema import bring_up
from workbench.registry.store.sql import FOUND, SqlStore, Statement, Value
from workbench.registry.store.wording import (
    PREPARED,
    REQUEST,
    STATE,
    filled,
    lazily,
    preparation,
)

_UNDEFINED_TABLE = "42P01"
# SQLSTATE classes that say that the data are not what they must be; all others are about the place.
_DATA_CLASSES = ("22", "23", "XX")


@dataclass(kw_only=True)
class _Held:
    """The writer lock, while this process has it."""

    connection: Any
    thread: int
    tree: list[Any] | None
    """Rows of the tree, which nobody else can change meanwhile."""
    note: str | None
    asked: int
    """Requests of other writers that are waiting."""
    later: list[Statement] = field(default_factory=list)
    """Signed heads, written on the way with what comes next."""


class PostgresStore(SqlStore):
    """A log in a PostgreSQL database. Usable from several threads, processes and machines."""

    def __init__(self, address: Address, *, read_only: bool) -> None:
        self._address = address
        self._read_only = read_only
        self._driver = driver()
        self._idle: deque[Any] = deque()
        self._ready: weakref.WeakSet[Any] = weakref.WeakSet()
        """Connections that know `PREPARED`."""
        self._owner = os.getpid()
        # Readers seldom close a store; its connections end with it.
        weakref.finalize(self, hang_up_all, self._idle, self._owner)
        self._mutex = threading.Lock()
        self._held: _Held | None = None
        digest = hashlib.sha256(f"workbench ledger {address.schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._work = int.from_bytes(digest[8:16], "big", signed=True)
        """Held by who has the lock, too, and waited for by who does not: nobody who only waits is
        in the way of the next writer."""
        self._release = f"SELECT pg_advisory_unlock({self._key}), pg_advisory_unlock({self._work})"
        self.version = 0

    @classmethod
    def create(cls, url: str) -> "PostgresStore":
        """Make an empty store, or open the one that is there already.

        Raises:
            StoreUnavailableError: the server does not answer or refuses.
        """
        store = cls(parse_url(url), read_only=False)
        with store.closed_on_failure(), store.lock():
            store._refuse_lossy()
            store._read(f'CREATE SCHEMA IF NOT EXISTS "{store._address.schema}"')
            store._bring_up()
        return store

    @classmethod
    def open(cls, url: str) -> "PostgresStore":
        """Open an existing store to write to it; one of an earlier version is migrated first.

        Raises:
            NotFoundError: there is none.
            IntegrityError: it is of a later version.
            StoreUnavailableError: the server does not answer or refuses.
        """
        store = cls.read(url, read_only=False)
        with store.closed_on_failure():
            store._refuse_lossy()
            if store.version < SCHEMA_VERSION:
                with store.lock():
                    store._bring_up()
        return store

    @classmethod
    def read(cls, url: str, *, read_only: bool = True) -> "PostgresStore":
        """Open an existing store to read it; the server is asked to refuse any write.

        Raises:
            NotFoundError: there is none.
            IntegrityError: it is of a later version.
            StoreUnavailableError: the server does not answer or refuses.
        """
        store = cls(parse_url(url), read_only=read_only)
        with store.closed_on_failure():
            store.version = store._found_version()
            if not store.version:
                raise NotFoundError(
                    f"there is no ledger in {store.place}", remedy="workbench init DIR"
                )
        return store

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether the database holds a ledger with an entry.

        Raises:
            StoreUnavailableError: the server does not answer or refuses.
        """
        store = cls(parse_url(url), read_only=True)
        try:
            return bool(store._found_version()) and store._has_entries()
        finally:
            store.close()

    @property
    def place(self) -> str:
        """Host, database and schema, without the password."""
        return self._address.place

    def close(self) -> None:
        """Give the connections back. A later call opens new ones."""
        while self._idle:
            hang_up(self._idle.pop())

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant.

        The server drops it when the connection ends.
        """
        with self._mutex:
            held = self._locked(self._taking(f"pg_advisory_lock({self._key}) IS NOT NULL"))
            if held is None:  # cannot be: the server waits until it is free
                raise self._unavailable("its advisory lock was not given")
            with self._holding(held):
                yield

    @contextmanager
    def lock_if_free(self) -> Iterator[bool]:
        """Hold the writer lock and yield True, or yield False at once where another one has it."""
        if not self._mutex.acquire(blocking=False):
            yield False
            return
        try:
            held = self._locked(self._taking(f"pg_try_advisory_lock({self._key})"))
            if held is None:
                yield False
            else:
                with self._holding(held):
                    yield True
        finally:
            self._mutex.release()

    @contextmanager
    def _holding(self, held: _Held) -> Iterator[None]:
        self._held = held
        try:
            yield
            # A lock is given back at once, and not when a transaction ends: heads first.
            statements = lazily(held.later)
            statements.append((self._release, ()))
            self._execute(held.connection, statements)
            self._idle.append(held.connection)
        except BaseException as error:
            if not isinstance(error, WorkbenchError) or not self._released(held):
                hang_up(held.connection)
            raise
        finally:
            self._held = None

    @contextmanager
    def reserved(self, name: str) -> Iterator[bool]:
        """Hold a name against all others who use this store, and yield True, or False at once."""
        key = _advisory_key(f"workbench reserved {self._address.schema} {name}")
        # On a connection of its own, which nothing else uses and so nothing else closes.
        connection = self._connected()
        try:
            taken = self._execute(connection, [(f"SELECT pg_try_advisory_lock({key})", ())])
            yield bool(taken[0][0])
        finally:
            hang_up(connection)

    @contextmanager
    def spool(self) -> Iterator[Spool]:
        """Open the requests to the next writer."""
        yield self

    def put(self, request: bytes) -> None:
        """Hand a request to whoever writes next."""
        # In one turn: one that was put twice is appended once.
        connection, _ = self._asked(lazily([(REQUEST, (request,))]))
        self._idle.append(connection)

    def taken(self) -> list[bytes]:
        """Return the requests in the order in which they were put, and remove them."""
        held = self._mine()
        if held is None or not held.asked:
            return []
        rows = self._read("DELETE FROM requests RETURNING ticket, request")
        return [request for _, request in sorted(rows)]

    def awaited(self, leaf: bytes, turn: int) -> tuple[int, str] | None:
        """Wait for the writer at work; return the entry's sequence and the newest head."""
        # Shared, so that all who wait for one writer go on at the same time; PostgreSQL gives its
        # locks in the order in which they were asked for.
        del turn
        connection, rows = self._asked(
            [
                (f"SELECT pg_advisory_lock_shared({self._work})", ()),
                (f"SELECT pg_advisory_unlock_shared({self._work})", ()),
                (FOUND, (leaf,)),
            ]
        )
        self._idle.append(connection)
        return (rows[2][0], str(rows[2][1] or "")) if len(rows) > 2 else None

    def tree(self) -> Frontier:
        """Return the durable tree."""
        held = self._mine()
        return self._tree_of(held.tree) if held and held.tree is not None else super().tree()

    def last_note(self) -> str:
        """Return the newest signed head, empty when there is none."""
        held = self._mine()
        return held.note if held and held.note is not None else super().last_note()

    def settle(self) -> None:
        """Return only when everything that this store shows would survive a loss of power."""
        # PostgreSQL shows a transaction to others only after its log was synced.

    def _taking(self, got: str) -> str:
        """Return a query that takes both locks if the first is to be had; true where it is not."""
        return f"SELECT CASE WHEN {got} THEN pg_advisory_lock({self._work}) IS NULL ELSE true END"

    def _locked(self, take: str) -> _Held | None:
        """Take the lock on a connection that works, and see what a writer needs to know.

        Args:
            take: a query that is true where the lock was not to be had.
        """
        ask: list[Statement] = [(take, ())]
        known = self.version == SCHEMA_VERSION
        if known:
            ask.append((STATE, ()))
        connection, rows = self._asked(ask)
        if rows[0][0]:
            self._idle.append(connection)
            return None
        held = _Held(
            connection=connection, thread=threading.get_ident(), tree=None, note=None, asked=0
        )
        if known:
            held.tree = [row[:3] for row in rows[1:]]
        for row in rows[1:]:
            held.note, held.asked = str(row[3] or ""), row[4]
        return held

    def _released(self, held: _Held) -> bool:
        """Try to give lock and connection back after a refusal; return whether that worked."""
        try:
            self._execute(held.connection, [(self._release, ())])
        except WorkbenchError:
            return False
        self._idle.append(held.connection)
        return True

    def _read(self, sql: str, *values: Value) -> list[Any]:
        held = self._mine()
        if held is not None:
            return self._execute(held.connection, [(sql, values)])
        connection, rows = self._asked([(sql, values)])
        self._idle.append(connection)
        return rows

    def _asked(self, statements: Sequence[Statement]) -> tuple[Any, list[Any]]:
        """Return the rows of what may be repeated, and the connection that gave them.

        A connection that was idle may have been closed by the server; then the next one is tried.
        """
        if self._owner != os.getpid():
            # After a fork the sockets are the parent's.
            self._idle, self._owner = deque(), os.getpid()
        while True:
            idle = self._idle.pop() if self._idle else None
            connection = self._connected() if idle is None else idle
            try:
                return connection, self._execute(connection, statements)
            except StoreUnavailableError:
                hang_up(connection)
                if idle is None:
                    raise
            except BaseException:
                hang_up(connection)
                raise

    def _write(self, statements: Sequence[Statement], *, durable: bool) -> None:
        held = self._mine()
        if held is None:
            connection, _ = self._asked([("SELECT 1", ())])
            self._execute(connection, statements if durable else lazily(statements))
            self._idle.append(connection)
        elif durable:
            # Several statements in one message are one transaction.
            self._execute(held.connection, [*held.later, *statements])
            held.later.clear()
            held.tree = held.note = None
        else:
            held.later += statements

    def _scrub(self) -> None:
        # Only a new copy of the table is without the old row.
        self._read("VACUUM FULL entries")

    def _bring_up(self) -> None:
        found = self._found_version()
        if found < SCHEMA_VERSION:
            with self._translated():
                bring_up("postgresql+pg8000://", self._connected_plainly, found=found)
        self.version = SCHEMA_VERSION

    def _found_version(self) -> int:
        exists = self._read("SELECT to_regclass(?) IS NOT NULL", "schema_version")[0][0]
        rows = self._read("SELECT version_num FROM schema_version") if exists else []
        version = int(rows[0][0]) if rows else 0
        if version > SCHEMA_VERSION:
            raise IntegrityError(
                f"{self.place} has schema version {version}, this program knows "
                f"1 to {SCHEMA_VERSION}",
                remedy="use the newest workbench: pip install --upgrade pretrain-workbench",
            )
        return version

    def _refuse_lossy(self) -> None:
        if self._read("SHOW fsync")[0][0] != "on":
            raise StoreUnavailableError(
                f"{self.place} runs with fsync off: a loss of power would take signed entries away",
                remedy="set fsync = on in postgresql.conf and restart the server",
            )

    def _mine(self) -> _Held | None:
        held = self._held
        return held if held is not None and held.thread == threading.get_ident() else None

    def _connected(self) -> Any:
        with self._translated():
            arguments = self._address.arguments(read_only=self._read_only)
            return connected(self._driver.native, arguments)

    def _connected_plainly(self) -> Any:
        return self._driver.dbapi.connect(**self._address.arguments(read_only=False))

    def _execute(self, connection: Any, statements: Sequence[Statement]) -> list[Any]:
        """Send the statements as one message, which is one transaction; return all their rows."""
        with self._translated():
            if self.version == SCHEMA_VERSION and connection not in self._ready:
                connection.execute_simple("; ".join(map(preparation, PREPARED)))
                self._ready.add(connection)
            known = PREPARED if connection in self._ready else {}
            text = "; ".join(filled(sql, values, known) for sql, values in statements)
            return connection.execute_simple(text).rows or []

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._driver.exceptions
        try:
            yield
        except errors.DatabaseError as error:
            said = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            code, message = str(said.get("C", "")), said.get("M", error)
            if code[:2] in _DATA_CLASSES or code == _UNDEFINED_TABLE:
                raise IntegrityError(
                    f"{self.place} refused or is damaged: {message}", remedy="workbench verify"
                ) from error
            raise self._unavailable(message) from error
        except (errors.InterfaceError, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, reason: object) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self.place} cannot be used: {reason}",
            remedy="start or free the server (store_url, password in PGPASSWORD, disk space) and "
            "repeat the command",
        )


def _advisory_key(text: str) -> int:
    """Return the number of PostgreSQL's advisory lock that stands for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
