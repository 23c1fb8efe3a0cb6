"""Refusals: one base class, one subclass for each different thing the caller would do next.

The command line maps a class to its exit code and prints the message without a traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing wrong with a file, so that all of them can be shown at once."""

    where: str
    """``file:line`` or ``file`` when no single line is at fault."""
    message: str
    """What is refused and the offending value."""
    remedy: str = ""
    """What puts it right; empty where the message already says so."""

    def __str__(self) -> str:
        tail = f"\n    -> {self.remedy}" if self.remedy else ""
        return f"{self.where}: {self.message}{tail}"


class WorkbenchError(Exception):
    """A refusal that names what was refused, the offending value and the remedy."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.remedy}" if self.remedy else self.message


class InvalidFileError(WorkbenchError):
    """A proposal, recipe or configuration cannot be accepted: edit the file."""

    exit_code = 3

    def __init__(self, message: str, faults: Sequence[Fault] = (), *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {fault}" for fault in self.faults)])


class NotRegisteredError(WorkbenchError):
    """A confirmatory step without its registration: register, or explore."""

    exit_code = 4


class ConflictError(WorkbenchError):
    """The request contradicts the present state: change the state or the request."""

    exit_code = 5


class IntegrityError(WorkbenchError):
    """The record or a stored file is not what it was: investigate before going on."""

    exit_code = 6


class MissingDependencyError(WorkbenchError):
    """An extra is not installed: install it."""

    exit_code = 7


class RunFailedError(WorkbenchError):
    """Training or a sweep ended without a usable result: look at the incident."""

    exit_code = 8


class NotFoundError(WorkbenchError):
    """A lab, experiment, run or key does not exist: check the name."""

    exit_code = 9


class StoreUnavailableError(WorkbenchError):
    """The store is locked, full or read-only: free it and repeat the command."""

    exit_code = 10
