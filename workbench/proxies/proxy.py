"""One proxy: a small run of the training function, and how it ended."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from workbench.canonical import Json
from workbench.data.corpus import Corpus
from workbench.errors import NotFoundError, WorkbenchError
from workbench.proxies.drawn import domain_use
from workbench.proxies.recipe import dotted
from workbench.registry.entries import DomainUse, TrialState
from workbench.training.attempts import attempt_trace
from workbench.training.config import RunConfig
from workbench.training.recorder import Recorder
from workbench.training.results import DivergenceRule, RunResult
from workbench.training.run_folder import last_attempt
from workbench.training.tracking import STATUS_OF_OUTCOME, Tracker

StepProgress: TypeAlias = Callable[[int, int, float], None]
"""Takes the step, the number of steps and the training loss."""


class TrainFunction(Protocol):
    """`workbench.training.fit.fit`, or a stand-in with its contract."""

    def __call__(
        self,
        config: RunConfig,
        corpus: Corpus,
        *,
        seed: int,
        folder: Path,
        recorders: Sequence[Recorder],
        divergence: DivergenceRule,
        progress: StepProgress | None = None,
    ) -> RunResult:
        """Train from the folder's newest checkpoint, or from the beginning."""


@dataclass(frozen=True, kw_only=True)
class ProxyTask:
    """What one proxy trains and how its result is read."""

    config: RunConfig
    seed: int
    folder: Path
    """The run's own; a second call continues from its checkpoints."""
    metric: str
    divergence: DivergenceRule


@dataclass(frozen=True, kw_only=True)
class ProxyEnd:
    """How a proxy ended and what it used."""

    state: TrialState
    value: float | None
    """The metric after the last step; only of a completed proxy, always finite."""
    last_value: float | None
    """The metric when last seen of any other; never used to select."""
    steps: int
    tokens: int
    """Training tokens up to ``steps``."""
    device_seconds: float
    """Of all attempts, also of work that was lost."""
    reason: str
    drawn: Mapping[str, DomainUse] | None = None
    """By domain, up to ``steps``; None unless training itself ended."""


def train_proxy(
    train: TrainFunction,
    task: ProxyTask,
    corpus: Corpus,
    recorders: Sequence[Recorder],
    progress: StepProgress | None = None,
) -> ProxyEnd:
    """Train and return how it ended; an error of the run is an end, an interruption is not.

    Raises:
        KeyboardInterrupt: and whatever else ends the process rather than the run.
    """
    earlier = _spent(task.folder)
    try:
        result = train(
            task.config,
            corpus,
            seed=task.seed,
            folder=task.folder,
            recorders=recorders,
            divergence=task.divergence,
            progress=progress,
        )
    except Exception as error:  # noqa: BLE001 - whatever broke it, the trial failed and is recorded
        return broken_end(task, "failed", _one_line(error))
    value = (result.final or {}).get(task.metric)
    if result.outcome == "completed" and value is not None and math.isfinite(value):
        return _end(task, result, earlier, state="completed", value=value, reason=_remarks(result))
    state, reason = _state(result, task.metric, value)
    return _end(task, result, earlier, state=state, reason=reason)


def refused_end(error: ValueError) -> ProxyEnd:
    """Return the end of a proxy whose values make no configuration: it never began."""
    detail = " ".join(str(error).split())[:500]
    return idle_end("failed", f"its values make no configuration: {detail}")


def idle_end(state: TrialState, reason: str) -> ProxyEnd:
    """Return the end of a proxy that did not train a step."""
    return ProxyEnd(
        state=state,
        value=None,
        last_value=None,
        steps=0,
        tokens=0,
        device_seconds=0.0,
        reason=reason,
    )


def broken_end(task: ProxyTask, state: TrialState, reason: str) -> ProxyEnd:
    """Return the end of a run that did not report one, from what its folder holds."""
    attempts = range(1, last_attempt(task.folder) + 1)
    try:
        traces = [attempt_trace(task.folder, attempt) for attempt in attempts]
    except WorkbenchError as error:
        traces = []
        reason = f"{reason}; its telemetry cannot be read: {error.message}"
    steps = max((trace.last_step for trace in traces), default=0)
    values = [v[task.metric] for t in traces for _, v in t.evaluations if task.metric in v]
    return ProxyEnd(
        state=state,
        value=None,
        last_value=values[-1] if values else None,
        steps=steps,
        tokens=steps * task.config.tokens_per_step,
        device_seconds=math.fsum(trace.device_seconds for trace in traces),
        reason=reason,
    )


def finish_tracked(tracker: Tracker, run_id: str, state: TrialState) -> None:
    """End the proxy's MLflow run in keeping with the state; a terminal status stays.

    A store that was deleted or replaced meanwhile does not hold up the record.
    """
    with contextlib.suppress(NotFoundError):
        if not run_id:
            return
        tracker.finish(run_id, STATUS_OF_OUTCOME[state], outcome=state)


def tracked_params(params: Mapping[str, Json]) -> dict[str, object]:
    """Return tried values under flat keys, ``mixture.code`` and the like."""
    flat: dict[str, object] = {}
    for key, value in dotted(params).items():
        parts = value.items() if isinstance(value, Mapping) else ()
        flat.update({f"{key}.{part}": share for part, share in parts} or {key: value})
    return flat


def _spent(folder: Path) -> float:
    attempts = range(1, last_attempt(folder) + 1)
    return math.fsum(attempt_trace(folder, attempt).device_seconds for attempt in attempts)


def _state(result: RunResult, metric: str, value: float | None) -> tuple[TrialState, str]:
    if result.outcome == "pruned":
        return "pruned", result.reason or "worse than the median at this evaluation"
    if result.outcome == "diverged":
        return "diverged", result.reason
    if value is None:
        return "failed", f"it reported no {metric!r} (known: {sorted(result.final or {})})"
    return "diverged", f"its final {metric} is {value}"


def _end(
    task: ProxyTask,
    result: RunResult,
    earlier: float,
    *,
    state: TrialState,
    value: float | None = None,
    reason: str = "",
) -> ProxyEnd:
    seen = [values[task.metric] for _, values in result.evaluations if task.metric in values]
    return ProxyEnd(
        state=state,
        value=value,
        last_value=seen[-1] if seen and state != "completed" else None,
        steps=result.last_step,
        tokens=result.last_step * task.config.tokens_per_step,
        device_seconds=earlier + result.device_seconds,
        reason=reason,
        drawn=domain_use(result.mixture) or None,
    )


def _remarks(result: RunResult) -> str:
    """Return what went wrong beside a training that completed."""
    rejected = [f"{c.path.name} rejected: {c.reason}" for c in result.rejected_checkpoints]
    return "; ".join([*rejected, *result.warnings])


def _one_line(error: Exception) -> str:
    text = error.message if isinstance(error, WorkbenchError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split())}"[:500]
