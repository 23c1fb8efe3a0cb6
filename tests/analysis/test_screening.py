"""Benjamini-Hochberg keeps a bounded share of false candidates, and never a NaN."""

import math

import pytest

from workbench.analysis.screening import kept_by_false_discovery


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
