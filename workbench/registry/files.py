"""Files that are either whole or not there."""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write the file so that a crash at any moment leaves the old content or the new one.

    The data is on the disk before the name points to it, and the name before this returns.
    """
    with _written(path, data, mode) as temporary:
        temporary.replace(path)
    sync_folder(path.parent)


def write_once(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write the file unless there is one: of two writers at once, the first one's content stays."""
    with _written(path, data, mode) as temporary, contextlib.suppress(FileExistsError):
        path.hardlink_to(temporary)
    sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what writers that were killed left in a folder. Nobody else may be writing there."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _written(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write and sync a temporary file beside the path; remove it if it is still there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder against other processes that ask for it here; waits for as long as needed.

    The kernel lets go of it when the process dies.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
