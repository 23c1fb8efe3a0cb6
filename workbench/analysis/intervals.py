"""Bounds of an improvement, one experiment a row: every interval that a rule may name.

Arms are given so that larger is better and hold one value a seed, in the order of the seeds. Each
bound is one-sided with its own error α. Rows without variation have no bounds: they are NaN.

R experiments, N seeds of the control, M seeds of the treatment.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtrit

from workbench.analysis.eprocess import critical_t
from workbench.analysis.permutation import shift_bounds

Array = NDArray[np.float64]

GUARD_SHARE = 0.9
"""Quantile of the ratio of spreads beyond which arms are noisier than their floor says."""


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


def welch_bounds(control_RN: Array, treatment_RM: Array, alpha: float) -> Bounds:  # noqa: N803
    """Return Welch's t bounds (Welch 1947); the same numbers as `welch_interval`."""
    n, m = control_RN.shape[1], treatment_RM.shape[1]
    control_R, treatment_R = _variance(control_RN) / n, _variance(treatment_RM) / m
    total_R = control_R + treatment_R
    with np.errstate(invalid="ignore", divide="ignore"):
        share_R = control_R / total_R
        freedom_R = 1 / (share_R**2 / (n - 1) + (1 - share_R) ** 2 / (m - 1))
    return _symmetric(_difference(control_RN, treatment_RM), np.sqrt(total_R), freedom_R, alpha)


def paired_bounds(control_RN: Array, treatment_RN: Array, alpha: float) -> Bounds:  # noqa: N803
    """Return the t bounds of the differences by seed index."""
    differences_RN = treatment_RN - control_RN
    n = differences_RN.shape[1]
    error_R = np.sqrt(_variance(differences_RN) / n)
    freedom_R = np.where(error_R > 0, float(n - 1), np.nan)
    return _symmetric(differences_RN.mean(axis=1), error_R, freedom_R, alpha)


def anytime_bounds(control_RN: Array, treatment_RN: Array, alpha: float) -> Bounds:  # noqa: N803
    """Return bounds of the differences by seed index that hold at every look together.

    They are infinite while the evidence cannot reach 1/α.
    """
    differences_RN = treatment_RN - control_RN
    n = differences_RN.shape[1]
    error_R = np.sqrt(_variance(differences_RN) / n)
    # A row without variation is NaN, and so is an infinite t times its zero.
    reach_R = critical_t(n, alpha) * np.where(error_R > 0, error_R, np.nan)
    return _around(differences_RN.mean(axis=1), reach_R, np.full(len(reach_R), float(n - 1)))


def exact_bounds(control_RN: Array, treatment_RM: Array, alpha: float) -> Bounds:  # noqa: N803
    """Return the bounds of the exact permutation test of a shift, by enumeration."""
    lower_R, upper_R = shift_bounds(control_RN, treatment_RM, alpha)
    still_R = (_variance(control_RN) + _variance(treatment_RM)) == 0
    return Bounds(
        estimate=_difference(control_RN, treatment_RM),
        lower=np.where(still_R, np.nan, lower_R),
        upper=np.where(still_R, np.nan, upper_R),
        degrees_of_freedom=np.full(len(lower_R), np.nan),
        guarded=np.zeros(len(lower_R), dtype=bool),
    )


def calibrated_bounds(
    control_RN: Array,  # noqa: N803
    treatment_RM: Array,  # noqa: N803
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
    n, m = control_RN.shape[1], treatment_RM.shape[1]
    own_freedom = n + m - 2
    own_R = ((n - 1) * _variance(control_RN) + (m - 1) * _variance(treatment_RM)) / own_freedom
    floor_R = np.broadcast_to(floor_sd, own_R.shape) ** 2
    freedom = own_freedom + floor_freedom
    pooled_R = (own_freedom * own_R + floor_freedom * floor_R) / freedom
    guarded_R = own_R > floor_R * float(fdtri(own_freedom, floor_freedom, GUARD_SHARE))
    error_R = np.where(own_R > 0, np.sqrt(pooled_R * (1 / n + 1 / m)), np.nan)
    estimate_R = _difference(control_RN, treatment_RM)
    pooled = _symmetric(estimate_R, error_R, np.full(own_R.shape, float(freedom)), alpha)
    welch = welch_bounds(control_RN, treatment_RM, alpha)
    return Bounds(
        estimate=estimate_R,
        lower=np.where(guarded_R, welch.lower, pooled.lower),
        upper=np.where(guarded_R, welch.upper, pooled.upper),
        degrees_of_freedom=np.where(
            guarded_R, welch.degrees_of_freedom, pooled.degrees_of_freedom
        ),
        guarded=guarded_R,
    )


def _symmetric(estimate_R: Array, error_R: Array, freedom_R: Array, alpha: float) -> Bounds:  # noqa: N803
    return _around(estimate_R, stdtrit(freedom_R, 1 - alpha) * error_R, freedom_R)


def _around(estimate_R: Array, reach_R: Array, freedom_R: Array) -> Bounds:  # noqa: N803
    return Bounds(
        estimate=estimate_R,
        lower=estimate_R - reach_R,
        upper=estimate_R + reach_R,
        degrees_of_freedom=freedom_R,
        guarded=np.zeros(len(estimate_R), dtype=bool),
    )


def _difference(control_RN: Array, treatment_RM: Array) -> Array:  # noqa: N803
    return np.asarray(treatment_RM.mean(axis=1) - control_RN.mean(axis=1))


def _variance(values_RN: Array) -> Array:  # noqa: N803
    """Return the unbiased variance of each row; exactly 0 where all its values are equal."""
    same_R = values_RN.min(axis=1) == values_RN.max(axis=1)
    return np.asarray(np.where(same_R, 0.0, values_RN.var(axis=1, ddof=1)))
