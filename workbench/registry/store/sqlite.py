"""The embedded store: one SQLite file in WAL mode, and a lock file beside it."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from workbench.errors import (
    IntegrityError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
    WorkbenchError,
)
from workbench.registry.store.interface import SCHEMA_VERSION, Spool
from workbench.registry.store.mounts import refuse_network_file_system
from workbench.registry.store.schema import bring_up
from workbench.registry.store.spool import opened_spool
from workbench.registry.store.sql import FOUND, SqlStore, Statement, Value

PREFIX = "sqlite:///"
_BUSY_SECONDS = 60
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.004, 0.016


class SqliteStore(SqlStore):
    """A log in one file of a local disk. Usable from several threads and processes."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._spool_path = path.with_name(path.name + ".requests")
        self._read_only = read_only
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._idle: deque[sqlite3.Connection] = deque()
        self._owner = os.getpid()
        # Readers seldom close a store; its connections end with it.
        weakref.finalize(self, _close_all, self._idle, self._owner)
        self._file: tuple[int, int] | None = None
        self.version = SCHEMA_VERSION

    @classmethod
    def create(cls, url: str) -> "SqliteStore":
        """Make an empty store, or open the one that is there already.

        Raises:
            StoreUnavailableError: the place cannot be written to, or is on a network file system.
        """
        path = path_of(url)
        refuse_network_file_system(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"{path} cannot be created: {error}") from error
        store = cls(path, read_only=False)
        with store.closed_on_failure(), store.lock():
            store._bring_up()
        return store

    @classmethod
    def open(cls, url: str) -> "SqliteStore":
        """Open an existing store to write to it; one of an earlier version is migrated first.

        Raises:
            NotFoundError: there is none.
            IntegrityError: the file is not a store, or of a later version.
            StoreUnavailableError: it cannot be written to, or is on a network file system.
        """
        path = path_of(url)
        _refuse_missing(path)
        refuse_network_file_system(path)
        store = cls(path, read_only=False)
        with store.closed_on_failure():
            store._find_version()
            if store.version < SCHEMA_VERSION:
                with store.lock():
                    store._bring_up()
        return store

    @classmethod
    def read(cls, url: str) -> "SqliteStore":
        """Open an existing store to read it, also one of an earlier version or on a read-only disk.

        Raises:
            NotFoundError: there is none.
            IntegrityError: the file is not a store, or of a later version.
        """
        path = path_of(url)
        _refuse_missing(path)
        store = cls(path, read_only=True)
        with store.closed_on_failure():
            store._find_version()
        return store

    @classmethod
    def exists(cls, url: str) -> bool:
        """Return whether the file holds an entry, or something else than a store without any."""
        path = path_of(url)
        if not path.is_file():
            return False
        store = cls(path, read_only=True)
        try:
            tables = {str(name) for (name,) in store._read("SELECT name FROM sqlite_master")}
            return store._has_entries() if "entries" in tables else bool(tables)
        except WorkbenchError:
            return True  # for opening it to say what is wrong
        finally:
            store.close()

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self._path)

    def close(self) -> None:
        """Give the connections back. A later call opens new ones."""
        while self._idle:
            self._idle.pop().close()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant."""
        with _flocked(self._lock_path, fcntl.LOCK_EX):
            self._forget_stale()
            yield

    @contextmanager
    def lock_if_free(self) -> Iterator[bool]:
        """Hold the writer lock and yield True, or yield False at once where another one has it."""
        with _flocked(self._lock_path, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
            self._forget_stale()
            yield free

    def reserved(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name against all others who use this store, and yield True, or False at once."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        path = self._path.with_name(f"{self._path.name}.reserved-{digest}")
        return _flocked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def spool(self) -> AbstractContextManager[Spool]:
        """Open the requests to the next writer."""
        return opened_spool(self._spool_path)

    def awaited(self, leaf: bytes, turn: int) -> tuple[int, str] | None:
        """Wait a while for other writers; return the entry's sequence and the newest head."""
        # Sleeping, because flock gives a lock to whoever comes and not to who waited longest: a
        # waiter would not learn for a dozen commits that its entry is there.
        time.sleep(min(_SHORTEST_PAUSE * 1.5**turn, _LONGEST_PAUSE))
        rows = self._read(FOUND, leaf)
        return (rows[0][0], str(rows[0][1] or "")) if rows else None

    def settle(self) -> None:
        """Return only when everything that this store shows would survive a loss of power."""
        # A writer that was killed between its write and its sync leaves a transaction that later
        # connections recover from the page cache; nothing else would ever sync it.
        for path in (self._path, self._path.with_name(self._path.name + "-wal")):
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _read(self, sql: str, *values: Value) -> list[Any]:
        with self._connection() as connection:
            return connection.execute(sql, values).fetchall()

    def _write(self, statements: Sequence[Statement], *, durable: bool) -> None:
        with self._connection() as connection:
            if not durable:
                # In WAL mode a commit is then written but not synced; the next durable one syncs
                # what stands before it in the same file, too.
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                connection.execute("BEGIN IMMEDIATE")
                for sql, values in statements:
                    connection.execute(sql, values)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                if not durable:
                    connection.execute("PRAGMA synchronous = FULL")

    def _scrub(self) -> None:
        # secure_delete has zeroed the pages; the log before them still holds the old ones.
        with self._connection() as connection:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailableError(
                f"{self._path} is being read: what was erased is still in its write-ahead log",
                remedy="end the other commands that use this lab and repeat the command",
            )

    def _bring_up(self) -> None:
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        with self._translated():
            self._find_version(missing=0)
            if self.version < SCHEMA_VERSION:
                bring_up("sqlite://", self._connected, found=self.version)
        self.version = SCHEMA_VERSION

    def _find_version(self, *, missing: int | None = None) -> None:
        (version,) = self._read("PRAGMA user_version")[0]
        if version == 0:
            if missing is None:
                raise IntegrityError(
                    f"{self._path} is no ledger, or was cut short before its tables were whole",
                    remedy="restore it from a backup, or from the published files",
                )
            self.version = missing
        elif not 1 <= version <= SCHEMA_VERSION:
            raise IntegrityError(
                f"{self._path} has schema version {version}, this program knows "
                f"1 to {SCHEMA_VERSION}",
                remedy="use the newest workbench: pip install --upgrade pretrain-workbench",
            )
        else:
            self.version = version

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            if self._owner != os.getpid():
                # After a fork. The parent's stay open: closing them would drop its locks.
                self._idle, self._owner = deque(), os.getpid()
            connection = self._idle.pop() if self._idle else self._connected()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    def _forget_stale(self) -> None:
        """Drop connections to a file that was replaced meanwhile, say from a backup."""
        if self._idle and self._owner == os.getpid():
            found = self._path.stat()
            if (found.st_dev, found.st_ino) != self._file:
                self.close()

    def _connected(self) -> sqlite3.Connection:
        if self._read_only:
            connection = self._connected_to_read()
        else:
            connection = _connect(self._path, "mode=rwc")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA secure_delete = ON")
        found = self._path.stat()
        self._file = (found.st_dev, found.st_ino)
        return connection

    def _connected_to_read(self) -> sqlite3.Connection:
        """Return a connection to a file that perhaps nobody may write beside.

        SQLite reads a log only if it can share an index of it in the same folder. Where it cannot,
        a file without a log is read as it stands, and one with a log is copied with it.
        """
        try:
            return _probed(_connect(self._path, "mode=ro"))
        except sqlite3.OperationalError:
            wal = self._path.with_name(self._path.name + "-wal")
            if not wal.is_file() or wal.stat().st_size == 0:
                return _probed(_connect(self._path, "immutable=1"))
            if self._copy is None:
                self._copy = tempfile.TemporaryDirectory(prefix="workbench-")
                for path in (self._path, wal):
                    shutil.copyfile(path, Path(self._copy.name) / path.name)
            return _probed(_connect(Path(self._copy.name) / self._path.name, "mode=rw"))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreUnavailableError(
                f"{self._path} cannot be used: {error}",
                remedy="free the store (lock, disk space, permissions) and repeat the command",
            ) from error
        except sqlite3.Error as error:
            raise IntegrityError(
                f"{self._path} refused or is damaged: {error}", remedy="workbench verify"
            ) from error


def path_of(url: str) -> Path:
    """Return the file of a SQLite URL.

    Raises:
        InvalidFileError: the URL names no file.
    """
    path = url.removeprefix(PREFIX)
    if path == url or not path or path == ":memory:":
        raise InvalidFileError(
            f"store URL {url!r} is neither a SQLite file nor a PostgreSQL database",
            remedy='set store_url = "sqlite:///.workbench/ledger.db" in workbench.toml',
        )
    return Path(path)


@contextmanager
def _flocked(path: Path, how: int) -> Iterator[bool]:
    """Hold a lock that the kernel drops when the process dies; yield whether it was to be had."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be opened: {error}",
            remedy="free the store (permissions, disk space) and repeat the command",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _close_all(connections: deque[sqlite3.Connection], owner: int) -> None:
    """Close the connections, unless a fork copied them: then they are the parent's."""
    while connections and os.getpid() == owner:
        connections.pop().close()


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise NotFoundError(f"there is no ledger at {path}", remedy="workbench init DIR")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # The driver's own transaction control is off (isolation_level), so that BEGIN IMMEDIATE is the
    # only one. A connection is used by one thread at a time, but not always by the same one.
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{mode}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _probed(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return the connection if it can read at all."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
