"""Requests that wait for the next writer of an embedded store: lines of a file beside it.

Nothing in it is durable or acknowledged. Who asked finds its entry in the store, or asks again.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import StoreUnavailableError


class FileSpool:
    """The file, while its lock is held: what is put meanwhile comes after what was taken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def put(self, request: bytes) -> None:
        """Hand a request, which is one line, to whoever writes next."""
        # A newline on either side: one that was cut short spoils itself only.
        os.write(self._descriptor, b"\n" + request + b"\n")

    def taken(self) -> list[bytes]:
        """Return the requests in the order in which they were put, and remove them."""
        size = os.fstat(self._descriptor).st_size
        if not size:
            return []
        data = os.pread(self._descriptor, size, 0)
        os.ftruncate(self._descriptor, 0)
        return [line for line in data.split(b"\n") if line]


@contextmanager
def opened_spool(path: Path) -> Iterator[FileSpool]:
    """Open the spool under its lock.

    Raises:
        StoreUnavailableError: the file cannot be opened or written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield FileSpool(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be used: {error}",
            remedy="free the store (permissions, disk space) and repeat the command",
        ) from error
