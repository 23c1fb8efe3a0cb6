"""How long-running work says how far it has come."""

from typing import Protocol


class Progress(Protocol):
    """Told how far a task has come; a display or nothing."""

    def __call__(
        self, task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        """Show that ``done`` of ``total`` units of the task are finished.

        ``ended`` marks the end of a trial, a re-run or a run: worth a line where no bar can move.
        """


def silent(task: str, done: float, total: float, detail: str = "", *, ended: bool = False) -> None:
    """Show nothing."""
    del task, done, total, detail, ended
