"""The values that decided, and the intervals that the rule read, look by look."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from workbench.analysis.claims import outcome_of
from workbench.analysis.explanation import turning_points
from workbench.registry.entries import ClaimResult
from workbench.reports.facts import Source
from workbench.reports.figures.canvas import (
    LETTER,
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    padded,
    spread_labels,
)
from workbench.reports.figures.curves import arm_style
from workbench.reports.narrative import listed
from workbench.reports.quantities import (
    decimals_for,
    number,
    signed,
    unit_of,
    with_unit,
)
from workbench.reports.rulings import Ruling, Sighting, Values, judgement_of
from workbench.reports.wording import level

ROW = 30.0
LOOK = 26.0
"""Height of a look's row, in pixels."""
STRIP = 16.0


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A value of the improvement at which the rule changes its mind."""

    value: float
    words: str


@dataclass(frozen=True, kw_only=True)
class _Zone:
    """Improvements that would have had one outcome, with the last bounds' widths."""

    low: float
    high: float
    outcome: str


def claim_figure(
    ruling: Ruling, *, name: str, said: str, sources: Sequence[Source]
) -> Figure | None:
    """Return the sealed values of each arm, and the improvement with its bounds at each look.

    Args:
        ruling: The claim with what was seen of it.
        name: A slug.
        said: What came of it, in a word or two.
        sources: Entries besides those of the looks.
    """
    ruling = _drawable(ruling)
    last, result = ruling.last, ruling.result
    values = {arm: _finite(found) for arm, found in last.values.items()}
    if not any(values.values()):
        return None
    shown = [one for one in ruling.sightings if one.result.estimate is not None]
    cited = [source for one in ruling.sightings for source in one.sources]
    turns = _turns(ruling)
    caption = (
        f"Above: {result.metric} on the sealed test split, one dot a seed, bar at the arm’s mean. "
    )
    if shown:
        caption += _caption(ruling, shown)
    return figure(
        name=name,
        caption=caption.strip(),
        alt=_in_words(ruling, said, turns),
        sources=tuple({source.sequence: source for source in [*cited, *sources]}.values()),
        draw=partial(_draw, ruling=ruling, values=values, shown=shown, turns=turns),
        height=lambda _: _height(len(values), len(shown), bool(turns)),
    )


def _drawable(ruling: Ruling) -> Ruling:
    """Return the ruling without numbers that have no place on an axis."""
    return replace(
        ruling,
        sightings=tuple(
            replace(one, result=one.result.model_copy(update=_wild(one.result)))
            for one in ruling.sightings
        ),
    )


def _wild(result: ClaimResult) -> dict[str, None]:
    numbers = {name: getattr(result, name) for name in ("estimate", "lower", "upper")}
    return {name: None for name, n in numbers.items() if n is not None and not math.isfinite(n)}


def _caption(ruling: Ruling, shown: Sequence[Sighting]) -> str:
    result = ruling.result
    looks = " at each look" if len(shown) > 1 else ""
    errors = {level(one.result.alpha) for one in shown}
    told = f"{errors.pop()} " if len(errors) == 1 else ""
    text = f"Below: improvement with its two one-sided {told}bounds{looks}, under {result.claim}."
    if _turns(ruling):
        text += (
            " The strip shows what the rule would have said of another improvement with bounds "
            "as far from it."
        )
    return text


def _height(num_arms: int, num_shown: int, has_strip: bool) -> float:
    top = 26 + ROW * num_arms + 46
    if not num_shown:
        return top
    return top + 66 + LOOK * num_shown + (STRIP + 12 if has_strip else 0)


def _finite(found: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(index, value) for index, value in found if math.isfinite(value)]


def _in_words(ruling: Ruling, said: str, turns: Sequence[float]) -> str:
    result, last = ruling.result, ruling.last
    if result.estimate is None:
        return f"{said}."
    places = decimals_for([result.estimate, result.lower, result.upper])
    text = f"{said}: improvement {with_unit(signed(result.estimate, places), result.metric)}"
    text += f", {_bounds_in_words(last, places)}."
    for one in ruling.sightings if last.state else ():
        found = signed(one.result.estimate, places)
        text += (
            f" Look {one.number} at {one.num_seeds} seeds: {found}, "
            f"{_bounds_in_words(one, places)}, {one.result.outcome}."
        )
    if turns:
        text += f" The rule turns at {listed([signed(turn, places) for turn in turns])}."
    return text


def _bounds_in_words(sighting: Sighting, places: int) -> str:
    lower, upper = sighting.result.lower, sighting.result.upper
    if lower is None and upper is None:
        return "no bounds"
    return f"bounds {signed(lower, places)} to {signed(upper, places)}"


def _turns(ruling: Ruling) -> list[float]:
    if ruling.rule is None or ruling.result.outcome == "void":
        return []
    return turning_points(ruling.rule, judgement_of(ruling.last))


def _lines(ruling: Ruling) -> list[_Line]:
    zero = _Line(value=0.0, words="0")
    if ruling.rule is None or ruling.rule.margin == 0:
        return [zero]
    margin, kind = ruling.rule.margin, ruling.rule.claim_kind
    if kind in ("superior", "superior_by"):
        return [zero, _Line(value=margin, words="δ")]
    if kind == "equivalent":
        return [_Line(value=-margin, words="−δ"), zero, _Line(value=margin, words="δ")]
    return [_Line(value=-margin, words="−δ"), zero]


def _draw(
    canvas: Canvas,
    *,
    ruling: Ruling,
    values: Values,
    shown: Sequence[Sighting],
    turns: Sequence[float],
) -> None:
    left, right = (92.0, canvas.width - 76.0) if not canvas.narrow else (76.0, canvas.width - 14.0)
    low, high = padded([value for found in values.values() for _, value in found], 0.1)
    x = Axis(low=low, high=high, start=left, end=right)
    bottom = 20 + ROW * len(values)
    metric = ruling.result.metric
    title = f"{metric}, {unit_of(metric)}" if unit_of(metric) else metric
    horizontal_axis(canvas, x, bottom, title, wanted=4 if canvas.narrow else 6, top=8)
    for place, (arm, found) in enumerate(values.items()):
        _draw_arm(canvas, x, 22 + ROW * place, arm, found)
    if shown:
        _draw_improvement(canvas, ruling, shown, turns, bottom + 62, (left, right))


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
    ruling: Ruling,
    shown: Sequence[Sighting],
    turns: Sequence[float],
    top: float,
    sides: tuple[float, float],
) -> None:
    lines = _lines(ruling)
    ends = [v for one in shown for v in (one.result.estimate, one.result.lower, one.result.upper)]
    known = [value for value in ends if value is not None]
    low, high = padded([*known, *turns, *(line.value for line in lines)], 0.1)
    x = Axis(low=low, high=high, start=sides[0], end=sides[1])
    bottom = top + 4 + LOOK * len(shown) + (STRIP + 12 if turns else 0)
    unit = unit_of(ruling.result.metric)
    long = "Improvement" if canvas.narrow else "Improvement of treatment over control"
    title = long + (f", {unit}" if unit else "")
    horizontal_axis(canvas, x, bottom, title, wanted=4 if canvas.narrow else 6)
    _draw_lines(canvas, x, lines, top, bottom)
    for place, sighting in enumerate(shown):
        _draw_sighting(canvas, x, sighting, top + 4 + LOOK * (place + 0.5), sighting is shown[-1])
    if turns:
        _draw_strip(canvas, x, ruling, turns, bottom - STRIP - 8)


def _draw_lines(canvas: Canvas, x: Axis, lines: Sequence[_Line], top: float, bottom: float) -> None:
    places = spread_labels([x.at(line.value) for line in lines], 18, x.start, x.end)
    for line, place in zip(lines, places, strict=True):
        canvas.line(x.at(line.value), top + 4, x.at(line.value), bottom, "reference")
        canvas.text(place, top, line.words, "t strong", anchor="middle")


def _draw_sighting(canvas: Canvas, x: Axis, sighting: Sighting, y: float, is_last: bool) -> None:
    result = sighting.result
    estimate = result.estimate if result.estimate is not None else 0.0
    style = "interval" if is_last else "interval earlier"
    lower = x.start if result.lower is None else x.at(result.lower)
    upper = x.end if result.upper is None else x.at(result.upper)
    has_bounds = result.lower is not None or result.upper is not None
    name = f"n\u00a0=\u00a0{sighting.num_seeds}" if sighting.state else "Δ"
    canvas.text(0, y + 4, name, "t strong" if is_last else "t muted")
    if has_bounds:
        canvas.line(lower, y, upper, y, style)
    for bound, known in ((lower, result.lower), (upper, result.upper)):
        if known is not None:
            canvas.line(bound, y - 8, bound, y + 8, style)
    places = decimals_for([estimate, result.lower, result.upper])
    hint = f"look {sighting.number}: {signed(estimate, places)}, {result.outcome}"
    mark = "estimate" if is_last else "estimate earlier"
    canvas.circle(x.at(estimate), y, 5.5 if is_last else 4.0, mark, hint)
    if not canvas.narrow:
        words = "t strong" if is_last else "t muted"
        canvas.text(x.end + 8, y + 4, signed(estimate, places), words)


def _zones(ruling: Ruling, turns: Sequence[float], low: float, high: float) -> list[_Zone]:
    """Return the outcome of every improvement between two, as far as bounds of this width say."""
    result, rule = ruling.result, ruling.rule
    if rule is None or result.estimate is None or result.lower is None or result.upper is None:
        return []
    down, up = result.estimate - result.lower, result.upper - result.estimate
    edges = [low, *(turn for turn in turns if low < turn < high), high]
    return [
        _Zone(
            low=start,
            high=end,
            outcome=outcome_of(
                rule.claim_kind, rule.margin, (start + end) / 2 - down, (start + end) / 2 + up
            ),
        )
        for start, end in pairwise(edges)
    ]


def _draw_strip(
    canvas: Canvas, x: Axis, ruling: Ruling, turns: Sequence[float], top: float
) -> None:
    canvas.text(0, top + 12, "would be", "t muted")
    for zone in _zones(ruling, turns, x.low, x.high):
        left, width = x.at(zone.low), x.at(zone.high) - x.at(zone.low)
        canvas.rect(left, top, width, STRIP, f"zone {zone.outcome}")
        words = next((w for w in _names(zone.outcome) if len(w) * LETTER + 8 <= width), "")
        if words:
            canvas.text(left + width / 2, top + 12, words, "t small", anchor="middle")
    estimate = ruling.result.estimate
    if estimate is not None:
        canvas.line(x.at(estimate), top - 3, x.at(estimate), top + STRIP + 3, "point")


def _names(outcome: str) -> tuple[str, ...]:
    return (outcome, "open") if outcome == "inconclusive" else (outcome,)
