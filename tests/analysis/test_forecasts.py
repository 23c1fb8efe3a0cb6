"""Scores against published vectors, numerical integration and binomial sums."""

import json
import math
from pathlib import Path

import pytest

from workbench.analysis.forecasts import (
    coverage,
    crps_normal,
    grade,
    interval_score,
    score,
)

INTERVALS = {50: (-0.67, 0.67), 80: (-1.28, 1.28), 95: (-1.96, 1.96)}


def test_crps_normal_shared_vectors_agree(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "decision-rules" / "decision_rules.json").read_text())
    for case in vectors["crps_normal"]:
        found = crps_normal(case["y"], case["mu"], case["sd"])
        # printed to nine decimals, the last of which is off by two units in the first case
        assert found == pytest.approx(case["crps"], abs=2e-9)


def test_interval_score_shared_vectors_agree(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "decision-rules" / "decision_rules.json").read_text())
    for case in vectors["interval_score"]:
        assert interval_score(case["y"], case["l"], case["u"], alpha=case["alpha"]) == case["score"]


def test_crps_normal_equals_its_integral() -> None:
    observed, centre, sd = 0.7, -0.4, 1.3

    def normal(x: float) -> float:
        return 0.5 * (1 + math.erf((x - centre) / sd / math.sqrt(2)))

    step = 1e-3
    points = [-20 + (i + 0.5) * step for i in range(40_000)]
    integral = math.fsum((normal(x) - (x >= observed)) ** 2 for x in points) * step
    assert crps_normal(observed, centre, sd) == pytest.approx(integral, abs=1e-6)


def test_crps_normal_without_spread_is_the_absolute_error() -> None:
    assert crps_normal(2.0, 1.5, 0.0) == 0.5
    assert crps_normal(2.0, 1.5, 1e-12) == pytest.approx(0.5)


@pytest.mark.parametrize("bad", [(math.nan, 0.0, 1.0), (0.0, math.inf, 1.0), (0.0, 0.0, -1.0)])
def test_crps_normal_unusable_number_is_refused(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="cannot be scored"):
        crps_normal(*bad)


@pytest.mark.parametrize(
    ("observed", "expected"), [(1.0, 2.0), (0.0, 2.0), (2.0, 2.0), (-0.5, 7.0), (2.1, 3.0)]
)
def test_interval_score_penalises_only_misses(observed: float, expected: float) -> None:
    assert interval_score(observed, 0.0, 2.0, alpha=0.2) == pytest.approx(expected)


def test_interval_score_unusable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="no interval"):
        interval_score(0.0, 2.0, 1.0, alpha=0.2)
    with pytest.raises(ValueError, match="no interval"):
        interval_score(math.nan, 1.0, 2.0, alpha=0.2)
    with pytest.raises(ValueError, match="alpha"):
        interval_score(0.0, 1.0, 2.0, alpha=1.0)


def test_coverage_bounds_leave_the_tails_of_the_binomial() -> None:
    found = coverage(7, 10)
    at_least = sum(math.comb(10, k) * found.lower**k * (1 - found.lower) ** (10 - k)
                   for k in range(7, 11))  # fmt: skip
    at_most = sum(math.comb(10, k) * found.upper**k * (1 - found.upper) ** (10 - k)
                  for k in range(8))  # fmt: skip
    assert (at_least, at_most) == (pytest.approx(0.025), pytest.approx(0.025))
    assert found.share == 0.7


def test_coverage_of_none_or_all_reaches_the_end() -> None:
    assert coverage(0, 5).lower == 0.0
    assert coverage(0, 5).upper == pytest.approx(1 - 0.025 ** (1 / 5))
    assert coverage(5, 5).upper == 1.0


@pytest.mark.parametrize(("hits", "n", "level"), [(1, 0, 0.95), (3, 2, 0.95), (-1, 2, 0.95),
                                                  (1, 2, 1.0)])  # fmt: skip
def test_coverage_impossible_counts_are_refused(hits: int, n: int, level: float) -> None:
    with pytest.raises(ValueError, match="no coverage"):
        coverage(hits, n, confidence=level)


def test_grade_below_thirty_forecasts_is_withheld() -> None:
    assert grade(23, 29) == "uncalibrated, n<30"
    assert grade(24, 30).startswith("calibrated: 24/30")
    assert grade(15, 30).startswith("overconfident")
    assert grade(60, 60).startswith("underconfident")


def test_score_reports_every_level_and_baseline() -> None:
    found = score(
        point=0.0,
        spread=1.0,
        intervals=INTERVALS,
        baselines={"no_effect": 2.0, "last_scale": 1.1},
        observed=1.0,
    )
    assert found.error == 1.0
    assert found.covered == {"p50": False, "p80": True, "p95": True}
    assert found.interval_score_80 == pytest.approx(2.56)
    assert found.crps == pytest.approx(0.602441356)
    assert found.crps_baselines == pytest.approx({"no_effect": 1.0, "last_scale": 0.1})
    assert found.grade == "uncalibrated, n<30"


def test_score_grade_counts_this_forecast_too() -> None:
    found = score(
        point=0.0, spread=1.0, intervals=INTERVALS, baselines={}, observed=0.0, earlier_80=(23, 29)
    )
    assert found.grade.startswith("calibrated: 24/30")


def test_score_incomplete_or_unfinished_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no interval at \[80\]"):
        score(point=0.0, spread=1.0, intervals={50: (0, 1), 95: (0, 1)}, baselines={}, observed=0.0)
    with pytest.raises(ValueError, match="not finite"):
        score(point=0.0, spread=1.0, intervals=INTERVALS, baselines={}, observed=math.nan)
