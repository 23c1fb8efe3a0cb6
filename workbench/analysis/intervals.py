"""Bounds of an improvement, one experiment a row: every interval that a rule may name.

Arms are given so that larger is better and hold one value a seed, in the order of the seeds. Each
bound is one-sided with its own error α. Rows without variation, or with what rounding leaves of
none, have no bounds: they are NaN.

Arrays of an arm have the shape (experiments, seeds).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtrit

from workbench.analysis.claims import ROUNDING
from workbench.analysis.eprocess import critical_t
from workbench.analysis.permutation import shift_bounds

Array = NDArray[np.float64]

GUARD_SHARE = 0.75
"""Quantile of the ratio of variances beyond which arms count as noisier than their floor.

At 0.9 the measured error of arms 1.5 times as noisy as their floor was 0.066 for α 0.05 (n = 3),
at 0.75 it is 0.050; at 0.5 hardly any power is left to gain over Welch's (docs/decision-rules.md).
"""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Estimates with their two one-sided bounds, one experiment an element."""

    estimate: Array
    lower: Array
    upper: Array
    degrees_of_freedom: Array
    """NaN where the interval has none."""
    guarded: NDArray[np.bool_]
    """Where the guard of a calibrated interval put Welch's in its place."""


def welch_bounds(control: Array, treatment: Array, alpha: float) -> Bounds:
    """Return Welch's t bounds (Welch 1947); the same numbers as `welch_interval`."""
    n, m = control.shape[1], treatment.shape[1]
    first, second = _variance(control) / n, _variance(treatment) / m
    total = first + second
    with np.errstate(invalid="ignore", divide="ignore"):
        share = first / total
        freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    return _symmetric(_difference(control, treatment), np.sqrt(total), freedom, alpha)


def paired_bounds(control: Array, treatment: Array, alpha: float) -> Bounds:
    """Return the t bounds of the differences by seed index."""
    differences = treatment - control
    n = differences.shape[1]
    error = np.sqrt(_variance(differences, _size(control, treatment)) / n)
    freedom = np.where(error > 0, float(n - 1), np.nan)
    return _symmetric(differences.mean(axis=1), error, freedom, alpha)


def anytime_bounds(control: Array, treatment: Array, alpha: float) -> Bounds:
    """Return bounds of the differences by seed index that hold at every look together.

    They are infinite while the evidence cannot reach 1/α.
    """
    differences = treatment - control
    n = differences.shape[1]
    error = np.sqrt(_variance(differences, _size(control, treatment)) / n)
    # A row without variation is NaN, and so is an infinite t times its zero.
    reach = critical_t(n, alpha) * np.where(error > 0, error, np.nan)
    return _around(differences.mean(axis=1), reach, np.full(len(reach), float(n - 1)))


def exact_bounds(control: Array, treatment: Array, alpha: float) -> Bounds:
    """Return the bounds of the exact permutation test of a shift, by enumeration."""
    lower, upper = shift_bounds(control, treatment, alpha)
    still = (_variance(control) + _variance(treatment)) == 0
    return Bounds(
        estimate=_difference(control, treatment),
        lower=np.where(still, np.nan, lower),
        upper=np.where(still, np.nan, upper),
        degrees_of_freedom=np.full(len(lower), np.nan),
        guarded=np.zeros(len(lower), dtype=bool),
    )


def calibrated_bounds(
    control: Array,
    treatment: Array,
    alpha: float,
    *,
    floor_sd: Array,
    floor_freedom: int,
) -> Bounds:
    """Return t bounds with the spread of the noise floor and both arms, pooled.

    Guard: where the arms' pooled variance is above the floor's by more than the F distribution
    allows at `GUARD_SHARE`, the floor does not describe them, and Welch's bounds are given.
    Pooling, rather than the floor's spread alone, keeps a mild mismatch that passes the guard
    from narrowing the bounds.
    """
    n, m = control.shape[1], treatment.shape[1]
    own_freedom = n + m - 2
    own = ((n - 1) * _variance(control) + (m - 1) * _variance(treatment)) / own_freedom
    floor = np.broadcast_to(floor_sd, own.shape) ** 2
    freedom = own_freedom + floor_freedom
    pooled = (own_freedom * own + floor_freedom * floor) / freedom
    guarded = own > floor * float(fdtri(own_freedom, floor_freedom, GUARD_SHARE))
    error = np.where(own > 0, np.sqrt(pooled * (1 / n + 1 / m)), np.nan)
    estimate = _difference(control, treatment)
    pooled = _symmetric(estimate, error, np.full(own.shape, float(freedom)), alpha)
    welch = welch_bounds(control, treatment, alpha)
    return Bounds(
        estimate=estimate,
        lower=np.where(guarded, welch.lower, pooled.lower),
        upper=np.where(guarded, welch.upper, pooled.upper),
        degrees_of_freedom=np.where(guarded, welch.degrees_of_freedom, pooled.degrees_of_freedom),
        guarded=guarded,
    )


def _symmetric(estimate: Array, error: Array, freedom: Array, alpha: float) -> Bounds:
    return _around(estimate, stdtrit(freedom, 1 - alpha) * error, freedom)


def _around(estimate: Array, reach: Array, freedom: Array) -> Bounds:
    return Bounds(
        estimate=estimate,
        lower=estimate - reach,
        upper=estimate + reach,
        degrees_of_freedom=freedom,
        guarded=np.zeros(len(estimate), dtype=bool),
    )


def _difference(control: Array, treatment: Array) -> Array:
    return np.asarray(treatment.mean(axis=1) - control.mean(axis=1))


def _size(*arms: Array) -> Array:
    """Return the size of each row's largest value."""
    return np.asarray(np.max([np.abs(arm).max(axis=1) for arm in arms], axis=0))


def _variance(values: Array, size: Array | None = None) -> Array:
    """Return the unbiased variance of each row; exactly 0 where all its values are equal.

    They are equal if they differ by no more than rounding does at this size: of the values
    themselves, or of those that they are differences of.
    """
    size = _size(values) if size is None else size
    same = values.max(axis=1) - values.min(axis=1) <= ROUNDING * size
    return np.asarray(np.where(same, 0.0, values.var(axis=1, ddof=1)))
