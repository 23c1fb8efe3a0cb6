"""How full-scale runs, their health and their outcomes are told in a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from workbench.cli.show import print_table, say, say_wrapped, seconds
from workbench.experiments.health import ExperimentHealth, RunHealth
from workbench.experiments.outcomes import Curtain, Outcomes, ValidationPoint
from workbench.experiments.summaries import RunLine, RunsReport
from workbench.registry.entries import Computed, DomainUse
from workbench.reports.drawn import drawn_in_words

MOST_METRICS = 5
"""Columns of values that fit into 80."""


def print_runs(report: RunsReport, peak_tflops: float | None = None) -> None:
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
    else:
        print_table(headings[:-1], [row[:-1] for row in rows])
        say("Validation values are hidden until the verdict (workbench health, outcomes).")
    _print_drawn(report.runs)
    _print_computed(report.runs, peak_tflops)


def _print_computed(runs: Sequence[RunLine], peak_tflops: float | None) -> None:
    """Print what training took, a line an arm, and what was done to its updates."""
    by_arm: dict[str, list[Computed]] = {}
    for line in runs:
        if line.computed is not None:
            by_arm.setdefault(line.run.partition("/")[0], []).append(line.computed)
    for arm, found in by_arm.items():
        say_wrapped(f"  {arm} computed  {computed_in_words(found, peak_tflops)}")


def computed_in_words(found: Sequence[Computed], peak_tflops: float | None) -> str:
    """Return speed, utilization, memory and what was skipped, over the runs of an arm.

    FLOPs are of the active parameters and the attention, forward and backward; time is the whole
    attempt's, with evaluation and saving.
    """
    # An attempt that had nothing left to train has no speed.
    rates = [float(one.flops_per_second) for one in found if float(one.flops_per_second)]
    rate = sum(rates) / max(1, len(rates))
    memory = max(one.peak_memory_bytes for one in found)
    told = [f"{rate / 1e9:,.3g} GFLOP/s", f"at most {memory / 1e9:.2f} GB"]
    if peak_tflops is not None:
        told.insert(1, f"MFU {rate / (peak_tflops * 1e12):.1%} of {peak_tflops:g} TFLOP/s")
    skipped = sum(one.skipped_updates for one in found)
    scaled = sum(one.heads_scaled for one in found)
    told += [f"{skipped} updates skipped"] if skipped else []
    told += [f"QK-Clip scaled {scaled} heads"] if scaled else []
    return ", ".join(told)


def _print_drawn(runs: Sequence[RunLine]) -> None:
    """Print realised shares and epochs of the completed runs, a line an arm."""
    by_arm: dict[str, list[Mapping[str, DomainUse]]] = {}
    for line in runs:
        if line.outcome == "completed":
            by_arm.setdefault(line.run.partition("/")[0], []).append(line.drawn)
    for arm, uses in by_arm.items():
        told = drawn_in_words(uses)
        if told:
            say_wrapped(f"  {arm} drew  {told}")


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
    opening = (
        f"{curtain.experiment} has no verdict yet. This shows validation values by arm of "
        f"{len(curtain.runs)} confirmatory runs, and first records that {by} opened them: {why}"
    )
    paragraphs = [
        opening,
        _effect(curtain),
        "The verdict itself stays confirmatory: its rule reads the sealed test split.",
        "The chronicle will show who looked, when and why, and what was opened.",
    ]
    if curtain.exposures:
        times = "once" if curtain.exposures == 1 else f"{curtain.exposures} times"
        paragraphs.append(f"Validation outcomes were opened {times} before.")
    for place, paragraph in enumerate(paragraphs):
        indent = "  " if place else ""
        yield from wrap(paragraph, 79, initial_indent=indent, subsequent_indent=indent)


def _effect(curtain: Curtain) -> str:
    void = "makes the verdict exploratory and void"
    if curtain.known.timing == "outcomes_seen":
        seen = curtain.known.rests_on[0]
        return (
            f"From now on an amendment {void}, as it already does since the {seen.kind} (entry "
            f"{seen.sequence})."
        )
    return f"From now on an amendment counts as made after outcomes were seen, and {void}."


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


def print_points(points: Sequence[ValidationPoint], *, primary: str) -> None:
    """Print validation values, a line an evaluation, the primary metric first."""
    found = dict.fromkeys(metric for point in points for metric in point.values)
    metrics = sorted(found, key=lambda metric: metric != primary)
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
