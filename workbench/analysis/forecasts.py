"""Scores of forecasts: proper scores of one, coverage of many, always beside named baselines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.analysis.quantiles import beta_quantile

CALIBRATION_MINIMUM = 30
"""Scored forecasts below which no grade is given."""
_LEVELS = (50, 80, 95)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one forecast did against what happened."""

    observed: float
    error: float
    """Observed minus point."""
    covered: dict[str, bool]
    """Keys ``p50``, ``p80``, ``p95``."""
    interval_score_80: float
    crps: float
    crps_baselines: dict[str, float]
    """A baseline is a point without spread, so its CRPS is its absolute error."""
    grade: str


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often intervals held what they were meant to hold."""

    hits: int
    n: int
    share: float
    lower: float
    upper: float
    """Clopper-Pearson bounds of the true coverage."""


def score(
    *,
    point: float,
    spread: float,
    intervals: Mapping[int, tuple[float, float]],
    baselines: Mapping[str, float],
    observed: float,
    earlier_80: tuple[int, int] = (0, 0),
) -> Score:
    """Return the scores of a forecast with intervals at 50, 80 and 95 per cent.

    Args:
        point: The forecast.
        spread: Standard deviation of the predictive distribution, taken as normal for the CRPS.
        intervals: Lower and upper bound by level in per cent.
        baselines: Rival point forecasts by name.
        observed: What happened.
        earlier_80: Hits and number of earlier forecasts' 80 % intervals, for the grade.

    Raises:
        ValueError: a level is missing, an interval is reversed or a number is not finite.
    """
    missing = [level for level in _LEVELS if level not in intervals]
    if missing:
        raise ValueError(f"forecast has no interval at {missing} per cent")
    if not all(math.isfinite(v) for v in (point, observed, *baselines.values())):
        raise ValueError(f"forecast {point!r} or result {observed!r} is not finite: no score")
    covered = {f"p{lv}": intervals[lv][0] <= observed <= intervals[lv][1] for lv in _LEVELS}
    hits, n = earlier_80
    return Score(
        observed=observed,
        error=observed - point,
        covered=covered,
        interval_score_80=interval_score(observed, *intervals[80], alpha=0.2),
        crps=crps_normal(observed, point, spread),
        crps_baselines={name: abs(observed - value) for name, value in baselines.items()},
        grade=grade(hits + covered["p80"], n + 1),
    )


def interval_score(observed: float, lower: float, upper: float, *, alpha: float) -> float:
    """Return the interval score of a central 1-α interval, smaller is better.

    Gneiting and Raftery (2007), eq. 43.

    Raises:
        ValueError: the interval is reversed, or a number is not finite or out of range.
    """
    if not all(math.isfinite(v) for v in (observed, lower, upper)) or lower > upper:
        raise ValueError(f"[{lower!r}, {upper!r}] is no interval to score {observed!r} with")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha {alpha!r} must lie between 0 and 1")
    missed = max(lower - observed, 0.0) + max(observed - upper, 0.0)
    return upper - lower + 2 / alpha * missed


def crps_normal(observed: float, mean: float, sd: float) -> float:
    """Return the continuous ranked probability score of a normal forecast, smaller is better.

    Gneiting et al. (2005), eq. 5; its limit |observed - mean| for no spread.

    Raises:
        ValueError: a number is not finite or the spread is negative.
    """
    if not all(math.isfinite(v) for v in (observed, mean, sd)) or sd < 0:
        raise ValueError(f"normal({mean!r}, {sd!r}) cannot be scored with {observed!r}")
    if sd == 0:
        return abs(observed - mean)
    z = (observed - mean) / sd
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    # 2·Φ(z) - 1 = erf(z/√2)
    return sd * (z * math.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


def coverage(hits: int, n: int, *, confidence: float = 0.95) -> Coverage:
    """Return the covered share with its exact binomial interval (Clopper and Pearson 1934).

    Raises:
        ValueError: more hits than forecasts, none at all, or a confidence outside (0, 1).
    """
    if not 0 <= hits <= n or n == 0 or not 0 < confidence < 1:
        raise ValueError(f"{hits} hits of {n} at confidence {confidence!r} have no coverage")
    tail = (1 - confidence) / 2
    lower = 0.0 if hits == 0 else beta_quantile(hits, n - hits + 1, tail)
    upper = 1.0 if hits == n else beta_quantile(hits + 1, n - hits, 1 - tail)
    return Coverage(hits=hits, n=n, share=hits / n, lower=lower, upper=upper)


def grade(hits_80: int, n: int) -> str:
    """Return the calibration of the 80 % intervals in words; no grade below 30 forecasts."""
    if n < CALIBRATION_MINIMUM:
        return f"uncalibrated, n<{CALIBRATION_MINIMUM}"
    found = coverage(hits_80, n)
    bounds = f"{hits_80}/{n} covered, 95 % interval {found.lower:.2f} to {found.upper:.2f}"
    if found.upper < 0.8:
        return f"overconfident: {bounds}"
    return f"underconfident: {bounds}" if found.lower > 0.8 else f"calibrated: {bounds}"
