"""How likely each outcome of a planned comparison is, and how much noise it can stand."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, nctdtr, ndtr, stdtrit

from workbench.analysis.claims import CLAIM_KINDS, ClaimKind, Outcome

_LARGEST_NONCENTRALITY = 1e4
"""Beyond what any usual α and power need, even with two seeds."""
_NODES = 128
_SIZES = 512

_Array: TypeAlias = NDArray[np.float64]
_Region: TypeAlias = tuple[_Array, _Array]
"""Lower and upper end, elementwise; empty where the lower is above the upper."""


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


def outcome_chances(
    claim_kind: ClaimKind, margin: float, *, true: float, sd: float, n: int, alpha: float
) -> dict[Outcome, float]:
    """Return the chance of each outcome of a claim when the improvement is truly ``true``.

    Two arms of n seeds with equal spread, bounds by Welch's t, decided as `outcome_of` does. The
    distribution is that of `largest_sd`, summed over quantiles of the variances' share and size;
    the chances are right to about 0.002. ``void`` is not among them: it hangs on no such value.

    Raises:
        ValueError: an argument outside the bounds of `largest_sd`, or the claim kind is unknown.
    """
    if not (sd > 0 and n >= 2 and 0 < alpha < 0.5 and margin >= 0):
        raise ValueError(f"no chances for {sd=}, {n=}, {alpha=}, {margin=}")
    half = (n - 1) / 2
    places = (np.arange(_NODES) + 0.5) / _NODES
    share = betaincinv(half, half, places)[:, None]
    # The sum of both sample variances is σ²/(n-1) times a χ² with 2(n-1) degrees of freedom.
    size = 2 * gammaincinv(n - 1, (np.arange(_SIZES) + 0.5) / _SIZES)[None, :]
    critical = stdtrit((n - 1) / (share**2 + (1 - share) ** 2), 1 - alpha)
    reach = critical * sd * np.sqrt(size / (n * (n - 1)))
    refuted, supported = _regions(claim_kind, margin, reach)
    error = sd * math.sqrt(2 / n)

    def chance(regions: Sequence[_Region]) -> float:
        parts = [ndtr((high - true) / error) - ndtr((low - true) / error) for low, high in regions]
        return float(sum(np.mean(np.maximum(part, 0.0)) for part in parts))

    yes, no = chance(supported), chance(refuted)
    return {"supported": yes, "refuted": no, "inconclusive": max(0.0, 1.0 - yes - no)}


def seeds_needed(
    claim_kind: ClaimKind,
    margin: float,
    *,
    true: float,
    sd: float,
    alpha: float,
    power: float,
    most: int = 100,
) -> int | None:
    """Return the fewest seeds an arm that support the claim with this power; None if above most."""

    def reaches(n: int) -> bool:
        chances = outcome_chances(claim_kind, margin, true=true, sd=sd, n=n, alpha=alpha)
        return chances["supported"] >= power

    if not reaches(most):
        return None
    # Bisection: the chance rises with n where more seeds can show it at all.
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _regions(
    claim_kind: ClaimKind, margin: float, reach: _Array
) -> tuple[list[_Region], list[_Region]]:
    """Return between which estimates a claim is refuted and supported, for intervals ± reach."""
    low, high = np.full_like(reach, -np.inf), np.full_like(reach, np.inf)
    if claim_kind == "superior":
        # Refuted takes precedence where the whole interval lies between 0 and the margin.
        return [(low, margin - reach)], [(np.maximum(reach, margin - reach), high)]
    if claim_kind == "superior_by":
        return [(low, margin - reach)], [(margin + reach, high)]
    if claim_kind == "non_inferior":
        return [(low, -margin - reach)], [(-margin + reach, high)]
    if claim_kind == "equivalent":
        outside = [(low, -margin - reach), (margin + reach, high)]
        return outside, [(-margin + reach, margin - reach)]
    raise ValueError(f"claim {claim_kind!r} is not one of {list(CLAIM_KINDS)}")


def spread_bounds(sd: float, freedom: int, *, confidence: float = 0.9) -> tuple[float, float]:
    """Return the interval of a normal standard deviation that was estimated with these degrees.

    Raises:
        ValueError: no degree of freedom, or a negative estimate.
    """
    if freedom < 1 or sd < 0:
        raise ValueError(f"no interval for {sd=} with {freedom=}")
    tail = (1 - confidence) / 2
    # χ² quantiles by the inverse of the regularised incomplete gamma function.
    upper, lower = (2 * float(gammaincinv(freedom / 2, p)) for p in (1 - tail, tail))
    return sd * math.sqrt(freedom / upper), sd * math.sqrt(freedom / lower)
