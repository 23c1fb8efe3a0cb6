"""The exact permutation test of a shift between two arms, with its bounds.

Every split of the pooled values into arms of the same sizes is enumerated. For a treatment that
only shifts its values by θ, the p-value of "the improvement is at most θ" is the share of splits
whose difference of means is at least the observed one after θ has been taken off (Fisher 1935;
bounds by inversion: Garthwaite 1996, section 1). A split that moves a set A of treatment values
and a set B of as many control values to the other arm reaches the observed difference exactly
when θ >= (ΣA - ΣB) / |A|, so the bounds are order statistics of those numbers.
"""

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MOST_SPLITS = 200_000
"""10 seeds an arm; beyond it, Welch's interval is as good and costs nothing."""
_ROWS = 256
_DIGITS = 12


def num_splits(n_control: int, n_treatment: int) -> int:
    """Return in how many ways the pooled values can be split into arms of these sizes."""
    return math.comb(n_control + n_treatment, n_control)


def smallest_p(n_control: int, n_treatment: int) -> float:
    """Return the smallest p-value that any outcome can have."""
    return 1 / num_splits(n_control, n_treatment)


def shift_bounds(
    control: NDArray[np.float64],
    treatment: NDArray[np.float64],
    alpha: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both one-sided bounds of the shift, one experiment a row.

    They are infinite where α is below the smallest p-value. Larger values are better.

    Raises:
        ValueError: too many splits to enumerate.
    """
    n, m = control.shape[1], treatment.shape[1]
    total = num_splits(n, m)
    if total > MOST_SPLITS:
        raise ValueError(f"{total} splits of {n} and {m} seeds are more than {MOST_SPLITS}")
    lower = np.full(len(control), -np.inf)
    upper = np.full(len(control), np.inf)
    # The identity always counts, so α·total splits of it leave one less for the others.
    place = math.floor(alpha * total + 1e-9)
    if place == 0:
        return lower, upper
    weights = _weights(n, m).T
    pooled = np.concatenate([control, treatment], axis=1)
    last = weights.shape[1] - place
    for start in range(0, len(pooled), _ROWS):
        rows = slice(start, start + _ROWS)
        ordered = np.partition(pooled[rows] @ weights, (place - 1, last), axis=1)
        lower[rows], upper[rows] = ordered[:, place - 1], ordered[:, last]
    return _snapped(lower, pooled), _snapped(upper, pooled)


def _weights(n: int, m: int) -> NDArray[np.float64]:
    """Return the weights of pooled values in each split's crossing, the identity left out."""
    splits = np.array(list(combinations(range(n + m), n)))[1:]
    in_control = np.zeros((len(splits), n + m), dtype=bool)
    np.put_along_axis(in_control, splits, True, axis=1)
    weights = np.zeros(in_control.shape)
    weights[:, :n] -= ~in_control[:, :n]
    weights[:, n:] += in_control[:, n:]
    moved = in_control[:, n:].sum(axis=1, keepdims=True)
    return np.asarray(weights / moved)


def _snapped(bounds: NDArray[np.float64], pooled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round away what summation left, so that a tie with a margin is no win by the last bit.

    Rounding keeps the order, so it can follow the selection.
    """
    largest = np.max(np.abs(pooled), axis=1)
    # Dividing by a power of ten, not multiplying by its inverse, gives the nearest double.
    scale = 10.0 ** (_DIGITS - np.ceil(np.log10(np.where(largest > 0, largest, 1.0))))
    return np.asarray(np.round(bounds * scale) / scale)
