"""How likely each outcome of a planned comparison is, and how much noise it can stand."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, ndtr, stdtrit

from workbench.analysis.claims import CLAIM_KINDS, ClaimKind, Outcome

_NODES = 128
_SIZES = 512

_Array: TypeAlias = NDArray[np.float64]
_Region: TypeAlias = tuple[_Array, _Array]
"""Lower and upper end, elementwise; empty where the lower is above the upper."""


def outcome_chances(
    claim_kind: ClaimKind, margin: float, *, true: float, sd: float, n: int, alpha: float
) -> dict[Outcome, float]:
    """Return the chance of each outcome of a claim when the improvement is truly ``true``.

    Two arms of n seeds with equal spread, bounds by Welch's t, decided as `outcome_of` does, summed
    over quantiles of the sample variances' share and size; the chances are right to about 0.002.
    ``void`` is not among them: it hangs on no such value.

    Raises:
        ValueError: no spread, fewer than 2 seeds, α outside (0, 0.5), a negative margin, or the
            claim kind is unknown.
    """
    if not (sd > 0 and n >= 2 and 0 < alpha < 0.5 and margin >= 0):
        raise ValueError(f"no chances for {sd=}, {n=}, {alpha=}, {margin=}")
    half = (n - 1) / 2
    places = (np.arange(_NODES) + 0.5) / _NODES
    # The share w that one variance has in their sum is independent of the sum, and
    # w ~ Beta((n-1)/2, (n-1)/2); Welch's critical value has (n-1)/(w² + (1-w)²) degrees of freedom.
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
