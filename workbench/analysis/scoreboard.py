"""How forecasts have done over time, by family and by how far they reached."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.claims import mean
from workbench.analysis.forecasts import Coverage, Score, coverage, grade, score

LEVELS = (50, 80, 95)
_BANDS = ((10.0, "up to 10x"), (100.0, "10x to 100x"), (1000.0, "100x to 1000x"))
_BEYOND = "beyond 1000x"


@dataclass(frozen=True, kw_only=True)
class Forecasted:
    """One forecast with what became of it."""

    family: str
    """Forecasts that are judged together: kind of experiment and method, say."""
    metric: str
    """Errors of different metrics are never averaged."""
    extrapolation_ratio: float
    """Full-scale training FLOPs divided by those of the largest proxy."""
    point: float
    spread: float
    """Standard deviation of the predictive distribution."""
    intervals: Mapping[int, tuple[float, float]]
    """Bounds by level: 50, 80 and 95 per cent."""
    baselines: Mapping[str, float]
    """Rival point forecasts, ``no_effect`` and ``last_scale`` among them."""
    observed: float | None
    """None while there is no result, or where the experiment was void."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The scores of one group of forecasts."""

    group: str
    n: int
    """Scored forecasts."""
    num_unscored: int
    """Forecasts without a result: void, withdrawn or still open. They are no hits."""
    metrics: tuple[str, ...]
    coverage: Mapping[int, Coverage]
    """By level in per cent, with Clopper-Pearson bounds; empty without a scored forecast."""
    standard_bias: float | None
    """Mean of (observed - point) / spread; positive when results exceed forecasts."""
    bias: float | None
    """Mean of observed - point, in the metric's unit; None across metrics."""
    interval_score_80: float | None
    """Mean, in the metric's unit; None across metrics."""
    crps: float | None
    """Mean, in the metric's unit; None across metrics."""
    skill: Mapping[str, float | None]
    """1 - CRPS / CRPS of the baseline, over the forecasts that have it: 1 is perfect, 0 no better
    than the baseline, below 0 worse. None across metrics, or where the baseline was never off."""
    grade: str
    """Of the 80 % intervals; ``uncalibrated, n<30`` instead of a grade of few forecasts."""


def scoreboard(forecasts: Sequence[Forecasted]) -> list[Standing]:
    """Return the standing of all forecasts, of each family and of each band of extrapolation.

    Raises:
        ValueError: a forecast that cannot be scored, or a ratio that is not positive and finite.
    """
    rows = [_standing("all", forecasts)]
    rows += _grouped("family", forecasts, lambda one: one.family)
    rows += _grouped("extrapolation", forecasts, lambda one: band(one.extrapolation_ratio))
    return rows


def band(ratio: float) -> str:
    """Return the band of an extrapolation ratio in words.

    Raises:
        ValueError: the ratio is not positive and finite.
    """
    if not (math.isfinite(ratio) and ratio > 0):
        raise ValueError(f"extrapolation ratio {ratio!r} must be finite and positive")
    return next((name for most, name in _BANDS if ratio <= most), _BEYOND)


def _grouped(
    what: str, forecasts: Sequence[Forecasted], key: Callable[[Forecasted], str]
) -> list[Standing]:
    order = {name: place for place, (_, name) in enumerate((*_BANDS, (math.inf, _BEYOND)))}
    names = sorted({key(one) for one in forecasts}, key=lambda name: (order.get(name, 0), name))
    return [_standing(f"{what} {n}", [one for one in forecasts if key(one) == n]) for n in names]


def _standing(group: str, forecasts: Sequence[Forecasted]) -> Standing:
    pairs = [(one, _score(one, one.observed)) for one in forecasts if one.observed is not None]
    scores = [scored for _, scored in pairs]
    metrics = tuple(sorted({one.metric for one in forecasts}))
    hits = {level: sum(s.covered[f"p{level}"] for s in scores) for level in LEVELS}
    standard = [scored.error / one.spread for one, scored in pairs if one.spread > 0]
    comparable = bool(scores) and len(metrics) == 1
    return Standing(
        group=group,
        n=len(scores),
        num_unscored=len(forecasts) - len(scores),
        metrics=metrics,
        coverage={lv: coverage(hits[lv], len(scores)) for lv in LEVELS} if scores else {},
        standard_bias=mean(standard) if standard else None,
        bias=mean([s.error for s in scores]) if comparable else None,
        interval_score_80=mean([s.interval_score_80 for s in scores]) if comparable else None,
        crps=mean([s.crps for s in scores]) if comparable else None,
        skill=_skills(scores, comparable=comparable),
        grade=grade(hits[80], len(scores)),
    )


def _score(forecast: Forecasted, observed: float) -> Score:
    return score(
        point=forecast.point,
        spread=forecast.spread,
        intervals=forecast.intervals,
        baselines=forecast.baselines,
        observed=observed,
    )


def _skills(scores: Sequence[Score], *, comparable: bool) -> dict[str, float | None]:
    names = sorted({name for scored in scores for name in scored.crps_baselines})
    return {name: _skill(scores, name) if comparable else None for name in names}


def _skill(scores: Sequence[Score], baseline: str) -> float | None:
    rivals = [scored for scored in scores if baseline in scored.crps_baselines]
    theirs = math.fsum(scored.crps_baselines[baseline] for scored in rivals)
    return 1 - math.fsum(scored.crps for scored in rivals) / theirs if theirs > 0 else None
