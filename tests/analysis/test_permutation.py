"""Exact bounds against a search that shifts the values and counts splits anew."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import permutation_test

from workbench.analysis.permutation import num_splits, shift_bounds, smallest_p


def p_value(control: np.ndarray, treatment: np.ndarray, shift: float) -> float:
    """Share of splits whose difference is at least the observed one, after the shift is undone."""
    pooled = np.concatenate([control, treatment - shift])
    n = len(control)
    splits = [list(chosen) for chosen in combinations(range(len(pooled)), n)]
    means = [np.delete(pooled, s).mean() - pooled[s].mean() for s in splits]
    return float(np.mean(np.array(means) >= means[0] - 1e-9))


@pytest.mark.parametrize(
    ("n", "m", "alpha"), [(3, 3, 0.05), (4, 4, 0.05), (5, 4, 0.02), (3, 5, 0.2)]
)
def test_lower_bound_is_where_the_p_value_passes_alpha(n: int, m: int, alpha: float) -> None:
    generator = np.random.default_rng(n * 10 + m)
    for _ in range(5):
        control, treatment = generator.standard_normal(n), 1 + generator.standard_normal(m)
        lower, upper = (float(b[0]) for b in shift_bounds(control[None], treatment[None], alpha))
        assert (
            p_value(control, treatment, lower - 1e-6) <= alpha < p_value(control, treatment, lower)
        )
        # The upper bound is the lower one of the mirrored question.
        assert p_value(-control, -treatment, -upper - 1e-6) <= alpha
        assert p_value(-control, -treatment, -upper) > alpha


def test_support_agrees_with_scipys_exact_test() -> None:
    generator = np.random.default_rng(5)
    control, treatment = generator.standard_normal((20, 4)), 1 + generator.standard_normal((20, 4))
    lower, _ = shift_bounds(control, treatment, 0.05)
    for row in range(20):
        exact = permutation_test(
            (treatment[row], control[row]), lambda a, b: a.mean() - b.mean(),
            alternative="greater", n_resamples=np.inf,
        )  # fmt: skip
        assert (lower[row] > 0) == (exact.pvalue <= 0.05)


def test_bounds_are_infinite_where_alpha_is_below_the_smallest_p() -> None:
    lower, upper = shift_bounds(np.array([[1.0, 2.0]]), np.array([[8.0, 9.0]]), 0.05)
    assert (lower.tolist(), upper.tolist()) == ([-math.inf], [math.inf])


def test_a_tie_with_the_margin_is_no_win() -> None:
    """Sums of decimal values are off by a last bit, which must not decide."""
    control, treatment = np.array([[0.1, 0.2, 0.4]]), np.array([[0.3, 0.4, 0.5]])
    lower, _ = shift_bounds(control, treatment, 0.1)
    crossings = sorted(
        (sum(a) - sum(b)) / len(a)
        for k in (1, 2, 3)
        for a in combinations([3, 4, 5], k)
        for b in combinations([1, 2, 4], k)
    )
    assert lower[0] == crossings[1] / 10 == 0.0


def test_values_of_zero_only_have_bounds_of_zero() -> None:
    lower, upper = shift_bounds(np.zeros((1, 3)), np.zeros((1, 3)), 0.05)
    assert (lower[0], upper[0]) == (0.0, 0.0)


def test_many_rows_give_what_each_gives_alone() -> None:
    generator = np.random.default_rng(8)
    control, treatment = generator.standard_normal((600, 3)), generator.standard_normal((600, 3))
    lower, upper = shift_bounds(control, treatment, 0.05)
    for row in (0, 255, 256, 599):
        alone = shift_bounds(control[row : row + 1], treatment[row : row + 1], 0.05)
        assert (lower[row], upper[row]) == (alone[0][0], alone[1][0])


def test_counts_of_splits() -> None:
    assert (num_splits(5, 5), smallest_p(3, 3)) == (252, 0.05)
    with pytest.raises(ValueError, match="more than 200000"):
        shift_bounds(np.zeros((1, 11)), np.zeros((1, 11)), 0.05)
