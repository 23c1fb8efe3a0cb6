"""From a URL to the store that it names."""

from workbench.registry.store.address import is_postgres_url
from workbench.registry.store.interface import Store
from workbench.registry.store.postgres import PostgresStore
from workbench.registry.store.sqlite import SqliteStore


def create_store(url: str) -> Store:
    """Make an empty store, or open the one that is there already.

    Args:
        url: ``sqlite:////absolute/path`` or ``postgresql://user@host/database``.

    Raises:
        InvalidFileError: the URL names neither.
        StoreUnavailableError: the place cannot be written to, or is on a network file system.
    """
    return PostgresStore.create(url) if is_postgres_url(url) else SqliteStore.create(url)


def open_store(url: str) -> Store:
    """Open an existing store to write to it; one of an earlier version is migrated first.

    Raises:
        NotFoundError: there is none.
        IntegrityError: what is there is not a store, or of a later version.
    """
    return PostgresStore.open(url) if is_postgres_url(url) else SqliteStore.open(url)


def read_store(url: str) -> Store:
    """Open an existing store to read it only, also one of an earlier version.

    Raises:
        NotFoundError: there is none.
        IntegrityError: what is there is not a store, or of a later version.
    """
    return PostgresStore.read(url) if is_postgres_url(url) else SqliteStore.read(url)


def store_exists(url: str) -> bool:
    """Return whether the URL leads to a store with a log in it.

    What a creation or a restore leaves that was cut short before the first entry is none. What
    cannot be read may hold a log, and counts as one.

    Raises:
        StoreUnavailableError: the database server does not answer.
    """
    return PostgresStore.exists(url) if is_postgres_url(url) else SqliteStore.exists(url)
