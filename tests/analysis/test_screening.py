"""Benjamini-Hochberg keeps a bounded share of false candidates, and never a NaN."""

import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control, ttest_ind_from_stats

from workbench.analysis.screening import improvement_p_value, kept_by_false_discovery


def test_kept_by_false_discovery_is_the_step_up() -> None:
    # Benjamini and Hochberg (1995), section 3.2: the first four of fifteen at 0.05.
    published = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    assert kept_by_false_discovery(published, 0.05) == [True] * 4 + [False] * 11


def test_nan_is_never_kept_and_still_counts_as_tried() -> None:
    assert kept_by_false_discovery([0.03, math.nan], 0.05) == [False, False]
    assert kept_by_false_discovery([0.02, math.nan], 0.05) == [True, False]
    assert kept_by_false_discovery([0.03], 0.05) == [True]
    assert kept_by_false_discovery([math.nan], 0.999) == [False]


def test_nothing_tried_keeps_nothing() -> None:
    assert kept_by_false_discovery([], 0.05) == []


def test_values_that_are_no_test_are_refused() -> None:
    with pytest.raises(ValueError, match="rate 1"):
        kept_by_false_discovery([0.1], 1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        kept_by_false_discovery([1.5], 0.05)


@pytest.mark.parametrize("seed", range(20))
def test_kept_are_those_that_scipy_keeps(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p_values = generator.random(generator.integers(1, 40)) ** generator.integers(1, 5)
    expected = false_discovery_control(p_values, method="bh") <= 0.1
    assert kept_by_false_discovery([float(p) for p in p_values], 0.1) == expected.tolist()


@pytest.mark.parametrize("improvement", [-0.03, 0.0, 0.004, 0.05])
@pytest.mark.parametrize(("sd", "n"), [(0.01, 3), (0.002, 5), (0.0, 3)])
def test_p_value_is_that_of_welchs_one_sided_test(improvement: float, sd: float, n: int) -> None:
    expected = ttest_ind_from_stats(
        improvement, sd, n, 0.0, 0.02, 4, equal_var=False, alternative="greater"
    ).pvalue
    found = improvement_p_value(improvement, (0.02, 4), (sd, n))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("improvement", "control", "candidate"),
    [
        (0.1, (0.0, 3), (0.0, 3)),
        (0.1, (0.1, 1), (0.1, 3)),
        (0.1, (0.1, 3), (0.1, 0)),
        (math.nan, (0.1, 3), (0.1, 3)),
        (0.1, (math.nan, 3), (0.1, 3)),
        (0.1, (math.inf, 3), (0.1, 3)),
    ],
)
def test_what_cannot_be_tested_has_no_p_value(
    improvement: float, control: tuple[float, int], candidate: tuple[float, int]
) -> None:
    assert math.isnan(improvement_p_value(improvement, control, candidate))
