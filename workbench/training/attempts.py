"""The attempts of a run, as its folder tells them, also after a process that died unheard."""

import contextlib
import fcntl
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import from_decimal, parse_json
from workbench.errors import ConflictError, NotFoundError
from workbench.sentinel.telemetry import TelemetryRow, read_rows
from workbench.training.checkpoints import Checkpoint, RejectedCheckpoint, newest_good

MOST_CURVE_POINTS = 200
_TELEMETRY = re.compile(r"telemetry-attempt-(\d{4})\.jsonl\Z")


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """Where the next attempt of a run begins."""

    attempt: int
    """Counts from 1."""
    from_step: int
    """Steps already done: the attempt begins with the step after."""
    checkpoint: Checkpoint | None
    """What it continues; None for a fresh start."""
    rejected: tuple[RejectedCheckpoint, ...]
    """Newer checkpoints that do not verify."""

    @property
    def parent_checkpoint(self) -> str:
        """SHA-256 of the checkpoint that it continues, empty for a fresh start."""
        return "" if self.checkpoint is None else self.checkpoint.sha256


@dataclass(frozen=True, kw_only=True)
class AttemptTrace:
    """What an attempt left behind in the run's folder."""

    attempt: int
    first_step: int
    """0 when it did not finish a step."""
    last_step: int
    """0 when it did not finish a step."""
    tokens: int
    """Training tokens of the attempt's own steps."""
    device_seconds: float
    """From the first step's beginning to the last step's end, on one device."""
    curve: tuple[tuple[int, float], ...]
    """(step, training loss), thinned to at most 200 points."""
    evaluations: tuple[tuple[int, dict[str, float]], ...]
    telemetry_sha256: str


class Curve:
    """A training curve of bounded size: every 2ᵏ-th step, and the last."""

    def __init__(self, most: int = MOST_CURVE_POINTS) -> None:
        self._most = most
        self._stride = 1
        self._points: list[tuple[int, float]] = []
        self._last: tuple[int, float] | None = None

    def add(self, step: int, loss: float) -> None:
        """Take in a step; steps rise."""
        self._last = (step, loss)
        if step % self._stride == 0:
            self._points.append(self._last)
        # One place is kept free for the last step.
        while len(self._points) >= self._most:
            self._stride *= 2
            self._points = [point for point in self._points if point[0] % self._stride == 0]

    def points(self) -> tuple[tuple[int, float], ...]:
        """Return the points in the order of the steps."""
        if self._last is None or (self._points and self._points[-1] == self._last):
            return tuple(self._points)
        return (*self._points, self._last)


def checkpoint_folder(folder: Path) -> Path:
    """Return where a run keeps its checkpoints."""
    return folder / "checkpoints"


def telemetry_path(folder: Path, attempt: int) -> Path:
    """Return the telemetry file of an attempt."""
    return folder / f"telemetry-attempt-{attempt:04d}.jsonl"


def evaluations_path(folder: Path, attempt: int) -> Path:
    """Return the file of an attempt's validation metrics."""
    return folder / f"evaluations-attempt-{attempt:04d}.jsonl"


def resume_point(folder: Path) -> ResumePoint:
    """Return where the next call of `fit` in this folder begins. Only reads."""
    checkpoint, rejected = newest_good(checkpoint_folder(folder))
    return ResumePoint(
        attempt=last_attempt(folder) + 1,
        from_step=0 if checkpoint is None else checkpoint.step,
        checkpoint=checkpoint,
        rejected=rejected,
    )


def last_attempt(folder: Path) -> int:
    """Return the number of the run's last attempt, 0 when there was none."""
    if not folder.is_dir():
        return 0
    matches = [_TELEMETRY.match(path.name) for path in folder.iterdir()]
    return max((int(match[1]) for match in matches if match), default=0)


def attempt_trace(folder: Path, attempt: int) -> AttemptTrace:
    """Return what an attempt left behind, however it ended.

    Raises:
        NotFoundError: the run had no such attempt.
        IntegrityError: its telemetry is damaged before its last line.
    """
    path = telemetry_path(folder, attempt)
    if not path.is_file():
        raise NotFoundError(
            f"attempt {attempt} left no telemetry in {folder.name}/", remedy="workbench status"
        )
    curve = Curve()
    first: TelemetryRow | None = None
    last: TelemetryRow | None = None
    for row in read_rows(path):
        first = first or row
        last = row
        if row.loss is not None:
            curve.add(row.step, row.loss)
    return AttemptTrace(
        attempt=attempt,
        first_step=first.step if first else 0,
        last_step=last.step if last else 0,
        tokens=_tokens(first, last),
        device_seconds=last.time - first.time + (first.step_seconds or 0) if first and last else 0,
        curve=curve.points(),
        evaluations=_evaluations(evaluations_path(folder, attempt)),
        telemetry_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a run's folder for this process; the lock dies with the process.

    Raises:
        ConflictError: another process is training in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"another process is training in {folder.name}/",
                remedy="wait for it, or stop it and repeat the command",
            ) from error
        yield


def _tokens(first: TelemetryRow | None, last: TelemetryRow | None) -> int:
    if first is None or last is None:
        return 0
    # Every step trains the same number of tokens, so the rows' totals give the step's share.
    return round(last.tokens / last.step * (last.step - first.step + 1))


def _evaluations(path: Path) -> tuple[tuple[int, dict[str, float]], ...]:
    if not path.is_file():
        return ()
    # A line without its end was torn by a kill; its step is done again.
    lines = [line for line in path.read_text("utf-8").splitlines(keepends=True) if line[-1] == "\n"]
    plain = [parse_json(line.encode()) for line in lines]
    return tuple(
        (item["step"], {key: from_decimal(value) for key, value in item["values"].items()})
        for item in plain
    )
