"""Who may work where at the same time: one filing in a lab, one stage of an experiment."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import get_args

from workbench.errors import ConflictError
from workbench.layout import Layout
from workbench.registry.entries import Mode

MODES: tuple[Mode, ...] = get_args(Mode)


@contextmanager
def filing_lock(layout: Layout) -> Iterator[None]:
    """Keep other processes from filing in this lab at the same time."""
    layout.state.mkdir(parents=True, exist_ok=True)
    with (layout.state / "filing.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def stage_lock(layout: Layout, subject: str, mode: Mode) -> Iterator[None]:
    """Keep a second process from the same experiment: two would judge or promote twice.

    Raises:
        ConflictError: another process is at work on it.
    """
    with _only(layout.runs / subject / mode, f"{subject} ({mode})"):
        yield


@contextmanager
def repeats_lock(folder: Path, what: str) -> Iterator[None]:
    """Keep a second process from repeating the same configuration.

    Args:
        folder: The configuration's own, where its repeats are.
        what: Is repeated, for the refusal.

    Raises:
        ConflictError: another process is at work on it.
    """
    with _only(folder, f"the repeats of {what}"):
        yield


@contextmanager
def at_rest(layout: Layout, subject: str) -> Iterator[None]:
    """Hold an experiment while its promise changes: nothing of it is filed or runs meanwhile.

    Raises:
        ConflictError: another process is at work on it.
    """
    with ExitStack() as stack:
        stack.enter_context(filing_lock(layout))
        for mode in MODES:
            stack.enter_context(stage_lock(layout, subject, mode))
        yield


@contextmanager
def _only(folder: Path, what: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"another process is at work on {what}",
                remedy="wait for it, or stop it and repeat the command",
            ) from error
        yield
