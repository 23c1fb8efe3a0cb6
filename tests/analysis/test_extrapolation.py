"""Extrapolation against exact power laws, scipy's regression and simulated repeats."""

import math
import random

import pytest
from scipy import stats

from workbench.analysis.extrapolation import (
    LEVELS,
    Rung,
    assumptions,
    predict_arm,
    predict_improvement,
)

FULL = 1e15


def rung(compute: float, *values: float) -> Rung:
    return Rung(compute=compute, values=values)


def law(compute: float) -> float:
    return 40.0 * compute**-0.1


def test_predict_arm_exact_power_law_is_continued() -> None:
    rungs = [rung(c, law(c), law(c)) for c in (1e12, 1e13)]
    found = predict_arm(rungs, compute=FULL, num_seeds=3, method="power_law")
    assert found.point == pytest.approx(law(FULL), rel=1e-9)
    assert found.noise == pytest.approx(0.0, abs=1e-9)
    # No noise is no certainty: the shape of the law stays an assumption.
    assert found.model_error == pytest.approx(0.25 * (law(1e13) - law(FULL)))
    assert found.last_scale == pytest.approx(law(1e13))


def test_predict_arm_noise_agrees_with_textbook_regression() -> None:
    values = {1e12: (2.52, 2.50, 2.55), 1e13: (2.01, 2.04, 1.99), 4e13: (1.75, 1.78)}
    rungs = [rung(c, *v) for c, v in values.items()]
    found = predict_arm(rungs, compute=FULL, num_seeds=1, method="power_law")
    x = [math.log(c) for c, v in values.items() for _ in v]
    y = [math.log(v) for vs in values.values() for v in vs]
    line = stats.linregress(x, y)
    at = line.intercept + line.slope * math.log(FULL)
    assert found.point == pytest.approx(math.exp(at), rel=1e-9)
    centre = sum(x) / len(x)
    squares = sum((v - centre) ** 2 for v in x)
    residual = sum((b - line.intercept - line.slope * a) ** 2 for a, b in zip(x, y, strict=True))
    sigma2 = residual / (len(x) - 2)
    textbook = math.sqrt(sigma2 * (1 + 1 / len(x) + (math.log(FULL) - centre) ** 2 / squares))
    assert found.noise == pytest.approx(found.point * textbook, rel=1e-9)
    assert found.degrees_of_freedom == 6


@pytest.mark.parametrize("method", ["power_law", "last_scale"])
def test_predict_arm_intervals_nest_and_stay_positive(method: str) -> None:
    rungs = [rung(1e12, 2.0, 0.4), rung(1e13, 1.0, 0.2)]
    found = predict_arm(rungs, compute=FULL, num_seeds=1, method=method)
    bounds = [found.intervals[level] for level in LEVELS]
    assert all(0 < low < found.point < high for low, high in bounds)
    assert bounds[0][0] > bounds[1][0] > bounds[2][0]
    assert bounds[0][1] < bounds[1][1] < bounds[2][1]


def test_predict_arm_farther_extrapolation_is_less_certain() -> None:
    rungs = [rung(1e12, 2.52, 2.50), rung(1e13, 2.01, 2.04)]
    near, far = (
        predict_arm(rungs, compute=c, num_seeds=3, method="power_law") for c in (2e13, 1e17)
    )
    assert far.spread / far.point > near.spread / near.point


def test_predict_improvement_is_the_difference_of_the_arms() -> None:
    control = [rung(1e12, 2.60, 2.58), rung(1e13, 2.10, 2.12)]
    treatment = [rung(1e12, 2.52, 2.50), rung(1e13, 2.01, 2.04)]
    found = predict_improvement(
        control, treatment, direction="minimize", compute=FULL, num_seeds=3, method="power_law"
    )
    arms = [
        predict_arm(arm, compute=FULL, num_seeds=3, method="power_law")
        for arm in (control, treatment)
    ]
    assert found.point == pytest.approx(arms[0].point - arms[1].point)
    assert found.degrees_of_freedom == 4
    mirrored = predict_improvement(
        control, treatment, direction="maximize", compute=FULL, num_seeds=3, method="power_law"
    )
    assert mirrored.point == pytest.approx(-found.point)


def test_predict_improvement_last_scale_is_the_largest_proxys() -> None:
    control = [rung(1e12, 2.60, 2.58), rung(1e13, 2.10, 2.10)]
    treatment = [rung(1e12, 2.52, 2.50), rung(1e13, 2.00, 2.00)]
    found = predict_improvement(
        control, treatment, direction="minimize", compute=FULL, num_seeds=3, method="last_scale"
    )
    assert found.point == pytest.approx(0.1)
    assert found.last_scale == found.point


def test_predict_improvement_simulated_repeats_are_covered_as_stated() -> None:
    """Where its assumptions hold, the noise part alone covers 80 % about 80 % of the time."""
    source = random.Random(5)

    def runs(compute: float, n: int) -> tuple[float, ...]:
        return tuple(law(compute) * math.exp(source.gauss(0, 0.01)) for _ in range(n))

    hits = 0
    trials = 400
    for _ in range(trials):
        arms = [[rung(c, *runs(c, 3)) for c in (1e12, 1e13)] for _ in range(2)]
        found = predict_improvement(
            *arms, direction="minimize", compute=1e14, num_seeds=3, method="power_law"
        )
        reach = found.noise * float(stats.t.ppf(0.9, found.degrees_of_freedom))
        observed = sum(runs(1e14, 3)) / 3 - sum(runs(1e14, 3)) / 3
        hits += abs(observed - found.point) <= reach
    assert 0.74 <= hits / trials <= 0.86


@pytest.mark.parametrize(
    ("rungs", "message"),
    [
        ([rung(1e12, 2.0, 2.1)], "two scales"),
        ([rung(1e12, 2.0, 2.1), rung(1e13)], "two scales"),
        ([rung(1e12, 2.0), rung(1e13, 1.9)], "between-seed noise"),
        ([rung(1e12, 2.0, math.nan), rung(1e13, 1.9)], "positive finite"),
        ([rung(1e12, 2.0, 0.0), rung(1e13, 1.9)], "positive finite"),
    ],
)
def test_predict_arm_too_little_or_unusable_is_refused(rungs: list[Rung], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict_arm(rungs, compute=FULL, num_seeds=3, method="power_law")


def test_assumptions_name_the_untested_line() -> None:
    assert any("not tested" in line for line in assumptions("power_law", 2))
    assert any("counts as noise" in line for line in assumptions("last_scale", 3))
