"""The attempts of a run, as its folder tells them, also after a process that died unheard."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import NotFoundError
from workbench.sentinel.telemetry import TelemetryRow, read_rows
from workbench.training.checkpoints import Checkpoint, RejectedCheckpoint, newest_good
from workbench.training.run_folder import (
    evaluations_path,
    last_attempt,
    read_evaluations,
    telemetry_path,
)

MOST_CURVE_POINTS = 200


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


def resume_point(folder: Path) -> ResumePoint:
    """Return where the next call of `fit` in this folder begins. Only reads."""
    checkpoint, rejected = newest_good(checkpoint_folder(folder))
    return ResumePoint(
        attempt=last_attempt(folder) + 1,
        from_step=0 if checkpoint is None else checkpoint.step,
        checkpoint=checkpoint,
        rejected=rejected,
    )


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
        evaluations=read_evaluations(evaluations_path(folder, attempt)),
        telemetry_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _tokens(first: TelemetryRow | None, last: TelemetryRow | None) -> int:
    if first is None or last is None:
        return 0
    # Every step trains the same number of tokens, so the rows' totals give the step's share.
    return round(last.tokens / last.step * (last.step - first.step + 1))
