"""The store of a team: one schema of a PostgreSQL database, and an advisory lock in it."""

import hashlib
import importlib
import os
import re
import ssl
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from workbench.errors import (
    IntegrityError,
    InvalidFileError,
    MissingDependencyError,
    NotFoundError,
    StoreUnavailableError,
    WorkbenchError,
)
from workbench.registry.merkle import Frontier
from workbench.registry.store.interface import SCHEMA_VERSION
from workbench.registry.store.schema import bring_up
from workbench.registry.store.sql import LAST_NOTE, TREE, SqlStore, Statement, Value

_SCHEMES = ("postgresql", "postgresql+pg8000")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_UNDEFINED_TABLE = "42P01"
# SQLSTATE classes that say that the data are not what they must be; all others are about the place.
_DATA_CLASSES = ("22", "23", "XX")


@dataclass(frozen=True, kw_only=True)
class Address:
    """What a PostgreSQL URL says."""

    user: str
    password: str | None = field(repr=False)
    host: str
    port: int
    database: str
    socket: str | None
    """Folder of the server's Unix socket, instead of host and port."""
    schema: str
    """PostgreSQL's schema that holds the log's tables; one log each."""
    encryption: str
    """``disable``, ``require`` or ``verify-full``, as in libpq's ``sslmode``."""

    @property
    def place(self) -> str:
        """Host, database and schema, without the password."""
        host = self.socket or f"{self.host}:{self.port}"
        return f"PostgreSQL {self.database} at {host}, schema {self.schema}"

    def arguments(self, *, read_only: bool) -> dict[str, Any]:
        """Return what the driver connects with."""
        settings = {
            "search_path": self.schema,
            "synchronous_commit": "on",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on" if read_only else "off",
        }
        return {
            "user": self.user,
            "password": self.password,
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "unix_sock": f"{self.socket}/.s.PGSQL.{self.port}" if self.socket else None,
            "ssl_context": _ssl_context(self.encryption),
            "application_name": "workbench",
            "startup_params": settings,
        }


@dataclass(kw_only=True)
class _Held:
    """The writer lock, while this process has it."""

    connection: Any
    thread: int
    tree: list[Any] | None
    """Rows of the tree, which nobody else can change meanwhile."""
    note: str | None
    later: list[Statement] = field(default_factory=list)
    """Signed heads, written on the way with what comes next."""


class PostgresStore(SqlStore):
    """A log in a PostgreSQL database. Usable from several threads, processes and machines."""

    def __init__(self, address: Address, *, read_only: bool) -> None:
        self._address = address
        self._read_only = read_only
        self._driver = _driver()
        self._idle: deque[Any] = deque()
        self._owner = os.getpid()
        self._mutex = threading.Lock()
        self._held: _Held | None = None
        digest = hashlib.sha256(f"workbench ledger {address.schema}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
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
        """Return whether the database holds a ledger.

        Raises:
            StoreUnavailableError: the server does not answer or refuses.
        """
        store = cls(parse_url(url), read_only=True)
        try:
            return bool(store._found_version())
        finally:
            store.close()

    @property
    def place(self) -> str:
        """Host, database and schema, without the password."""
        return self._address.place

    def close(self) -> None:
        """Give the connections back. A later call opens new ones."""
        while self._idle:
            _hang_up(self._idle.pop())

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant.

        The server drops it when the connection ends.
        """
        with self._mutex:
            self._held = held = self._locked()
            try:
                yield
                # A lock is given back at once, and not when a transaction ends: heads first.
                statements = _lazily(held.later)
                statements.append((f"SELECT pg_advisory_unlock({self._key})", ()))
                self._execute(held.connection, statements)
                self._idle.append(held.connection)
            except BaseException as error:
                if not isinstance(error, WorkbenchError) or not self._released(held):
                    _hang_up(held.connection)
                raise
            finally:
                self._held = None

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

    def _locked(self) -> _Held:
        """Take the lock on a connection that works."""
        ask: list[Statement] = [(f"SELECT pg_advisory_lock({self._key})", ())]
        known = self.version == SCHEMA_VERSION
        if known:
            note = f"SELECT t.*, ({LAST_NOTE}) FROM ({TREE}) AS t"
            ask.append((note, ()))
        connection, rows = self._asked(ask)
        held = _Held(connection=connection, thread=threading.get_ident(), tree=None, note=None)
        if known:
            held.tree = [row[:3] for row in rows[1:]]
            held.note = str(rows[1][3] or "") if len(rows) > 1 else None
        return held

    def _released(self, held: _Held) -> bool:
        """Try to give lock and connection back after a refusal; return whether that worked."""
        try:
            statements: list[Statement] = [(f"SELECT pg_advisory_unlock({self._key})", ())]
            self._execute(held.connection, statements)
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
                _hang_up(connection)
                if idle is None:
                    raise
            except BaseException:
                _hang_up(connection)
                raise

    def _write(self, statements: Sequence[Statement], *, durable: bool) -> None:
        held = self._mine()
        if held is None:
            connection, _ = self._asked([("SELECT 1", ())])
            self._execute(connection, statements if durable else _lazily(statements))
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
            return self._driver.native.Connection(**arguments)

    def _connected_plainly(self) -> Any:
        return self._driver.dbapi.connect(**self._address.arguments(read_only=False))

    def _execute(self, connection: Any, statements: Sequence[Statement]) -> list[Any]:
        """Send the statements as one message, which is one transaction; return all their rows."""
        text = "; ".join(_filled(sql, values) for sql, values in statements)
        with self._translated():
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


def is_postgres_url(url: str) -> bool:
    """Return whether the URL names a PostgreSQL database."""
    return url.partition("://")[0] in _SCHEMES


def parse_url(url: str) -> Address:
    """Return what ``postgresql://user:password@host:port/database?schema=…`` says.

    Raises:
        InvalidFileError: it names no database, or has an option that is not known.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    database = unquote(parts.path.lstrip("/"))
    unknown = sorted(options.keys() - {"schema", "sslmode", "host"})
    schema, encryption = options.get("schema", "workbench"), options.get("sslmode", "disable")
    fault = ""
    if not database or "/" in database:
        fault = "it names no database"
    elif unknown:
        fault = f"option {unknown[0]!r} is none of schema, sslmode and host"
    elif not _SCHEMA.match(schema):
        fault = f"schema {schema!r} is not a lower-case SQL name"
    elif encryption not in ("disable", "require", "verify-full"):
        fault = f"sslmode {encryption!r} is none of disable, require and verify-full"
    if fault:
        raise InvalidFileError(
            f"the store URL of PostgreSQL cannot be used: {fault}",
            remedy='set store_url = "postgresql://USER@HOST:5432/DATABASE" in workbench.toml',
        )
    password = unquote(parts.password) if parts.password else os.environ.get("PGPASSWORD")
    return Address(
        user=unquote(parts.username or "") or os.environ.get("PGUSER") or "postgres",
        password=password,
        host=parts.hostname or "localhost",
        port=parts.port or 5432,
        database=database,
        socket=options.get("host"),
        schema=schema,
        encryption=encryption,
    )


def _driver() -> Any:
    try:
        for part in ("native", "dbapi", "exceptions"):
            importlib.import_module(f"pg8000.{part}")
        return importlib.import_module("pg8000")
    except ImportError as error:
        raise MissingDependencyError(
            f"a PostgreSQL store needs the driver pg8000: {error}",
            remedy="pip install 'pretrain-workbench[postgres]'",
        ) from error


def _ssl_context(encryption: str) -> ssl.SSLContext | None:
    if encryption == "disable":
        return None
    context = ssl.create_default_context()
    if encryption == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _lazily(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements as a transaction that does not wait for the disk."""
    if not statements:
        return []
    begin: list[Statement] = [("BEGIN", ()), ("SET LOCAL synchronous_commit = off", ())]
    return [*begin, *statements, ("COMMIT", ())]


def _filled(sql: str, values: Sequence[Value]) -> str:
    parts = sql.split("?")
    literals = [*map(_literal, values), ""]
    return "".join(part + literal for part, literal in zip(parts, literals, strict=True))


def _literal(value: Value) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    if "\0" in value:
        raise InvalidFileError(f"{value!r} has a NUL, which PostgreSQL cannot keep in a text")
    return "'" + value.replace("'", "''") + "'"


def _hang_up(connection: Any) -> None:
    try:
        connection.close()
    except Exception:  # noqa: BLE001 - it is gone already, in whatever way
        return
