"""How full-scale runs are doing, told without an outcome.

An outcome is a number that compares the arms: a validation metric by arm, and the level of the
training loss, which says nearly the same. Neither is read here (docs/decisions/0013).
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from workbench.errors import NotFoundError
from workbench.experiments.attempts import Attempt, RunHistory, histories
from workbench.experiments.budget import spent_device_hours
from workbench.experiments.registered import require_registration
from workbench.layout import Layout
from workbench.registry.amended import Course, course_of
from workbench.registry.entries import Incident, Mode, Promotion, Registration
from workbench.registry.frontmatter import parse_proposal
from workbench.registry.log import LogSource
from workbench.registry.proposal import Proposal
from workbench.sentinel.detector import Detector
from workbench.sentinel.signatures import Severity
from workbench.sentinel.telemetry import TelemetryRow, read_rows
from workbench.sentinel.trend import ROWS, OwnTrend, Trend
from workbench.training.config import RunConfig
from workbench.training.phases import is_new_level
from workbench.training.run_folder import is_held, telemetry_path

Condition: TypeAlias = Literal[
    "training", "stopped", "elsewhere", "completed", "diverged", "failed", "killed", "lost"
]
"""``training``: a process of this machine is at it; ``stopped``: it has no end in the ledger and no
process, so the next `workbench run` takes it up; ``elsewhere``: it has no end and no files here."""

WATCHED_BYTES = 2 << 20
"""How much of the telemetry of a run under way is read: some 8,000 steps, half a second."""
TOLD_BYTES = 64 << 10
"""How much of an ended run's: more than 200 steps."""


@dataclass(frozen=True, kw_only=True)
class RunIncident:
    """Something that went wrong in a run, without its numbers: they hold losses."""

    attempt: int
    category: str
    """Of the incident, like ``loss_spike`` or ``attempt_lost``."""
    severity: Severity
    step: int
    """At which it was detected."""
    recorded: bool
    """Whether it is in the ledger; what an attempt shows gets there when the attempt ends."""


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What the last steps of an attempt measured; None where nothing did."""

    telemetry_time: float | None = None
    """Seconds since 1970 at the end of the last step."""
    tokens_per_second: float | None = None
    """Of wall time, evaluations and checkpoints included."""
    seconds_per_step: float | None = None
    loss_trend: Trend = "too short"
    loss_peak: float | None = None
    """Largest of the last 100 losses over their own median, minus 1."""
    grad_norm: float | None = None
    """Before clipping."""
    clipped_share: float | None = None
    """Share of the last 100 steps whose gradient was clipped."""
    lr: float | None = None
    router_entropy: float | None = None
    max_expert_share: float | None = None
    capacity_utilization: float | None = None


@dataclass(frozen=True, kw_only=True)
class RunHealth:
    """One full-scale run that has started."""

    run: str
    attempt: int
    condition: Condition
    step: int
    planned_steps: int
    """0 where the promoted configuration cannot be read."""
    seconds_left: float | None
    """At the present speed; None unless it is training."""
    telemetry_age: float | None
    """Seconds since its last step; None when it has ended or left no telemetry here."""
    device_seconds: float
    """Of all attempts, up to the last step."""
    signals: Signals
    incidents: tuple[RunIncident, ...]
    """Of all attempts, in the order of the ledger, then what is not recorded yet."""


@dataclass(frozen=True, kw_only=True)
class ExperimentHealth:
    """The full-scale runs of an experiment, in the order in which they started."""

    experiment: str
    mode: Mode
    planned_runs: int
    """The most that may run; exploratory: those that did."""
    device_hours: float
    """Recorded so far: sweep, ladder and ended attempts."""
    cap_device_hours: float | None
    """As registered; None exploring."""
    runs: tuple[RunHealth, ...]


def experiment_health(
    source: LogSource, layout: Layout, subject: str, *, mode: Mode, now: datetime
) -> ExperimentHealth:
    """Return how the full-scale runs of an experiment are doing. Only reads.

    Args:
        source: The log.
        layout: The lab, for the telemetry of this machine.
        subject: ``NNNN-slug``.
        mode: Which runs.
        now: What the age of the telemetry is told against.

    Raises:
        NotRegisteredError: confirmatory, and not registered.
        NotFoundError: exploratory, and nothing was run.
        IntegrityError: a telemetry file is damaged before its last line.
    """
    found = histories(source, subject, mode)
    if mode == "exploratory" and not found:
        raise NotFoundError(
            f"{subject} has no exploratory full-scale run",
            remedy=f"workbench run {subject[:4]} --exploratory",
        )
    watch = _Watch.of(source, layout, subject, mode, now)
    return ExperimentHealth(
        experiment=subject,
        mode=mode,
        planned_runs=watch.planned_runs or len(found),
        device_hours=spent_device_hours(source, subject, mode=mode),
        cap_device_hours=watch.proposal.budget_cap_device_hours if watch.proposal else None,
        runs=tuple(watch.run(history) for history in found.values()),
    )


@dataclass(frozen=True, kw_only=True)
class _Watch:
    folder: Path
    configs: Mapping[str, RunConfig]
    """By arm, as far as this version reads them."""
    incidents: Sequence[Incident]
    proposal: Proposal | None
    planned_runs: int
    now: float

    @classmethod
    def of(
        cls, source: LogSource, layout: Layout, subject: str, mode: Mode, now: datetime
    ) -> "_Watch":
        course = course_of(source, subject)
        body = None
        if mode == "confirmatory":
            body = require_registration(course.in_force(), subject).body
        # Hidden from this reader: the runs are told as far as they are known.
        known = body if isinstance(body, Registration) else None
        return cls(
            folder=layout.runs / subject / mode / "full",
            configs=_configs(source, subject, mode),
            incidents=list(_incidents(source, subject, mode, course)),
            proposal=parse_proposal(known.proposal.text, known.proposal.path) if known else None,
            planned_runs=len(known.arms) * known.num_seeds if known else 0,
            now=now.timestamp(),
        )

    def run(self, history: RunHistory) -> RunHealth:
        last = history.attempts[-1]
        started, ended = last.started, last.ended
        config = self.configs.get(started.arm)
        folder = self.folder / history.run
        is_final = history.final is not None
        path = telemetry_path(folder, started.attempt)
        rows = _tail(path, TOLD_BYTES if is_final else WATCHED_BYTES)
        signals = _signals(rows)
        condition = ended.outcome if ended else _unended(folder)
        planned = config.steps if config else (ended.planned_steps if ended else 0)
        step = ended.last_step if ended else (rows[-1].step if rows else started.from_step)
        per_step = signals.seconds_per_step if condition == "training" else None
        when = None if ended else signals.telemetry_time
        recorded = [_recorded(i) for i in self.incidents if i.run == history.run]
        return RunHealth(
            run=history.run,
            attempt=started.attempt,
            condition=condition,
            step=step,
            planned_steps=planned,
            seconds_left=None if per_step is None else per_step * max(0, planned - step),
            telemetry_age=None if when is None else self.now - when,
            device_seconds=_device_seconds(history, signals),
            signals=signals,
            incidents=(*recorded, *(() if is_final else self._unrecorded(last, config, rows))),
        )

    def _unrecorded(
        self, last: Attempt, config: RunConfig | None, rows: Sequence[TelemetryRow]
    ) -> Iterator[RunIncident]:
        """Yield what the sentinel sees in an attempt that did not end by itself."""
        if config is None:
            return
        rule = self.proposal.divergence if self.proposal else None
        detector = Detector(
            num_experts=config.model.num_experts,
            divergence_loss=rule.loss_above if rule else math.inf,
            patience=rule.patience if rule else 1,
            top_k=config.model.top_k,
        )
        for row in rows:
            if 1 < row.step <= config.steps and is_new_level(config, row.step):
                detector.expect_new_level()
            for finding in detector.observe(row):
                yield RunIncident(
                    attempt=last.started.attempt,
                    category=finding.signature,
                    severity=finding.severity,
                    step=finding.detected_step,
                    recorded=False,
                )


def _configs(source: LogSource, subject: str, mode: Mode) -> dict[str, RunConfig]:
    """Return the configuration of each arm; one of another version is left out."""
    configs: dict[str, RunConfig] = {}
    for entry in source.entries(kind=Promotion.kind, subject=subject):
        if not isinstance(entry.body, Promotion) or entry.body.mode != mode:
            continue
        for arm, config in entry.body.configs.items():
            try:
                configs[arm] = RunConfig.model_validate(config)
            except ValueError:
                configs.pop(arm, None)
    return configs


def _incidents(source: LogSource, subject: str, mode: Mode, course: Course) -> Iterator[Incident]:
    registration = course.registration.leaf if course.registration else ""
    for entry in source.entries(kind=Incident.kind, subject=subject):
        # An incident does not say its mode; only a confirmatory one rests on the registration.
        if isinstance(entry.body, Incident) and (
            (registration in entry.refs) == (mode == "confirmatory")
        ):
            yield entry.body


def _recorded(incident: Incident) -> RunIncident:
    return RunIncident(
        attempt=incident.attempt,
        category=incident.category,
        severity=incident.severity,
        step=incident.detected_step,
        recorded=True,
    )


def _unended(folder: Path) -> Literal["training", "stopped", "elsewhere"]:
    if not folder.is_dir():
        return "elsewhere"
    return "training" if is_held(folder) else "stopped"


def _tail(path: Path, num_bytes: int) -> list[TelemetryRow]:
    return list(read_rows(path, last_bytes=num_bytes)) if path.is_file() else []


def _signals(rows: Sequence[TelemetryRow]) -> Signals:
    if not rows:
        return Signals()
    trend = OwnTrend()
    recent = deque(rows, maxlen=ROWS)
    for row in recent:
        trend.add(row.loss)
    last, first = rows[-1], recent[0]
    clips = [
        row.grad_norm > row.clip_threshold
        for row in recent
        if row.grad_norm is not None and row.clip_threshold is not None
    ]
    seconds = _seconds_per_step(first, last)
    return Signals(
        telemetry_time=last.time,
        tokens_per_second=last.tokens / last.step / seconds if seconds else None,
        seconds_per_step=seconds,
        loss_trend=trend.direction,
        loss_peak=trend.peak,
        grad_norm=last.grad_norm,
        clipped_share=sum(clips) / len(clips) if clips else None,
        lr=last.lr,
        router_entropy=last.router_entropy,
        max_expert_share=last.max_expert_share,
        capacity_utilization=last.capacity_utilization,
    )


def _seconds_per_step(first: TelemetryRow, last: TelemetryRow) -> float | None:
    if last.step > first.step:
        return (last.time - first.time) / (last.step - first.step)
    return last.step_seconds


def _device_seconds(history: RunHistory, signals: Signals) -> float:
    seconds = sum(attempt.ended.device_seconds for attempt in history.attempts if attempt.ended)
    last = history.attempts[-1]
    if last.ended is None and signals.telemetry_time is not None:
        began = datetime.fromisoformat(last.start_entry.time).timestamp()
        seconds += max(0.0, signals.telemetry_time - began)
    return seconds
