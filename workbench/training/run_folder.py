"""The files that a run leaves in its folder, and who holds it. Imports no torch."""

import contextlib
import fcntl
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from workbench.canonical import from_decimal, parse_json
from workbench.errors import ConflictError

_TELEMETRY = re.compile(r"telemetry-attempt-(\d{4})\.jsonl\Z")


def telemetry_path(folder: Path, attempt: int) -> Path:
    """Return the telemetry file of an attempt."""
    return folder / f"telemetry-attempt-{attempt:04d}.jsonl"


def evaluations_path(folder: Path, attempt: int) -> Path:
    """Return the file of an attempt's validation metrics."""
    return folder / f"evaluations-attempt-{attempt:04d}.jsonl"


def last_attempt(folder: Path) -> int:
    """Return the number of the run's last attempt, 0 when there was none."""
    if not folder.is_dir():
        return 0
    matches = [_TELEMETRY.match(path.name) for path in folder.iterdir()]
    return max((int(match[1]) for match in matches if match), default=0)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a run's folder for this process; the lock dies with the process.

    Raises:
        ConflictError: another process is training in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        if not _take(lock):
            raise ConflictError(
                f"another process is training in {folder.name}/",
                remedy="wait for it, or stop it and repeat the command",
            )
        yield


def is_held(folder: Path) -> bool:
    """Return whether a process on this machine is training in the folder. Only reads."""
    try:
        with (folder / "lock").open() as lock:
            return not _shares(lock)
    except FileNotFoundError:
        return False


def _take(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not _shares(lock):
            return False
        # Who holds it only looked whether it is held, and lets go at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
    return True


def _shares(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_evaluations(path: Path) -> tuple[tuple[int, dict[str, float]], ...]:
    """Return (step, validation metrics) of an attempt's file, also while it is written."""
    if not path.is_file():
        return ()
    # A line without its end was torn by a kill; its step is done again.
    lines = [line for line in path.read_text("utf-8").splitlines(keepends=True) if line[-1] == "\n"]
    plain = [parse_json(line.encode()) for line in lines]
    return tuple(
        (item["step"], {key: from_decimal(value) for key, value in item["values"].items()})
        for item in plain
    )
