"""How long-running work says how far it has come."""

from typing import Protocol


class Progress(Protocol):
    """Told how far a task has come; a display or nothing."""

    def __call__(self, task: str, done: float, total: float, detail: str = "") -> None:
        """Show that ``done`` of ``total`` units of the task are finished."""


def silent(task: str, done: float, total: float, detail: str = "") -> None:
    """Show nothing."""
    del task, done, total, detail
