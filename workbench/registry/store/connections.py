"""Connections to a PostgreSQL server: made, and given back whatever state they are in."""

import importlib
import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

from workbench.errors import MissingDependencyError


def driver() -> Any:
    """Return the package of the driver.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        for part in ("native", "dbapi", "exceptions"):
            importlib.import_module(f"pg8000.{part}")
        return importlib.import_module("pg8000")
    except ImportError as error:
        raise MissingDependencyError(
            f"a PostgreSQL store needs the driver pg8000: {error}",
            remedy="pip install 'pretrain-workbench[postgres]'",
        ) from error


def connected(native: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a new connection.

    Args:
        native: the driver's own interface.
        arguments: what `Address.arguments` gives.
    """
    # The driver leaves its socket open where the server answers and refuses, as one does that is
    # starting: whoever waits for it would use up all file descriptors.
    made = _socket(arguments)
    try:
        return native.Connection(**{**arguments, "unix_sock": None, "sock": made})
    except BaseException:
        made.close()
        raise


def _socket(arguments: Mapping[str, Any]) -> socket.socket:
    path = arguments["unix_sock"]
    if path is None:
        made = socket.create_connection((arguments["host"], arguments["port"]))
    else:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.connect(path)
        except BaseException:
            made.close()
            raise
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def hang_up_all(connections: deque[Any], owner: int) -> None:
    """End the connections, unless a fork copied them: then they are the parent's."""
    while connections and os.getpid() == owner:
        hang_up(connections.pop())


def hang_up(connection: Any) -> None:
    """End a connection, whatever became of it."""
    try:
        connection.close()
    except Exception:  # noqa: BLE001 - it is gone already, in whatever way
        return
