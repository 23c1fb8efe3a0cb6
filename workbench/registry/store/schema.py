"""Bringing a store's tables to the present version, with Alembic.

Alembic and SQLAlchemy take a third of a second to import and are needed here only, so they are
imported when a store is made or migrated and not before: hence the import by name.
"""

import importlib
from collections.abc import Callable
from typing import Any


def bring_up(url: str, connected: Callable[[], Any], *, found: int) -> None:
    """Create or migrate the tables in one transaction. Only under the store's lock.

    Args:
        url: names the dialect and the driver for SQLAlchemy.
        connected: returns a new connection of that driver.
        found: schema version that is there, 0 for none.
    """
    importlib.import_module("workbench.registry.store.migrations").migrate(
        url, connected, found=found
    )
