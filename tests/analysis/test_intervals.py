"""Bounds of many experiments at once against scipy's tests of one, and against our own Welch."""

import numpy as np
import pytest
from scipy import stats

from workbench.analysis.claims import welch_interval
from workbench.analysis.eprocess import e_value
from workbench.analysis.intervals import (
    GUARD_SHARE,
    anytime_bounds,
    calibrated_bounds,
    exact_bounds,
    paired_bounds,
    welch_bounds,
)


@pytest.fixture
def arms() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(11)
    return generator.standard_normal((30, 5)), 0.7 + 1.5 * generator.standard_normal((30, 5))


def test_welch_bounds_are_scipys_and_ours(arms: tuple[np.ndarray, np.ndarray]) -> None:
    control, treatment = arms
    found = welch_bounds(control, treatment[:, :4], 0.05)
    for row in range(30):
        scipys = stats.ttest_ind(treatment[row, :4], control[row], equal_var=False)
        interval = scipys.confidence_interval(0.9)
        assert (found.lower[row], found.upper[row]) == pytest.approx(tuple(interval), rel=1e-9)
        one = welch_interval(
            control[row].tolist(), treatment[row, :4].tolist(), direction="maximize", alpha=0.05
        )
        assert found.degrees_of_freedom[row] == pytest.approx(one.degrees_of_freedom, rel=1e-9)
        assert (found.lower[row], found.upper[row]) == pytest.approx((one.lower, one.upper))


def test_paired_bounds_are_scipys(arms: tuple[np.ndarray, np.ndarray]) -> None:
    control, treatment = arms
    found = paired_bounds(control, treatment, 0.025)
    for row in range(30):
        interval = stats.ttest_rel(treatment[row], control[row]).confidence_interval(0.95)
        assert (found.lower[row], found.upper[row]) == pytest.approx(tuple(interval), rel=1e-9)
    assert set(found.degrees_of_freedom) == {4.0}


def test_anytime_bounds_are_means_with_evidence_of_one_over_alpha(
    arms: tuple[np.ndarray, np.ndarray],
) -> None:
    control, treatment = arms
    found = anytime_bounds(control, treatment, 0.05)
    assert e_value(treatment - control - found.lower[:, None]) == pytest.approx(20.0, rel=1e-6)
    assert e_value(found.upper[:, None] - (treatment - control)) == pytest.approx(20.0, rel=1e-6)


def test_anytime_bounds_of_two_seeds_are_infinite(arms: tuple[np.ndarray, np.ndarray]) -> None:
    found = anytime_bounds(arms[0][:, :2], arms[1][:, :2], 0.05)
    assert np.isneginf(found.lower).all()
    assert np.isposinf(found.upper).all()


def test_calibrated_bounds_pool_the_floor_with_both_arms() -> None:
    control, treatment = np.array([[1.0, 2.0, 3.0]]), np.array([[4.0, 5.0, 6.0]])
    found = calibrated_bounds(control, treatment, 0.05, floor_sd=np.array(2.0), floor_freedom=11)
    # Arms: 4 degrees at variance 1. Floor: 11 degrees at variance 4.
    error = np.sqrt((4 * 1 + 11 * 4) / 15 * 2 / 3)
    assert found.lower[0] == pytest.approx(3 - stats.t.ppf(0.95, 15) * error)
    assert found.upper[0] == pytest.approx(3 + stats.t.ppf(0.95, 15) * error)
    assert (found.degrees_of_freedom[0], found.guarded[0]) == (15, False)


def test_calibrated_bounds_of_noisier_arms_are_welchs() -> None:
    bar = np.sqrt(stats.f.ppf(GUARD_SHARE, 4, 11))
    control = np.array([[1.0, 2.0, 3.0]] * 2)
    treatment = control + 3
    floors = np.array([1.01, 0.99]) / bar
    found = calibrated_bounds(control, treatment, 0.05, floor_sd=floors, floor_freedom=11)
    assert found.guarded.tolist() == [False, True]
    welch = welch_bounds(control, treatment, 0.05)
    assert found.lower[1] == welch.lower[1]
    assert found.degrees_of_freedom.tolist() == [15, 4]
    assert found.lower[0] != welch.lower[0]


def test_rows_without_variation_have_no_bounds() -> None:
    still, moving = np.full((1, 3), 3.28), np.array([[1.0, 2.0, 3.5]])
    floor = {"floor_sd": np.array(0.1), "floor_freedom": 9}
    for found in (
        welch_bounds(still, still + 1, 0.05),
        exact_bounds(still, still + 1, 0.05),
        calibrated_bounds(still, still + 1, 0.05, **floor),
        paired_bounds(moving, moving + 1, 0.05),
        anytime_bounds(moving, moving + 1, 0.05),
    ):
        assert np.isnan(found.lower).all()
        assert np.isnan(found.upper).all()
        assert found.estimate[0] == pytest.approx(1.0)


@pytest.mark.parametrize("bounds", [paired_bounds, anytime_bounds])
def test_differences_equal_but_for_rounding_have_no_bounds(bounds: object) -> None:
    control = np.array([[1.1, 2.3, 3.7], [1.0, 2.0, 3.0], [1.1, 2.3, 3.7]])
    treatment = np.array([[0.8, 2.0, 3.4], [0.5, 1.5, 2.5], [0.8, 2.0, 3.4 + 1e-13]])
    found = bounds(control, treatment, 0.05)  # type: ignore[operator]
    assert np.isnan(found.lower).tolist() == [True, True, False]


def test_arms_equal_but_for_rounding_have_no_bounds() -> None:
    arm = np.array([[0.3, 0.1 + 0.2, 0.3]])
    for bounds in (welch_bounds, exact_bounds):
        assert np.isnan(bounds(arm, arm + 1, 0.05).lower).all()
        assert not np.isnan(bounds(arm + np.array([0, 1e-13, 0]), arm + 1, 0.05).lower).any()
