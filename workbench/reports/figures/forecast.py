"""What was predicted for full scale from the ladder of proxies, and what happened."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from workbench.registry.entries import Forecast, ScalePoint
from workbench.reports.facts import Cited, ExperimentFacts, Source, merged_sources
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
from workbench.reports.figures.curves import arm_style
from workbench.reports.narrative import listed
from workbench.reports.quantities import count, decimals_for, number, signed, unit_of
from workbench.reports.status import score_of

ARMS = ("control", "treatment")


@dataclass(frozen=True, kw_only=True)
class _Ladder:
    target: str
    points: tuple[ScalePoint, ...]
    full_flops: float
    forecast: Forecast
    observed: float | None


def ladder(facts: ExperimentFacts) -> Figure | None:
    """Return each arm's means against compute, with the forecast and the result at full scale."""
    found = [f for f in facts.forecasts if f.value.target in ARMS and f.value.scales]
    if not found:
        return None
    ladders = [_ladder(facts, forecast) for forecast in found]
    metric = found[0].value.metric
    names = [point.scale for point in ladders[0].points]
    ratio = found[0].value.extrapolation_ratio
    caption = (
        f"Ladder of proxies ({listed(names)}; bars: ±1 standard deviation between seeds), the "
        f"forecast at full scale (50, 80 and 95\u202f% intervals), {ratio:.1f} times the compute "
        "of the largest proxy"
    )
    seen = any(item.observed is not None for item in ladders)
    return figure(
        name="ladder",
        caption=caption + (", and the result." if seen else "."),
        alt=f"{metric} against training compute: "
        + listed([_in_words(item) for item in ladders])
        + ".",
        sources=_sources(facts, found),
        draw=partial(_draw_ladder, ladders=ladders, metric=metric),
        height=lambda width: 320 if width > 500 else 330,
    )


def _sources(facts: ExperimentFacts, found: Sequence[Cited[Forecast]]) -> tuple[Source, ...]:
    scored = [facts.verdict] if facts.verdict and facts.verdict.value.scores else []
    return merged_sources([*found, *scored])


def _in_words(item: _Ladder) -> str:
    told = f"{item.target} forecast at {number(item.forecast.point)}"
    return told + ("" if item.observed is None else f", observed {number(item.observed)}")


def _ladder(facts: ExperimentFacts, forecast: Cited[Forecast]) -> _Ladder:
    points = tuple(sorted(forecast.value.scales, key=lambda point: point.compute_flops))
    score = score_of(facts, forecast.value.target)
    return _Ladder(
        target=forecast.value.target,
        points=points,
        full_flops=points[-1].compute_flops * forecast.value.extrapolation_ratio,
        forecast=forecast.value,
        observed=score.value.observed if score else None,
    )


def _draw_ladder(canvas: Canvas, *, ladders: Sequence[_Ladder], metric: str) -> None:
    left, right = 46.0, canvas.width - (104.0 if not canvas.narrow else 12.0)
    top, bottom = 34.0, canvas.height - (66 if canvas.narrow else 46)
    flops = [p.compute_flops for item in ladders for p in item.points]
    full = [item.full_flops for item in ladders]
    x = Axis(low=min(flops) / 1.6, high=max(full) * 1.5, start=left, end=right, log=True)
    low, high = padded([value for item in ladders for value in _extent(item)])
    y = Axis(low=low, high=high, start=bottom, end=top)
    unit = unit_of(metric)
    vertical_axis(canvas, y, left, right, f"{metric}, {unit}" if unit else metric)
    horizontal_axis(canvas, x, bottom, "Training compute, FLOPs")
    canvas.line(x.at(max(full)), top - 4, x.at(max(full)), bottom, "reference")
    canvas.text(x.at(max(full)), top - 10, "full scale", "t muted", anchor="middle")
    for place, item in enumerate(ladders):
        shift = (place - (len(ladders) - 1) / 2) * 16
        _draw_rungs(canvas, item, x, y, shift)
    _ladder_labels(canvas, ladders, right, y)


def _extent(item: _Ladder) -> list[float]:
    values = [p.mean + sign * (p.sd or 0.0) for p in item.points for sign in (-1, 1)]
    values += [bound for i in item.forecast.intervals for bound in (i.lower, i.upper)]
    return values + ([item.observed] if item.observed is not None else [])


def _draw_rungs(canvas: Canvas, item: _Ladder, x: Axis, y: Axis, shift: float) -> None:
    style = arm_style(item.target)
    places = [(x.at(p.compute_flops), y.at(p.mean)) for p in item.points]
    canvas.path(places, f"curve {style}")
    at = x.at(item.full_flops) + shift
    canvas.path([places[-1], (at, y.at(item.forecast.point))], f"curve discarded {style}")
    for point, (px, py) in zip(item.points, places, strict=True):
        if point.sd:
            canvas.line(px, y.at(point.mean - point.sd), px, y.at(point.mean + point.sd), "whisker")
        hint = f"{item.target} at {point.scale}: {number(point.mean)}, n = {point.n}"
        canvas.circle(px, py, 4, f"dot {style}", hint)
    for interval in sorted(item.forecast.intervals, key=lambda i: -i.level):
        upper, lower = y.at(interval.upper), y.at(interval.lower)
        canvas.rect(at - 5, upper, 10, lower - upper, f"band {style}")
    canvas.line(at - 5, y.at(item.forecast.point), at + 5, y.at(item.forecast.point), "point")
    if item.observed is not None:
        hint = f"{item.target} observed: {number(item.observed)}"
        canvas.diamond(at, y.at(item.observed), 5.5, "observed", hint)


def _ladder_labels(canvas: Canvas, ladders: Sequence[_Ladder], right: float, y: Axis) -> None:
    def stroke(style: str, x: float, at: float) -> None:
        canvas.line(x - 7, at, x + 7, at, f"curve {style}")

    def result(x: float, at: float) -> None:
        canvas.diamond(x, at, 5.5, "observed")

    if canvas.narrow:
        items = [(item.target, partial(stroke, arm_style(item.target))) for item in ladders]
        shown = any(item.observed is not None for item in ladders)
        legend(canvas, 44, canvas.height - 6, [*items, *([("observed", result)] if shown else [])])
        return
    wanted = [y.at(item.forecast.point) for item in ladders]
    for item, place in zip(ladders, spread_labels(wanted, 16, y.end, y.start), strict=True):
        canvas.text(right + 4, place + 4, item.target, f"t label {arm_style(item.target)}")
    if any(item.observed is not None for item in ladders):
        canvas.diamond(right + 10, y.start - 4, 5.5, "observed")
        canvas.text(right + 22, y.start, "observed", "t")


ROW = 88.0


def forecast_intervals(facts: ExperimentFacts) -> Figure | None:
    """Return every forecast's intervals on its own axis, with the result and its rivals."""
    found = sorted(facts.forecasts, key=lambda f: (f.value.target != "improvement", f.value.target))
    if not found:
        return None
    scored = [f for f in found if score_of(facts, f.value.target)]
    caption = "Forecasts: 50, 80 and 95\u202f% intervals, tick at the point forecast"
    caption += ", diamond at what was observed" if scored else "; nothing has been observed yet"
    guess = facts.proposal.promotion.forecast.expected_improvement if facts.proposal else None
    return figure(
        name="forecast",
        caption=f"{caption}. Triangles: baselines, and the proposer’s own guess.",
        alt=f"{count(len(found), 'forecast')}, {len(scored)} scored.",
        sources=_sources(facts, found),
        draw=partial(_draw_forecasts, facts=facts, found=found, guess=guess),
        height=lambda width: (ROW + (20 if width < 500 else 0)) * len(found),
    )


def _draw_forecasts(
    canvas: Canvas,
    *,
    facts: ExperimentFacts,
    found: Sequence[Cited[Forecast]],
    guess: float | None,
) -> None:
    for place, forecast in enumerate(found):
        score = score_of(facts, forecast.value.target)
        rivals = {name.replace("_", " "): v for name, v in forecast.value.baselines.items()}
        if forecast.value.target == "improvement" and guess is not None:
            rivals["guess"] = guess
        top = place * (canvas.height / len(found))
        _draw_forecast(canvas, forecast.value, score.value.observed if score else None, rivals, top)


def _draw_forecast(
    canvas: Canvas, body: Forecast, observed: float | None, rivals: dict[str, float], top: float
) -> None:
    seen = [observed] if observed is not None and math.isfinite(observed) else []
    bounds = [bound for interval in body.intervals for bound in (interval.lower, interval.upper)]
    low, high = padded([body.point, *bounds, *rivals.values(), *seen], 0.04)
    if canvas.narrow:
        _words_above(canvas, body, observed, top)
        x = Axis(low=low, high=high, start=8, end=canvas.width - 8)
        top += 20
    else:
        _words_beside(canvas, body, observed, top)
        x = Axis(low=low, high=high, start=158, end=canvas.width - 12)
    style = arm_style(body.target)
    horizontal_axis(canvas, x, top + 54, "", wanted=4 if canvas.narrow else 7)
    for interval in sorted(body.intervals, key=lambda i: -i.level):
        start, end = x.at(interval.lower), x.at(interval.upper)
        canvas.rect(start, top + 30, end - start, 16, f"band {style}")
    canvas.line(x.at(body.point), top + 27, x.at(body.point), top + 49, "point")
    _rivals(canvas, x, rivals, top)
    for value in seen:
        canvas.diamond(x.at(value), top + 38, 6.5, "observed", f"observed {number(value)}")


def _told(body: Forecast, observed: float | None) -> tuple[str, str]:
    places = decimals_for([body.point, observed], most=5)
    write = signed if body.target == "improvement" else number
    return write(body.point, places), "not yet" if observed is None else write(observed, places)


def _words_beside(canvas: Canvas, body: Forecast, observed: float | None, top: float) -> None:
    point, seen = _told(body, observed)
    canvas.text(0, top + 30, body.target, "t strong")
    canvas.text(0, top + 47, f"forecast {point}", "t muted")
    canvas.text(0, top + 63, f"observed {seen}", "t muted")


def _words_above(canvas: Canvas, body: Forecast, observed: float | None, top: float) -> None:
    point, seen = _told(body, observed)
    canvas.text(0, top + 14, body.target, "t strong")
    words = f"forecast {point}, observed {seen}"
    canvas.text(canvas.width, top + 14, words, "t muted", anchor="end")


def _rivals(canvas: Canvas, x: Axis, rivals: dict[str, float], top: float) -> None:
    """Mark the rivals; those whose names would overlap are told apart by their tooltip."""
    taken: list[tuple[float, float]] = []
    for name, value in sorted(rivals.items(), key=lambda item: item[1]):
        at, half = x.at(value), len(name) * LETTER / 2
        canvas.area([(at - 4, top + 19), (at + 4, top + 19), (at, top + 26)], "rival")
        middle = min(max(at, x.start + half), x.end - half)
        if all(abs(middle - other) > half + width + 5 for other, width in taken):
            canvas.text(middle, top + 14, name, "t small", anchor="middle")
            taken.append((middle, half))
