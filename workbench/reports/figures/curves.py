"""Training and validation curves of the full-scale runs, and the attempts that they consist of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from workbench.reports.blinding import shown_lineages
from workbench.reports.facts import ExperimentFacts
from workbench.reports.figures.canvas import (
    LETTER,
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    legend,
    padded,
    spread_labels,
    vertical_axis,
)
from workbench.reports.lineage import RunLineage, run_lineages
from workbench.reports.narrative import listed
from workbench.reports.quantities import count, number, unit_of

EARLY = 0.15
"""Share of the steps whose steep fall may leave the frame, so that arms can be told apart."""


@dataclass(frozen=True, kw_only=True)
class _Mark:
    step: int
    loss: float
    label: str


def loss_curves(facts: ExperimentFacts) -> Figure | None:
    """Return training loss against step: discarded segments dimmed, incidents numbered."""
    runs = [run for run in shown_lineages(facts) if run.segments]
    losses = [p.loss for run in runs for s in run.segments for p in s.points]
    if not [loss for loss in losses if math.isfinite(loss)]:
        return None
    discarded = sum(a.discarded_steps for run in runs for a in run.attempts)
    caption = "Training loss of every full-scale run."
    if discarded:
        caption += f" Dimmed and dashed: {count(discarded, 'step')} trained and discarded."
    if facts.incidents:
        caption += " Numbered diamonds: incidents."
    low, high, cut = _loss_range(runs)
    if cut:
        caption += " The first steps lie above the frame."
    alt = f"Training loss of {count(len(runs), 'run')}, {_ends_in_words(runs)}."
    marks = _incident_marks(facts, runs)
    return figure(
        name="loss",
        caption=caption,
        alt=alt,
        sources=[source for run in runs for source in run.sources if source.kind == "run_ended"],
        draw=partial(_draw_loss, runs=runs, marks=marks, low=low, high=high),
        height=lambda width: 330 if width > 500 else 280,
    )


def _ends_in_words(runs: Sequence[RunLineage]) -> str:
    ends = []
    for arm in _arms(runs):
        last = [_last_loss(run) for run in runs if run.arm == arm]
        known = [value for value in last if value is not None]
        if known:
            ends.append(f"{arm} ends at a mean of {number(sum(known) / len(known), 3)} nats/token")
    return listed(ends)


def _arms(runs: Sequence[RunLineage]) -> list[str]:
    return list(dict.fromkeys(run.arm for run in runs))


def _last_loss(run: RunLineage) -> float | None:
    kept = [p for s in run.segments if s.kept for p in s.points if math.isfinite(p.loss)]
    return kept[-1].loss if kept else None


def _loss_range(runs: Sequence[RunLineage]) -> tuple[float, float, bool]:
    points = [p for run in runs for s in run.segments for p in s.points if math.isfinite(p.loss)]
    kept = [p for run in runs for s in run.segments if s.kept for p in s.points]
    last = max(p.step for p in points)
    later = [p.loss for p in kept if p.step > EARLY * last and math.isfinite(p.loss)]
    everything = [p.loss for p in points]
    if len(later) < 5 or max(everything) - min(everything) < 2 * (max(later) - min(later)):
        low, high = padded(everything)
        return low, high, False
    low, high = padded([*later, min(everything)])
    return low, high, True


def _incident_marks(facts: ExperimentFacts, runs: Sequence[RunLineage]) -> list[_Mark]:
    marks = []
    for place, incident in enumerate(facts.incidents, start=1):
        body = incident.value
        points = [
            point
            for run in runs
            if run.run == body.run
            for segment in run.segments
            if segment.attempt == body.attempt
            for point in segment.points
            if math.isfinite(point.loss)
        ]
        if points:
            near = min(points, key=lambda point: abs(point.step - body.detected_step))
            marks.append(_Mark(step=body.detected_step, loss=near.loss, label=str(place)))
    return marks


def _draw_loss(
    canvas: Canvas, *, runs: Sequence[RunLineage], marks: Sequence[_Mark], low: float, high: float
) -> None:
    left, right = 44.0, canvas.width - (92.0 if not canvas.narrow else 10.0)
    top, bottom = 34.0, canvas.height - (62 if canvas.narrow else 44)
    last = max(p.step for run in runs for s in run.segments for p in s.points)
    x = Axis(low=0, high=max(last, *(run.planned_steps for run in runs)), start=left, end=right)
    y = Axis(low=low, high=high, start=bottom, end=top)
    vertical_axis(canvas, y, left, right, "Loss, nats per token")
    horizontal_axis(canvas, x, bottom, "Step", wanted=4 if canvas.narrow else 7)
    clip = canvas.clip("loss-frame", left, top, right - left + 4, bottom - top)
    for run in runs:
        for segment in sorted(run.segments, key=lambda s: s.kept):
            places = [(x.at(p.step), y.at(p.loss)) for p in segment.points if math.isfinite(p.loss)]
            style = "curve" if segment.kept else "curve discarded"
            canvas.path(places, f"{style} {arm_style(run.arm)}", clip)
    for mark in marks:
        at_x, at_y = x.at(mark.step), min(max(y.at(mark.loss), top + 4), bottom)
        canvas.diamond(at_x, at_y, 5, "incident")
        canvas.text(at_x, at_y - 9, mark.label, "t strong", anchor="middle")
    _label_ends(canvas, runs, right, y, [_last_loss(run) for run in runs])


def arm_style(arm: str) -> str:
    """Return the class of an arm's marks; an arm that is not the control is drawn as treatment."""
    return "control" if arm == "control" else "treatment"


def _label_ends(
    canvas: Canvas,
    runs: Sequence[RunLineage],
    right: float,
    y: Axis,
    values: Sequence[float | None],
) -> None:
    arms = _arms(runs)
    means = []
    for arm in arms:
        known = [v for run, v in zip(runs, values, strict=True) if run.arm == arm and v is not None]
        means.append(sum(known) / len(known) if known else y.high)
    words = [f"{arm}, n\u00a0=\u00a0{sum(r.arm == arm for r in runs)}" for arm in arms]
    if canvas.narrow:
        items = [
            (text, partial(_stroke, canvas, arm_style(arm)))
            for text, arm in zip(words, arms, strict=True)
        ]
        legend(canvas, 44, canvas.height - 6, items)
        return
    wanted = [min(max(y.at(mean), y.end), y.start) for mean in means]
    for text, arm, place in zip(
        words, arms, spread_labels(wanted, 16, y.end, y.start), strict=True
    ):
        canvas.text(right + 8, place + 4, text, f"t label {arm_style(arm)}")


def _stroke(canvas: Canvas, style: str, x: float, y: float) -> None:
    canvas.line(x - 7, y, x + 7, y, f"curve {style}")


def validation_curves(facts: ExperimentFacts, metric: str) -> Figure | None:
    """Return a validation metric against step along the canonical curves."""
    runs = [
        run
        for run in shown_lineages(facts)
        if any(math.isfinite(p.values.get(metric, math.nan)) for p in run.evaluations)
    ]
    if not runs:
        return None
    unit = unit_of(metric)
    title = f"{metric}, {unit}" if unit else metric
    return figure(
        name="validation",
        caption=f"Validation {metric} along the canonical curves; smaller is better in bits/byte."
        if unit
        else f"Validation {metric} along the canonical curves.",
        alt=f"Validation {metric} of {count(len(runs), 'run')} by training step.",
        sources=[source for run in runs for source in run.sources if source.kind == "run_ended"],
        draw=partial(_draw_validation, runs=runs, metric=metric, title=title),
        height=lambda width: 270 if width > 500 else 260,
    )


def _draw_validation(
    canvas: Canvas, *, runs: Sequence[RunLineage], metric: str, title: str
) -> None:
    left, right = 44.0, canvas.width - (92.0 if not canvas.narrow else 10.0)
    top, bottom = 34.0, canvas.height - (62 if canvas.narrow else 44)
    series = {
        run.run: [
            (p.step, p.values[metric])
            for p in run.evaluations
            if math.isfinite(p.values.get(metric, math.nan))
        ]
        for run in runs
    }
    steps = [step for points in series.values() for step, _ in points]
    low, high = padded([value for points in series.values() for _, value in points])
    x = Axis(low=0, high=max(*steps, *(r.planned_steps for r in runs)), start=left, end=right)
    y = Axis(low=low, high=high, start=bottom, end=top)
    vertical_axis(canvas, y, left, right, title)
    horizontal_axis(canvas, x, bottom, "Step", wanted=4 if canvas.narrow else 7)
    for run in runs:
        style = arm_style(run.arm)
        places = [(x.at(step), y.at(value)) for step, value in series[run.run]]
        canvas.path(places, f"curve {style}")
        for place, (step, value) in zip(places, series[run.run], strict=True):
            canvas.circle(*place, 2.4, f"dot {style}", f"{run.run}, step {step}: {number(value)}")
    _label_ends(canvas, runs, right, y, [series[run.run][-1][1] for run in runs])


def attempt_bars(facts: ExperimentFacts) -> Figure | None:
    """Return each run as the attempts that trained it, discarded stretches pale."""
    runs = [run for run in run_lineages(facts) if any(a.ended for a in run.attempts)]
    if not runs:
        return None
    restarts = sum(len(run.attempts) - 1 for run in runs)
    lost = sum(a.discarded_steps for run in runs for a in run.attempts)
    return figure(
        name="attempts",
        caption=f"Attempts of each run: {count(restarts, 'restart')}, "
        f"{count(lost, 'step')} discarded (pale strips below a run).",
        alt=f"{count(len(runs), 'run')} with {count(restarts, 'restart')}; "
        + listed([f"{run.run} {run.state}" for run in runs])
        + ".",
        sources=[source for run in runs for source in run.sources],
        draw=partial(_draw_attempts, runs=runs),
        height=lambda _: 58 + sum(_row_height(run) for run in runs),
    )


def _row_height(run: RunLineage) -> float:
    return 24.0 + (8.0 if any(a.discarded_steps for a in run.attempts) else 0.0)


def _draw_attempts(canvas: Canvas, *, runs: Sequence[RunLineage]) -> None:
    widest = max(len(run.run) for run in runs)
    left = min(widest * LETTER + 14, canvas.width * 0.36)
    right = canvas.width - (78.0 if not canvas.narrow else 70.0)
    bottom = canvas.height - 44
    last = max(a.last_step for run in runs for a in run.attempts)
    x = Axis(low=0, high=max(last, *(run.planned_steps for run in runs)), start=left, end=right)
    horizontal_axis(canvas, x, bottom, "Step", wanted=3 if canvas.narrow else 6, top=8)
    y = 10.0
    for run in runs:
        canvas.text(left - 8, y + 12, run.run, "t", anchor="end")
        for attempt in run.attempts:
            _draw_attempt(canvas, x, y, run, attempt.first_step, attempt.survives_to)
            if attempt.discarded_steps:
                start, end = x.at(attempt.survives_to), x.at(attempt.last_step)
                canvas.rect(start, y + 18, end - start, 5, f"lost {arm_style(run.arm)}")
            if attempt.number > 1:
                canvas.line(x.at(attempt.first_step), y, x.at(attempt.first_step), y + 24, "cut")
        canvas.text(right + 8, y + 12, run.state, "t muted")
        y += _row_height(run)


def _draw_attempt(
    canvas: Canvas, x: Axis, y: float, run: RunLineage, first: int, last: int
) -> None:
    canvas.rect(x.at(first), y, x.at(last) - x.at(first), 16, f"bar {arm_style(run.arm)}")
