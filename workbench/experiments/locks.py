"""Who may work where at the same time: one filing in a lab, one stage of an experiment."""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import get_args

from workbench.errors import ConflictError
from workbench.layout import Layout
from workbench.registry.entries import Mode
from workbench.registry.ledger import Ledger

MODES: tuple[Mode, ...] = get_args(Mode)


@contextmanager
def filing_lock(layout: Layout) -> Iterator[None]:
    """Keep other processes from filing in this lab at the same time."""
    layout.state.mkdir(parents=True, exist_ok=True)
    with (layout.state / "filing.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def stage_lock(layout: Layout, ledger: Ledger, subject: str, mode: Mode) -> Iterator[None]:
    """Keep a second process from the same experiment: two would judge or promote twice.

    Also one on another machine, or in another clone of the lab, that uses the same store.

    Raises:
        ConflictError: another process is at work on it.
        StoreUnavailableError: the store does not answer.
    """
    name = f"{subject} ({mode})"
    with _only(layout.runs / subject / mode, name), ledger.reserved(f"{subject} {mode}") as free:
        if not free:
            raise _at_work(name, " in another copy of this lab")
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


def _at_work(what: str, where: str = "") -> ConflictError:
    return ConflictError(
        f"another process is at work on {what}{where}",
        remedy="wait for it, or stop it and repeat the command",
    )


@contextmanager
def at_rest(layout: Layout, ledger: Ledger, subject: str) -> Iterator[None]:
    """Hold an experiment while its promise changes: nothing of it is filed or runs meanwhile.

    Raises:
        ConflictError: another process is at work on it.
    """
    with ExitStack() as stack:
        stack.enter_context(filing_lock(layout))
        for mode in MODES:
            stack.enter_context(stage_lock(layout, ledger, subject, mode))
        yield


@contextmanager
def _only(folder: Path, what: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _at_work(what) from error
        yield
