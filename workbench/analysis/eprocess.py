"""A t-test that may be looked at after any seed: its evidence is a one-sided e-process.

For differences x_1..x_n from a normal distribution of unknown mean μ and spread σ, the density of
the scale-invariant part of the data under μ/σ = d, averaged over d > 0 with a half-normal weight
of precision c² (the normal weight cut at 0 and doubled), is divided by the density under d = 0:

    V = Σx²,  S = Σx,  A = V - S² / (n + c²)
    E = 2 · sqrt(c² / (n + c²)) · (V / A)^(n/2) · T_n( S / sqrt(n + c²) · sqrt(n / A) )

with T_n Student's distribution function with n degrees of freedom. Without the factor 2·T_n it is
the two-sided Gaussian mixture of Wang and Ramdas ("Anytime-valid t-tests and confidence sequences
for Gaussian means with unknown variance", 2023), after Lai (1976); cutting the weight at 0 turns
the average over d into the distribution function, because 1/σ² given the data is a gamma variable.

When μ = 0, E is a non-negative martingale of mean 1 in the filtration of the scale-invariant data,
so by Ville's inequality it ever reaches 1/α with probability at most α, however often one looks.
E rises with the t statistic: the means that are not rejected lie above one bound, and the two
one-sided bounds come from the critical t of each n. One test a bound, each with its own α.

The registered mixture is c² = 0.25: the weight's standard deviation is 2 spreads.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

C_SQUARED = 0.25
"""Precision of the mixture over μ/σ."""
_HALVINGS = 100


def e_value(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the evidence that the mean of each row is above 0; 1 says nothing.

    A row without variation about 0 (all of it 0) has no evidence: 1.
    """
    n = differences.shape[1]
    squares = np.sum(differences**2, axis=1)
    shares = np.sum(differences, axis=1) / np.sqrt(n * np.where(squares > 0, squares, 1.0))
    evidence = np.exp([_log_evidence(float(share), n) for share in shares])
    return np.asarray(np.where(squares > 0, evidence, 1.0))


def critical_t(n: int, alpha: float) -> float:
    """Return the t statistic of n differences at which the evidence is 1/α; infinite if never.

    Raises:
        ValueError: fewer than 2 differences or α outside (0, 0.5).
    """
    if n < 2 or not 0 < alpha < 0.5:
        raise ValueError(f"no critical value for {n=}, {alpha=}")
    wanted = -math.log(alpha)
    # |mean| / root mean square is 1 when the differences do not vary: t is infinite.
    if _log_evidence(1.0, n) <= wanted:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_evidence(middle, n) < wanted else (low, middle)
    return low * math.sqrt((n - 1) / ((1 - low) * (1 + low)))


def _log_evidence(share: float, n: int) -> float:
    """Return ln E from the mean over the root mean square, between -1 and 1."""
    left = 1 - share**2 * n / (n + C_SQUARED)  # A / V
    reach = share * n / math.sqrt((n + C_SQUARED) * left)
    tail = float(stdtr(n, reach))
    weight = math.log(C_SQUARED / (n + C_SQUARED)) / 2 - n / 2 * math.log(left)
    return weight + (math.log(2 * tail) if tail > 0 else -math.inf)
