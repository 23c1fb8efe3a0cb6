"""How full-scale runs, their health and their outcomes are told in a terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from workbench.cli.show import print_table, say, seconds
from workbench.experiments.health import ExperimentHealth, RunHealth
from workbench.experiments.outcomes import Curtain, Outcomes, ValidationPoint
from workbench.experiments.summaries import RunsReport

MOST_METRICS = 5
"""Columns of values that fit into 80."""


def print_runs(report: RunsReport) -> None:
    """Print how each run stands; validation values only where they may be seen."""
    rows = [
        [
            line.run,
            str(line.attempts),
            line.outcome,
            f"{line.last_step}/{line.planned_steps}",
            seconds(line.device_seconds),
            "" if line.value is None else f"{line.value:.4f}",
        ]
        for line in report.runs
    ]
    headings = ["run", "attempts", "outcome", "step", "time", f"validation {report.metric}"]
    if any(line.value is not None for line in report.runs):
        print_table(headings, rows)
        return
    print_table(headings[:-1], [row[:-1] for row in rows])
    say("What compares the arms is hidden until the verdict (health shows the rest, outcomes all).")


def print_health(report: ExperimentHealth) -> None:
    """Print progress, signals and incidents of the runs, each at 80 columns."""
    if report.runs:
        _print_progress(report.runs)
        say()
        _print_signals(report.runs)
    for line in _incident_lines(report.runs):
        say(line)
    cap = "" if report.cap_device_hours is None else f" of {report.cap_device_hours:g}"
    say(
        f"{len(report.runs)} of at most {report.planned_runs} runs have started; "
        f"{report.device_hours:.3g}{cap} device-hours are recorded."
    )


def _print_progress(runs: Sequence[RunHealth]) -> None:
    rows = [
        [
            run.run,
            str(run.attempt),
            run.condition,
            f"{run.step}/{run.planned_steps or '?'}",
            _short(run.signals.tokens_per_second),
            _duration(run.seconds_left),
            "" if run.telemetry_age is None else f"{_duration(run.telemetry_age)} ago",
        ]
        for run in runs
    ]
    print_table(["run", "#", "state", "step", "tok/s", "left", "last step"], rows)


def _print_signals(runs: Sequence[RunHealth]) -> None:
    rows = []
    for run in runs:
        found = run.signals
        peak = "" if found.loss_peak is None else f" {found.loss_peak:+.0%}"
        clipped = "" if found.clipped_share is None else f"{found.clipped_share:.0%}"
        rows.append(
            [
                run.run,
                f"{found.loss_trend}{peak}",
                _short(found.grad_norm),
                clipped,
                _short(found.lr),
                _short(found.router_entropy),
                _short(found.max_expert_share),
            ]
        )
    headings = ["run", "loss, peak", "grad norm", "clipped", "lr", "entropy", "busiest"]
    print_table(headings, rows)


def _incident_lines(runs: Sequence[RunHealth]) -> Iterator[str]:
    """Yield a line for each kind of incident of each attempt."""
    for run in runs:
        counts = Counter((i.attempt, i.category, i.severity, i.recorded) for i in run.incidents)
        last = {(i.attempt, i.category): i.step for i in run.incidents}
        for (attempt, category, severity, recorded), count in counts.items():
            times = f" {count}\u00d7, last" if count > 1 else ""
            told = "" if recorded else ", not in the ledger yet"
            yield (
                f"  {severity}  {run.run} attempt {attempt}: {category}{times} at step "
                f"{last[attempt, category]}{told}"
            )


def exposure_lines(curtain: Curtain, *, by: str, why: str) -> Iterator[str]:
    """Yield what opening the outcomes of an experiment means, before anybody decides."""
    yield f"{curtain.experiment} has no verdict yet. This shows validation values by arm of"
    yield f"{len(curtain.runs)} confirmatory runs, and first records that {by} opened them: {why}"
    if curtain.known.timing == "outcomes_seen":
        seen = curtain.known.rests_on[0]
        yield "  An amendment after it makes the verdict exploratory and void, as one already"
        yield f"  would since the {seen.kind} (entry {seen.sequence})."
    else:
        yield "  From now on an amendment counts as made after outcomes were seen: it makes the"
        yield "  verdict exploratory and void."
    yield "  The verdict itself stays confirmatory: its rule reads the sealed test split."
    yield "  The chronicle shows who looked, when and why, and from then on these values."
    if curtain.exposures:
        times = "once" if curtain.exposures == 1 else f"{curtain.exposures} times"
        yield f"  Validation outcomes were opened {times} before."


def outcomes_json(found: Outcomes) -> dict[str, Any]:
    """Return what was opened as plain values."""
    exposure = found.exposure
    return {
        "experiment": found.curtain.experiment,
        "mode": found.curtain.mode,
        "access": found.curtain.access,
        "exposure": exposure and {"sequence": exposure.sequence, "id": exposure.id},
        "points": [asdict(point) for point in found.points],
    }


def print_points(points: Sequence[ValidationPoint]) -> None:
    """Print validation values, a line an evaluation."""
    metrics = list(dict.fromkeys(metric for point in points for metric in point.values))
    shown = metrics[:MOST_METRICS]
    rows = [
        [
            point.run,
            str(point.step),
            *(f"{point.values[m]:.4f}" if m in point.values else "" for m in shown),
        ]
        for point in points
    ]
    print_table(["run", "step", *shown], rows)
    if len(metrics) > len(shown):
        say(f"{len(metrics) - len(shown)} more metrics: --json")


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _duration(value: float | None) -> str:
    return "" if value is None else seconds(value)
