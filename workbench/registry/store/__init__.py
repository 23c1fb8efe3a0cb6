"""Where a log's entries are kept: SQLite for one machine, PostgreSQL for a team."""

from workbench.registry.store.interface import SCHEMA_VERSION, Store
from workbench.registry.store.opening import create_store, open_store, read_store, store_exists

__all__ = [
    "SCHEMA_VERSION",
    "Store",
    "create_store",
    "open_store",
    "read_store",
    "store_exists",
]
