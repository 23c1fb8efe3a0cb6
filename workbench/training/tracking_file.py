"""The SQLite file of an MLflow store: whole or not there, made by one process at a time."""

import contextlib
import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.errors import StoreUnavailableError


@contextlib.contextmanager
def alone(uri: str) -> Iterator[None]:
    """Hold the lock of a SQLite store's set-up; other stores have their own."""
    # MLflow checks for its tables and creates them in two steps; two first starts would collide.
    file = _sqlite_file(uri)
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_name(f"{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def create_whole(uri: str, create: Callable[[str], object]) -> None:
    """Create a SQLite store under another name and give it its own when its tables are there.

    MLflow makes them one by one and refuses for ever a store that has only some of them, which is
    what a kill or a full disk leaves.

    Args:
        uri: the store's; nothing happens unless it is a SQLite file that is missing.
        create: makes the store at the URI that it is given.

    Raises:
        StoreUnavailableError: it cannot be made.
    """
    file = _sqlite_file(uri)
    if file is None or (file.exists() and file.stat().st_size > 0):
        return
    fresh = file.with_name(f".{file.name}.new")
    for left in (fresh, fresh.with_name(f"{fresh.name}-journal")):
        left.unlink(missing_ok=True)
    try:
        create(f"sqlite:///{fresh}")
    except Exception as error:  # every driver has its own ways to say no
        fresh.unlink(missing_ok=True)
        raise unusable(uri, error) from error
    fresh.replace(file)


def use_write_ahead_log(uri: str) -> None:
    """Let readers of a SQLite store not wait for its writer.

    Raises:
        StoreUnavailableError: the file cannot be opened.
    """
    file = _sqlite_file(uri)
    if file is None:
        return
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=20)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise StoreUnavailableError(
            f"the MLflow store {file.name} cannot be opened: {error}",
            remedy="free or move the file, then repeat the command",
        ) from error


def unusable(uri: str, error: Exception) -> StoreUnavailableError:
    """Return the refusal of a store that a driver would not open."""
    detail = str(error).partition("\n")[0][:300]
    place = uri.partition("?")[0].rpartition("@")[2]
    return StoreUnavailableError(
        f"the MLflow store cannot be opened: {detail}",
        remedy=f"free {place} (disk space, permissions), or move it away: the ledger does not "
        "depend on it",
    )


def _sqlite_file(uri: str) -> Path | None:
    prefix = "sqlite:///"
    return Path(uri.removeprefix(prefix)) if uri.startswith(prefix) else None
