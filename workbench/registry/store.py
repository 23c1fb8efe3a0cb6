"""The SQL store of a log. SQLite in WAL mode; triggers keep it append-only.

The triggers are guard-rails against mistakes, not security: whoever can write the file can drop
them. The Merkle tree and its signed heads are what shows a change.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from workbench.errors import (
    IntegrityError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
)
from workbench.registry.log import StoredEntry
from workbench.registry.merkle import Frontier

SCHEMA_VERSION = 1
_PREFIX = "sqlite:///"
_CHUNK = 512
_BUSY_SECONDS = 60

_METADATA = sa.MetaData()
_ENTRIES = sa.Table(
    "entries",
    _METADATA,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("leaf", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False, index=True),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Column("salt", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
)
_TREE = sa.Table(
    "tree",
    _METADATA,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("frontier", sa.LargeBinary, nullable=False),
    sa.Column("announcement", sa.Text, nullable=False),
)
_HEADS = sa.Table(
    "heads",
    _METADATA,
    sa.Column("size", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("note", sa.Text, nullable=False),
)
# Counting rows would read them all; the sequence has no gaps.
_COUNT = "SELECT coalesce(max(sequence) + 1, 0) FROM entries"
_CLASH = "SELECT 1 FROM entries WHERE leaf = NEW.leaf OR id = NEW.id"
_LAST_HEAD = "SELECT coalesce(max(size), 0) FROM heads"
_TRIGGERS = (
    ("entries", "UPDATE", "1", "entries are never changed"),
    ("entries", "DELETE", "1", "entries are never deleted"),
    (
        "entries",
        "INSERT",
        # REPLACE deletes without firing the DELETE trigger, so a clash is refused before it.
        f"NEW.sequence IS NOT ({_COUNT}) OR EXISTS ({_CLASH})",
        "entries are appended without a gap, each once",
    ),
    ("tree", "UPDATE", "NEW.size IS NOT OLD.size + 1", "the tree grows by one entry"),
    ("tree", "DELETE", "1", "the tree is never deleted"),
    ("tree", "INSERT", "EXISTS (SELECT 1 FROM tree)", "there is one tree"),
    ("heads", "UPDATE", "1", "signed heads are never changed"),
    ("heads", "DELETE", "1", "signed heads are never deleted"),
    (
        "heads",
        "INSERT",
        f"NEW.size <= ({_LAST_HEAD}) OR NEW.size > ({_COUNT})",
        "a signed head is newer than the last and covers durable entries only",
    ),
)


class Store:
    """Entries, the durable tree over them, and the heads that were signed."""

    def __init__(self, url: str, engine: sa.Engine) -> None:
        self._path = _path_of(url)
        self._engine = engine

    @classmethod
    def create(cls, url: str) -> "Store":
        """Make an empty store, or open the one that is there already.

        Raises:
            StoreUnavailableError: the place cannot be written to.
        """
        path = _path_of(url)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            store = cls(url, _engine(url))
            with store.lock():
                store._create_schema()
        except OSError as error:
            raise StoreUnavailableError(f"{path} cannot be created: {error}") from error
        return store

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open an existing store.

        Raises:
            NotFoundError: there is none.
            IntegrityError: the file is not a store, or of another version.
        """
        path = _path_of(url)
        if not path.is_file():
            raise NotFoundError(f"there is no ledger at {path}", remedy="workbench init DIR")
        store = cls(url, _engine(url))
        with store._reading() as connection:
            version = connection.exec_driver_sql("PRAGMA user_version").scalar()
        if version != SCHEMA_VERSION:
            raise IntegrityError(f"{path} has schema version {version}, not {SCHEMA_VERSION}")
        return store

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the log's one writer lock, also against other processes. Not re-entrant.

        The kernel drops it when the process dies. Waits for as long as another one holds it.
        """
        path = self._path.with_name(self._path.name + ".lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreUnavailableError(f"{path} cannot be opened: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def tree(self) -> Frontier:
        """Return the durable tree.

        Raises:
            IntegrityError: it does not fit the number of entries, or is malformed.
        """
        with self._reading() as connection:
            row = connection.execute(sa.select(_TREE.c.size, _TREE.c.frontier)).one_or_none()
            count = connection.exec_driver_sql(_COUNT).scalar()
        if row is None:
            raise IntegrityError(
                f"{self._path} has lost the tree over its entries", remedy="workbench verify"
            )
        size, data = row
        if not isinstance(data, bytes):
            raise IntegrityError(f"{self._path} holds a tree that is not bytes")
        if size != count:
            raise IntegrityError(f"{self._path} holds {count} entries, its tree has {size}")
        return Frontier.from_bytes(size, data)

    def announcement(self) -> str:
        """Return the writer's signature of the newest entry's announcement."""
        with self._reading() as connection:
            return str(connection.scalar(sa.select(_TREE.c.announcement)))

    def append(self, entry: StoredEntry, tree: Frontier, announcement: str) -> None:
        """Make the entry and the tree that includes it durable, all or nothing.

        Raises:
            IntegrityError: a trigger refused it.
            StoreUnavailableError: the store is locked, full or read-only; nothing was written.
        """
        row = {name: getattr(entry, name) for name in _ENTRIES.c.keys()}  # noqa: SIM118
        with self._writing() as connection:
            connection.execute(_ENTRIES.insert(), row)
            connection.execute(
                _TREE.update(),
                {
                    "size": tree.size,
                    "frontier": tree.to_bytes(),
                    "announcement": announcement,
                },
            )

    def add_head(self, size: int, note: str) -> None:
        """Keep a signed head.

        Raises:
            IntegrityError: it is not newer than the last one, or covers entries that are not there.
        """
        with self._writing() as connection:
            connection.execute(_HEADS.insert(), {"size": size, "note": note})

    def heads(self) -> list[tuple[int, str]]:
        """Return the size column and the note of each signed head, oldest first."""
        query = sa.select(_HEADS.c.size, _HEADS.c.note).order_by(_HEADS.c.size)
        with self._reading() as connection:
            return [(row.size, str(row.note)) for row in connection.execute(query)]

    def last_note(self) -> str:
        """Return the newest signed head, empty when there is none."""
        query = sa.select(_HEADS.c.note).order_by(_HEADS.c.size.desc()).limit(1)
        with self._reading() as connection:
            return str(connection.scalar(query) or "")

    def records(
        self, *, since: int = 0, below: int, kind: str | None = None, subject: str | None = None
    ) -> Iterator[StoredEntry]:
        """Yield entries by sequence. No transaction stays open between two of them."""
        query = sa.select(_ENTRIES).where(_ENTRIES.c.sequence < below)
        if kind is not None:
            query = query.where(_ENTRIES.c.kind == kind)
        if subject is not None:
            query = query.where(_ENTRIES.c.subject == subject)
        query = query.order_by(_ENTRIES.c.sequence).limit(_CHUNK)
        while True:
            with self._reading() as connection:
                rows = connection.execute(query.where(_ENTRIES.c.sequence >= since)).all()
            yield from (_stored(row) for row in rows)
            if len(rows) < _CHUNK:
                return
            since = rows[-1].sequence + 1

    def leaves(self, below: int) -> list[bytes]:
        """Return the leaf hashes of the first entries."""
        query = sa.select(_ENTRIES.c.leaf).where(_ENTRIES.c.sequence < below)
        with self._reading() as connection:
            return list(connection.scalars(query.order_by(_ENTRIES.c.sequence)))

    def unknown_leaves(self, leaves: Sequence[bytes]) -> list[bytes]:
        """Return those of the leaf hashes that no entry has."""
        with self._reading() as connection:
            query = sa.select(_ENTRIES.c.sequence)
            return [
                leaf
                for leaf in leaves
                if connection.scalar(query.where(_ENTRIES.c.leaf == leaf)) is None
            ]

    def erase(self, sequence: int, *, by: int) -> None:
        """Overwrite the body and salt of an entry that a redaction names; its envelope stays.

        The bytes are overwritten in the file and the write-ahead log is emptied.

        Args:
            sequence: of the entry.
            by: sequence of the redaction, which is later.

        Raises:
            IntegrityError: there is no such redaction after the entry.
        """
        (update,) = [made for made in _TRIGGERS if made[:2] == ("entries", "UPDATE")]
        with self._writing() as connection:
            kind = connection.scalar(sa.select(_ENTRIES.c.kind).where(_ENTRIES.c.sequence == by))
            if kind != "redaction" or by <= sequence:
                raise IntegrityError(f"entry {by} is no redaction of entry {sequence}")
            connection.exec_driver_sql("DROP TRIGGER entries_update")
            connection.execute(
                _ENTRIES.update().where(_ENTRIES.c.sequence == sequence),
                {"body": b"", "salt": b""},
            )
            connection.exec_driver_sql(_trigger(*update))
        with self._reading() as connection:
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("BEGIN")

    def _create_schema(self) -> None:
        with self._translated():
            raw = self._engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
            finally:
                raw.close()
        with self._writing() as connection:
            if connection.exec_driver_sql("PRAGMA user_version").scalar() == SCHEMA_VERSION:
                return
            _METADATA.create_all(connection)
            for table, event, condition, message in _TRIGGERS:
                connection.exec_driver_sql(_trigger(table, event, condition, message))
            connection.execute(
                _TREE.insert(), {"one": 1, "size": 0, "frontier": b"", "announcement": ""}
            )
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        immediate = self._engine.execution_options(immediate=True)
        with self._translated(), immediate.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.OperationalError as error:
            raise StoreUnavailableError(
                f"{self._path} cannot be used: {error.orig}",
                remedy="free the store (lock, disk space, permissions) and repeat the command",
            ) from error
        except exc.DatabaseError as error:
            raise IntegrityError(
                f"{self._path} refused or is damaged: {error.orig}", remedy="workbench verify"
            ) from error


def _trigger(table: str, event: str, condition: str, message: str) -> str:
    return (
        f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table}"
        f" WHEN {condition} BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )


def _stored(row: sa.Row[Any]) -> StoredEntry:
    """Return the entry of a row. SQLite lets any column hold any type, so that is checked here."""
    for column in _ENTRIES.c:
        if not isinstance(row._mapping[column], column.type.python_type):
            raise IntegrityError(
                f"entry {row.sequence} ({row.kind} {row.id}): its column {column.name} holds a "
                f"{type(row._mapping[column]).__name__}"
            )
    return StoredEntry(**row._mapping)


def _path_of(url: str) -> Path:
    path = url.removeprefix(_PREFIX)
    if path == url or not path or path == ":memory:":
        raise InvalidFileError(
            f"store URL {url!r} is not a SQLite file",
            remedy='set store_url = "sqlite:///.workbench/ledger.db" in workbench.toml',
        )
    return Path(path)


def _engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
    sa.event.listen(engine, "connect", _configure)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: sa.engine.interfaces.DBAPIConnection, _record: object) -> None:
    # The driver's own transaction control is off, so that BEGIN IMMEDIATE below is the only one.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
