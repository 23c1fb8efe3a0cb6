"""Both kinds of store, and ledgers in them, for the tests that hold them to one contract."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pg8000.dbapi

from tests.registry.conftest import ORIGIN, ticking
from workbench.registry.keys import Keys, keys_folder, load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.store import Store, create_store, open_store, read_store
from workbench.registry.store.postgres import is_postgres_url, parse_url


@dataclass(frozen=True, kw_only=True)
class Place:
    """A store's URL and a folder for the keys of its log."""

    url: str
    root: Path

    @property
    def is_sqlite(self) -> bool:
        return not is_postgres_url(self.url)

    @property
    def file(self) -> Path:
        assert self.is_sqlite
        return Path(self.url.removeprefix("sqlite:///"))

    @property
    def keys_dir(self) -> Path:
        return self.root / "keys"

    @property
    def keys(self) -> Keys:
        return load_keys(self.keys_dir, ORIGIN)

    @property
    def last_head(self) -> Path:
        return keys_folder(self.keys_dir, ORIGIN) / "last-head"

    def create(self, clock: Callable[[], datetime] | None = None) -> Ledger:
        return Ledger.create(**self._arguments(clock), lab_name="test lab")

    def open(self, clock: Callable[[], datetime] | None = None) -> Ledger:
        return Ledger.open(**self._arguments(clock))

    def inspect(self) -> Ledger:
        return Ledger.inspect(url=self.url, origin=ORIGIN)

    def create_store(self) -> Store:
        return create_store(self.url)

    def open_store(self) -> Store:
        return open_store(self.url)

    def read_store(self) -> Store:
        return read_store(self.url)

    def _arguments(self, clock: Callable[[], datetime] | None) -> dict[str, Any]:
        return {
            "url": self.url,
            "origin": ORIGIN,
            "keys_dir": self.keys_dir,
            "actor": "researcher",
            "clock": clock or ticking(),
        }

    def sql(self, *statements: str, guarded: bool = False) -> list[Any]:
        """Run statements behind the ledger's back, and return the last one's rows.

        Args:
            statements: all in one transaction.
            guarded: leave the triggers in place, as somebody has them who made a mistake.
        """
        if self.is_sqlite:
            return _sqlite(self.file, statements, guarded)
        return _postgres(self.url, statements, guarded)


def _sqlite(file: Path, statements: Sequence[str], guarded: bool) -> list[Any]:
    connection = sqlite3.connect(file)
    try:
        if not guarded:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
        rows: list[Any] = []
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        connection.commit()
        return rows
    finally:
        connection.close()


def _postgres(url: str, statements: Sequence[str], guarded: bool) -> list[Any]:
    connection = pg8000.dbapi.connect(**parse_url(url).arguments(read_only=False))
    try:
        cursor = connection.cursor()
        if not guarded:
            cursor.execute("SET session_replication_role = replica")
        rows: list[Any] = []
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
        connection.commit()
        return rows
    finally:
        connection.close()
