"""The versions of the tables, as Alembic revisions. The only code that needs SQLAlchemy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.pool import StaticPool

VERSION_TABLE = "schema_version"


def migrate(url: str, connected: Callable[[], Any], *, found: int) -> None:
    """Bring the tables to the newest revision, all or nothing.

    Args:
        url: names the dialect and the driver.
        connected: returns a new connection of that driver.
        found: schema version that is there, 0 for none.

    Errors of the driver are raised as the driver's own.
    """
    engine = sa.create_engine(url, creator=connected, poolclass=StaticPool)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "begin", _begin)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            config.attributes["version_table"] = VERSION_TABLE
            if found == 1 and not sa.inspect(connection).has_table(VERSION_TABLE):
                # A store from before there were revisions knows its version by itself.
                command.stamp(config, "1")
            command.upgrade(config, "head")
    except sa.exc.DBAPIError as error:
        raise error.orig or error from error
    finally:
        engine.dispose()


def _begin(connection: sa.Connection) -> None:
    # The driver's own transaction control is off.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
