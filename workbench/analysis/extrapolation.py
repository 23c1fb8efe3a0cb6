"""Predictions of a full-scale result from repeated proxies at two or more scales.

Everything is fitted to natural logarithms: ln y = a + b·ln C + noise, with C the training FLOPs.
The predictive spread has three parts, none left out:

1. between-seed noise of the full-scale runs (of their mean, for the number of seeds planned);
2. uncertainty of the fitted line at that distance from the proxies, from the same noise;
3. model error, because a straight line in logarithms (no irreducible loss) is an assumption that
   two scales cannot test. The truth of a run that keeps learning lies between no further change
   and the line, so a share of that predicted change (`MODEL_ERROR`) counts as one standard
   deviation. It is an allowance, not an estimate: scored forecasts will show whether it is fair.

Bounds are quantiles of Student's t with the noise's degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scipy.special import stdtrit

from workbench.analysis.claims import Direction, improvement, mean

Method: TypeAlias = Literal["power_law", "last_scale"]

LEVELS = (50, 80, 95)
MODEL_ERROR: dict[Method, float] = {"power_law": 0.25, "last_scale": 0.5}
"""Share of the change that the line predicts beyond the largest scale, taken as one standard
deviation of what the method cannot know."""
_ONE_SIGMA = 0.5 * (1 + math.erf(1 / math.sqrt(2)))


@dataclass(frozen=True, kw_only=True)
class Rung:
    """The results of one arm at one scale."""

    compute: float
    """Training FLOPs of one run."""
    values: tuple[float, ...]
    """One final value a seed, positive."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A predictive distribution of a mean at full scale."""

    method: Method
    point: float
    intervals: dict[int, tuple[float, float]]
    """Lower and upper bound by level in per cent."""
    spread: float
    """Half width of the central 68.27 %: the standard deviation if it were normal."""
    degrees_of_freedom: float
    noise: float
    """Parts 1 and 2 as one standard deviation, in the metric's unit."""
    model_error: float
    """Part 3 as one standard deviation, in the metric's unit."""
    last_scale: float
    """The same quantity at the largest proxy scale: the baseline."""


@dataclass(frozen=True, kw_only=True)
class _Line:
    intercept: float
    slope: float
    centre: float
    """Mean of ln C."""
    sum_squares: float
    """Of ln C about its mean."""
    n: int
    residual_squares: float
    freedom: int

    def at(self, x: float) -> float:
        return self.intercept + self.slope * (x - self.centre)

    def leverage(self, x: float) -> float:
        return 1 / self.n + (x - self.centre) ** 2 / self.sum_squares


def predict_arm(
    rungs: Sequence[Rung], *, compute: float, num_seeds: int, method: Method
) -> Prediction:
    """Return the prediction of an arm's mean over ``num_seeds`` full-scale runs.

    Raises:
        ValueError: fewer than two scales, values that are not positive and finite, or no repeats
            from which between-seed noise could be told.
    """
    line = _fit(rungs)
    variance = _pooled_variance([line])
    last = _last(rungs)
    straight = math.exp(line.at(math.log(compute)))
    point = straight if method == "power_law" else _mean_of(last)
    unit = _noise_share(line, last, compute, num_seeds, method)
    return _prediction(
        method=method,
        point=point,
        noise=point * math.sqrt(variance * unit),
        change=straight - _mean_of(last),
        freedom=line.freedom,
        last_scale=_mean_of(last),
        positive=True,
    )


def predict_improvement(
    control: Sequence[Rung],
    treatment: Sequence[Rung],
    *,
    direction: Direction,
    compute: float,
    num_seeds: int,
    method: Method,
) -> Prediction:
    """Return the prediction of the treatment's improvement over the control, positive is better.

    Noise is pooled over both arms, whose runs are taken as independent; the model error concerns
    the change of the *difference*, since both arms share whatever bends the line.

    Raises:
        ValueError: as `predict_arm`.
    """
    arms = (control, treatment)
    lines = [_fit(arm) for arm in arms]
    variance = _pooled_variance(lines)
    lasts = [_last(arm) for arm in arms]
    straight = [math.exp(line.at(math.log(compute))) for line in lines]
    means = [_mean_of(last) for last in lasts]
    points = straight if method == "power_law" else means
    noise = math.fsum(
        (point**2) * variance * _noise_share(line, last, compute, num_seeds, method)
        for point, line, last in zip(points, lines, lasts, strict=True)
    )
    last_scale = improvement(means[0], means[1], direction)
    return _prediction(
        method=method,
        point=improvement(points[0], points[1], direction),
        noise=math.sqrt(noise),
        change=improvement(straight[0], straight[1], direction) - last_scale,
        freedom=sum(line.freedom for line in lines),
        last_scale=last_scale,
        positive=False,
    )


def assumptions(method: Method, num_scales: int) -> list[str]:
    """Return what a prediction takes for granted, in sentences for the record."""
    shape = (
        "ln metric is linear in ln training FLOPs (power law, no irreducible loss)"
        if method == "power_law"
        else "the metric at full scale is that of the largest proxy scale"
    )
    allowance = (
        f"model error of one standard deviation = {MODEL_ERROR[method]:g} x the change that the "
        "line predicts beyond the largest scale (an allowance, not an estimate)"
    )
    tested = (
        "two scales fit a line exactly, so its shape is not tested"
        if num_scales == 2
        else f"{num_scales} scales: misfit of the line counts as noise"
    )
    return [
        shape,
        tested,
        allowance,
        "relative between-seed noise is the same at every scale and at full size",
        "the evaluation set of the forecast behaves like the proxies' validation set",
    ]


def _fit(rungs: Sequence[Rung]) -> _Line:
    points = [(math.log(r.compute), value) for r in rungs for value in r.values]
    bad = [value for _, value in points if not (math.isfinite(value) and value > 0)]
    if bad:
        raise ValueError(f"{bad} cannot be extrapolated: a power law needs positive finite values")
    if len({x for x, _ in points}) < 2:
        raise ValueError("an extrapolation needs finished runs at two scales of different compute")
    if len(points) < 3:
        raise ValueError("one run at each of two scales says nothing of between-seed noise")
    logs = [(x, math.log(value)) for x, value in points]
    centre = mean([x for x, _ in logs])
    level = mean([y for _, y in logs])
    sum_squares = math.fsum((x - centre) ** 2 for x, _ in logs)
    slope = math.fsum((x - centre) * (y - level) for x, y in logs) / sum_squares
    residuals = math.fsum((y - level - slope * (x - centre)) ** 2 for x, y in logs)
    return _Line(
        intercept=level,
        slope=slope,
        centre=centre,
        sum_squares=sum_squares,
        n=len(logs),
        residual_squares=residuals,
        freedom=len(logs) - 2,
    )


def _pooled_variance(lines: Sequence[_Line]) -> float:
    return math.fsum(line.residual_squares for line in lines) / sum(ln.freedom for ln in lines)


def _last(rungs: Sequence[Rung]) -> Rung:
    return max((rung for rung in rungs if rung.values), key=lambda rung: rung.compute)


def _mean_of(rung: Rung) -> float:
    return math.exp(mean([math.log(value) for value in rung.values]))


def _noise_share(line: _Line, last: Rung, compute: float, num_seeds: int, method: Method) -> float:
    """Return parts 1 and 2 as a multiple of one run's relative variance."""
    own = line.leverage(math.log(compute)) if method == "power_law" else 1 / len(last.values)
    return own + 1 / num_seeds


def _prediction(
    *,
    method: Method,
    point: float,
    noise: float,
    change: float,
    freedom: int,
    last_scale: float,
    positive: bool,
) -> Prediction:
    model_error = MODEL_ERROR[method] * abs(change)
    scale = math.hypot(noise, model_error)
    intervals = {
        level: _bounds(point, scale * _quantile(freedom, level), positive) for level in LEVELS
    }
    return Prediction(
        method=method,
        point=point,
        intervals=intervals,
        spread=scale * float(stdtrit(freedom, _ONE_SIGMA)),
        degrees_of_freedom=freedom,
        noise=noise,
        model_error=model_error,
        last_scale=last_scale,
    )


def _quantile(freedom: int, level: int) -> float:
    return float(stdtrit(freedom, 0.5 + level / 200))


def _bounds(point: float, reach: float, positive: bool) -> tuple[float, float]:
    if not positive:
        return point - reach, point + reach
    # Symmetric in the logarithm, so that the lower bound of a positive metric stays positive.
    factor = math.exp(reach / point)
    return point / factor, point * factor
