"""What a start finds of earlier process lives: attempts that died unheard are closed as lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.data.serving.stream import Accounting
from workbench.errors import ConflictError, NotFoundError
from workbench.experiments.attempts import Attempt, histories
from workbench.experiments.plan import ExperimentPlan
from workbench.proxies.drawn import domain_use
from workbench.registry.entries import (
    Computed,
    CurvePoint,
    EvaluationPoint,
    Incident,
    Outcome,
    RunEnded,
    RunStarted,
    ServedOverlap,
)
from workbench.registry.ledger import Ledger
from workbench.sentinel.detector import Finding
from workbench.training.attempts import AttemptTrace, attempt_trace, resume_point
from workbench.training.run_folder import exclusive, telemetry_path


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How an attempt ended, as far as the ledger is concerned."""

    outcome: Outcome
    reason: str
    planned_steps: int
    drawn: Accounting | None = None
    """What the run drew from each domain, when it ended by itself."""
    computed: Computed | None = None
    """What its training took, when it ended by itself."""
    served: ServedOverlap | None = None
    """How much of the evaluation sets stands in what the run was served, when it completed."""


def close_lost_attempts(ledger: Ledger, plan: ExperimentPlan, folder: Path) -> list[str]:
    """Record every attempt without an end as lost, with what that cost; return it in words.

    Raises:
        ConflictError: the attempt's process is still alive.
    """
    said: list[str] = []
    for run, history in histories(ledger, plan.subject, plan.mode).items():
        last = history.last
        if last is None or last.ended is not None:
            continue
        run_folder = folder / run
        _refuse_if_alive(run, run_folder)
        planned = plan.full.config(plan.recipe).steps
        ending = Ending(
            outcome="lost",
            reason="the process ended without a word (killed, or the machine went down)",
            planned_steps=planned,
        )
        ended = record_end(ledger, plan, last, run_folder, ending)
        lost = ended.last_step - ended.surviving_step
        said.append(
            f"{run}: attempt {ended.attempt} was lost at step {ended.last_step}; "
            f"{lost} steps after checkpoint {ended.surviving_step} will be repeated"
        )
    return said


def record_end(
    ledger: Ledger, plan: ExperimentPlan, attempt: Attempt, folder: Path, ending: Ending
) -> RunEnded:
    """Append the end of an attempt and, unless it completed or diverged, its incident."""
    started = attempt.started
    trace = _trace(folder, started.attempt)
    point = resume_point(folder)
    done = ending.outcome in ("completed", "diverged")
    last_step = max(trace.last_step, started.from_step)
    ended = RunEnded(
        mode=plan.mode,
        run=started.run,
        attempt=started.attempt,
        outcome=ending.outcome,
        last_step=last_step,
        surviving_step=last_step if done else min(point.from_step, last_step),
        planned_steps=ending.planned_steps,
        tokens=trace.tokens,
        device_seconds=trace.device_seconds,
        checkpoint_sha256=point.parent_checkpoint,
        telemetry_sha256=trace.telemetry_sha256,
        curve=[CurvePoint(step=step, loss=loss) for step, loss in trace.curve],
        evaluations=[EvaluationPoint(step=s, values=values) for s, values in trace.evaluations],
        drawn=domain_use(ending.drawn) if ending.drawn else {},
        served=ending.served,
        computed=ending.computed,
        reason=ending.reason,
    )
    refs = (*plan.refs, attempt.start_entry.leaf)
    ledger.append(ended, subject=plan.subject, refs=refs)
    if not done:
        incident = _interruption(started, ended, trace)
        ledger.append(incident, subject=plan.subject, refs=refs)
    return ended


def record_rejected_checkpoints(
    ledger: Ledger, plan: ExperimentPlan, run: str, attempt: int, folder: Path
) -> list[str]:
    """Record each damaged checkpoint that the next attempt will pass over (case A2)."""
    point = resume_point(folder)
    said = []
    for bad in point.rejected:
        action = f"rejected; the run continues from step {point.from_step}"
        incident = Incident(
            run=run,
            attempt=attempt,
            severity="warning",
            category="corrupt_checkpoint",
            layer="operations",
            began_step=bad.step,
            detected_step=bad.step,
            symptom=bad.reason,
            action=action,
            lost_steps=bad.step - point.from_step,
            lost_tokens=0,
            lost_device_seconds=0.0,
        )
        ledger.append(incident, subject=plan.subject, refs=plan.refs)
        said.append(f"{run}: checkpoint of step {bad.step} {action}: {bad.reason}")
    return said


def record_findings(
    ledger: Ledger, plan: ExperimentPlan, attempt: Attempt, findings: Sequence[Finding]
) -> None:
    """Append what the sentinel saw in an attempt."""
    started = attempt.started
    for finding in findings:
        incident = Incident(
            run=started.run,
            attempt=started.attempt,
            severity=finding.severity,
            category=finding.signature,
            layer=finding.layer,
            began_step=finding.began_step,
            detected_step=finding.detected_step,
            symptom=finding.symptom,
            action=f"no action was taken; known remedy: {finding.fix}",
            lost_steps=0,
            lost_tokens=0,
            lost_device_seconds=0.0,
        )
        refs = (*plan.refs, attempt.start_entry.leaf)
        ledger.append(incident, subject=plan.subject, refs=refs)


def _interruption(started: RunStarted, ended: RunEnded, trace: AttemptTrace) -> Incident:
    lost = ended.last_step - ended.surviving_step
    steps = max(1, ended.last_step - started.from_step)
    share = min(1.0, lost / steps)
    return Incident(
        run=ended.run,
        attempt=ended.attempt,
        severity="warning",
        category=f"attempt_{ended.outcome}",
        layer="operations",
        began_step=ended.last_step,
        detected_step=ended.last_step,
        symptom=ended.reason,
        action=f"the run continues from the checkpoint of step {ended.surviving_step}",
        lost_steps=lost,
        lost_tokens=round(trace.tokens * share),
        lost_device_seconds=trace.device_seconds * share,
    )


def _refuse_if_alive(run: str, folder: Path) -> None:
    try:
        with exclusive(folder):
            return
    except ConflictError as error:
        raise ConflictError(
            f"run {run} is still being trained by another process",
            remedy="wait for it, or stop it and repeat the command",
        ) from error


def _trace(folder: Path, attempt: int) -> AttemptTrace:
    try:
        return attempt_trace(folder, attempt)
    except NotFoundError:
        # The process died before its first step. An empty file keeps its number from being reused.
        telemetry_path(folder, attempt).touch()
        return attempt_trace(folder, attempt)
