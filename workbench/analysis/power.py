"""How much noise between seeds a planned comparison can stand."""

import math

import numpy as np
from scipy.special import betaincinv, nctdtr, stdtrit

_LARGEST_NONCENTRALITY = 1e4
"""Beyond what any usual α and power need, even with two seeds."""
_NODES = 128


def largest_sd(distance: float, *, n: int, alpha: float, power: float, sides: int = 1) -> float:
    """Return the largest seed-to-seed standard deviation at which the claim is still shown.

    Two arms of n seeds with equal spread, bounds by Welch's t: the bound of the difference at 1-α
    lies beyond the margin with the wanted power when the true value lies ``distance`` beyond it.
    With two sides (equivalence) each side gets half of the chance of missing it, which is exact
    only for larger n and errs on the strict side.

    Args:
        distance: True value's distance from the margin, in the metric's unit; positive.
        n: Seeds an arm, at least 2.
        alpha: Chance of each one-sided error.
        power: Wanted chance of showing it, between α and 1.
        sides: 1, or 2 for equivalence.

    Raises:
        ValueError: an argument outside these bounds.
    """
    if not (distance > 0 and n >= 2 and 0 < alpha < power < 1 and sides in (1, 2)):
        raise ValueError(f"no power for {distance=}, {n=}, {alpha=}, {power=}, {sides=}")
    # The sum of the two variances is independent of the share w that one of them has in it, and
    # w ~ Beta((n-1)/2, (n-1)/2). Given w, the statistic is a noncentral t with 2(n-1) degrees of
    # freedom and Welch's critical value has (n-1)/(w² + (1-w)²): average over w's quantiles.
    half = (n - 1) / 2
    share = betaincinv(half, half, (np.arange(_NODES) + 0.5) / _NODES)
    critical = stdtrit((n - 1) / (share**2 + (1 - share) ** 2), 1 - alpha)
    miss = (1 - power) / sides

    def missed(noncentrality: float) -> float:
        # The library gives NaN where the chance is too small for a double.
        chances = np.nan_to_num(nctdtr(2 * (n - 1), noncentrality, critical), nan=0.0)
        return float(np.mean(chances))

    low, high = 0.0, _LARGEST_NONCENTRALITY
    for _ in range(60):  # bisection: the chance of missing falls as the true value moves away
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) > miss else (low, middle)
    return distance / (high * math.sqrt(2 / n))
