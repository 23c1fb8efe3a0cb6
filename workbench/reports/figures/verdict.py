"""The values that decided, and the interval that the rule read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from workbench.registry.entries import SeedValue, Verdict
from workbench.registry.proposal import Proposal
from workbench.reports.facts import Cited
from workbench.reports.figures.canvas import (
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    padded,
)
from workbench.reports.figures.curves import arm_style
from workbench.reports.quantities import (
    decimals_for,
    number,
    percent,
    signed,
    unit_of,
    with_unit,
)

ROW = 30.0


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A value of the improvement at which the rule changes its mind."""

    value: float
    words: str


def verdict_intervals(verdict: Cited[Verdict], proposal: Proposal | None) -> Figure | None:
    """Return the sealed values of each arm, and the improvement with its two bounds."""
    body = verdict.value
    arms = {arm: _finite(seeds) for arm, seeds in body.values.items()}
    if not any(arms.values()):
        return None
    bounds = [v for v in (body.estimate, body.lower, body.upper) if v is not None]
    caption = (
        f"Above: {body.metric} on the sealed test split, one dot a seed, bar at the arm’s mean. "
    )
    if bounds:
        level = percent(1 - body.alpha, 0)
        caption += f"Below: improvement with its two one-sided {level} bounds, under {body.claim}."
    lines = _lines(proposal)
    return figure(
        name="verdict",
        caption=caption.strip(),
        alt=_in_words(body),
        sources=verdict.sources,
        draw=partial(_draw, body=body, arms=arms, lines=lines),
        height=lambda _: 26 + ROW * len(arms) + 46 + (118 if bounds else 0),
    )


def _finite(seeds: Sequence[SeedValue]) -> list[tuple[int, float]]:
    return [
        (seed.seed_index, seed.value)
        for seed in seeds
        if seed.value is not None and math.isfinite(seed.value)
    ]


def _in_words(body: Verdict) -> str:
    if body.estimate is None:
        return f"Verdict {body.outcome}."
    places = decimals_for([body.estimate, body.lower, body.upper])
    return (
        f"Verdict {body.outcome}: improvement "
        f"{with_unit(signed(body.estimate, places), body.metric)}, "
        f"bounds {signed(body.lower, places)} to {signed(body.upper, places)}."
    )


def _lines(proposal: Proposal | None) -> list[_Line]:
    zero = _Line(value=0.0, words="0")
    if proposal is None:
        return [zero]
    margin, kind = proposal.decision.margin, proposal.decision.claim_kind
    if margin == 0:
        return [zero]
    if kind in ("superior", "superior_by"):
        return [zero, _Line(value=margin, words="δ")]
    if kind == "equivalent":
        return [_Line(value=-margin, words="−δ"), zero, _Line(value=margin, words="δ")]
    return [_Line(value=-margin, words="−δ"), zero]


def _draw(
    canvas: Canvas,
    *,
    body: Verdict,
    arms: dict[str, list[tuple[int, float]]],
    lines: Sequence[_Line],
) -> None:
    left, right = (92.0, canvas.width - 76.0) if not canvas.narrow else (76.0, canvas.width - 14.0)
    low, high = padded([value for seeds in arms.values() for _, value in seeds], 0.1)
    x = Axis(low=low, high=high, start=left, end=right)
    bottom = 20 + ROW * len(arms)
    unit = unit_of(body.metric)
    title = f"{body.metric}, {unit}" if unit else body.metric
    horizontal_axis(canvas, x, bottom, title, wanted=4 if canvas.narrow else 6, top=8)
    for place, (arm, seeds) in enumerate(arms.items()):
        _draw_arm(canvas, x, 22 + ROW * place, arm, seeds)
    if body.estimate is not None:
        _draw_improvement(canvas, body, lines, bottom + 62, (left, right))


def _draw_arm(
    canvas: Canvas, x: Axis, y: float, arm: str, seeds: Sequence[tuple[int, float]]
) -> None:
    style = arm_style(arm)
    canvas.text(0, y + 4, arm, f"t label {style}")
    canvas.line(x.start, y, x.end, y, "grid")
    if not seeds:
        canvas.text(x.start, y + 4, "no value", "t muted")
        return
    mean = math.fsum(value for _, value in seeds) / len(seeds)
    canvas.line(x.at(mean), y - 10, x.at(mean), y + 10, f"mean {style}")
    for index, value in seeds:
        canvas.circle(x.at(value), y, 4.5, f"dot {style}", f"{arm}, seed {index}: {number(value)}")
    if not canvas.narrow:
        canvas.text(x.end + 8, y + 4, f"n\u00a0=\u00a0{len(seeds)}", "t muted")


def _draw_improvement(
    canvas: Canvas,
    body: Verdict,
    lines: Sequence[_Line],
    top: float,
    sides: tuple[float, float],
) -> None:
    estimate = body.estimate if body.estimate is not None else 0.0
    lower = body.lower if body.lower is not None else estimate
    upper = body.upper if body.upper is not None else estimate
    low, high = padded([estimate, lower, upper, *(line.value for line in lines)], 0.14)
    x = Axis(low=low, high=high, start=sides[0], end=sides[1])
    unit = unit_of(body.metric)
    middle, bottom = top + 26, top + 56
    title = "Improvement of treatment over control" + (f", {unit}" if unit else "")
    horizontal_axis(canvas, x, bottom, title, wanted=4 if canvas.narrow else 6)
    for line in lines:
        canvas.line(x.at(line.value), top + 4, x.at(line.value), bottom, "reference")
        canvas.text(x.at(line.value), top, line.words, "t strong", anchor="middle")
    canvas.text(0, middle + 4, "Δ", "t strong")
    canvas.line(x.at(lower), middle, x.at(upper), middle, "interval")
    for bound in (lower, upper):
        canvas.line(x.at(bound), middle - 8, x.at(bound), middle + 8, "interval")
    places = decimals_for([estimate, lower, upper])
    canvas.circle(x.at(estimate), middle, 5.5, "estimate", signed(estimate, places))
    if not canvas.narrow:
        canvas.text(x.end + 8, middle + 4, signed(estimate, places), "t strong")
