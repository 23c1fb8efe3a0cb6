"""A run's loss told by its direction and its peak, and by nothing that shows its level."""

import math
import random

import pytest

from workbench.sentinel.trend import ROWS, OwnTrend


def trend(losses) -> OwnTrend:
    found = OwnTrend()
    for loss in losses:
        found.add(loss)
    return found


def noisy(level: float, slope: float, steps: int = ROWS) -> list[float]:
    generator = random.Random(7)
    return [level + slope * step + generator.gauss(0, 0.02) for step in range(steps)]


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (noisy(3, -0.01), "falling"),
        (noisy(3, 0.01), "rising"),
        (noisy(3, 0), "flat"),
        (noisy(3, -0.01, steps=19), "too short"),
        ([], "too short"),
        ([*noisy(3, -0.01), math.nan], "not finite"),
        ([*noisy(3, -0.01), math.inf, 2.0], "falling"),
    ],
)
def test_direction_is_that_of_the_last_steps(losses: list[float], told: str) -> None:
    assert trend(losses).direction == told


def test_direction_looks_at_the_last_hundred_steps_only() -> None:
    assert trend([*noisy(9, -0.05), *noisy(3, 0.01)]).direction == "rising"


@pytest.mark.parametrize("level", [2.0, 2.5, 7.0])
def test_same_course_at_another_level_is_told_in_the_same_words(level: float) -> None:
    """Blind: two arms whose losses differ by a factor look alike."""
    losses = [level / 2 * loss for loss in noisy(2.0, -0.004)]
    assert (trend(losses).direction, round(trend(losses).peak or 0, 9)) == (
        trend(noisy(2.0, -0.004)).direction,
        round(trend(noisy(2.0, -0.004)).peak or 0, 9),
    )


def test_peak_is_relative_to_the_runs_own_median() -> None:
    assert trend([*[2.0] * 40, 3.0, *[2.0] * 9]).peak == pytest.approx(0.5)
    assert trend([2.0] * 5).peak is None


def test_step_without_a_loss_counts_for_nothing() -> None:
    assert trend([*noisy(3, -0.01), None, None]).direction == "falling"
