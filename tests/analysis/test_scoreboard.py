"""The scoreboard against its definitions, with what it refuses to say."""

import math

import numpy as np
import pytest

from workbench.analysis.forecasts import crps_normal
from workbench.analysis.scoreboard import Forecasted, band, scoreboard

Z = {50: 0.6745, 80: 1.2816, 95: 1.96}


def forecasted(
    point: float,
    observed: float | None,
    *,
    spread: float = 0.1,
    family: str = "balance",
    metric: str = "loss",
    ratio: float = 20.0,
    baselines: dict[str, float] | None = None,
) -> Forecasted:
    return Forecasted(
        family=family,
        metric=metric,
        extrapolation_ratio=ratio,
        point=point,
        spread=spread,
        intervals={lv: (point - z * spread, point + z * spread) for lv, z in Z.items()},
        baselines={"no_effect": 0.0, "last_scale": 0.5} if baselines is None else baselines,
        observed=observed,
    )


def test_scoreboard_rows_are_all_then_families_then_bands() -> None:
    rows = scoreboard(
        [
            forecasted(1.0, 1.0, family="mixture", ratio=5000.0),
            forecasted(1.0, 1.1, family="balance", ratio=3.0),
            forecasted(1.0, 1.1, family="balance", ratio=30.0),
            forecasted(1.0, 1.1, family="balance", ratio=300.0),
        ]
    )
    assert [row.group for row in rows] == [
        "all", "family balance", "family mixture", "extrapolation up to 10x",
        "extrapolation 10x to 100x", "extrapolation 100x to 1000x", "extrapolation beyond 1000x",
    ]  # fmt: skip
    assert [row.n for row in rows] == [4, 3, 1, 1, 1, 1, 1]


def test_standing_gives_bias_scores_and_skill() -> None:
    row = scoreboard([forecasted(1.0, 1.05), forecasted(1.0, 1.30)])[0]
    assert row.bias == pytest.approx(0.175)
    assert row.standard_bias == pytest.approx(1.75)
    ours = (crps_normal(1.05, 1.0, 0.1) + crps_normal(1.30, 1.0, 0.1)) / 2
    assert row.crps == pytest.approx(ours)
    assert row.skill["no_effect"] == pytest.approx(1 - ours / ((1.05 + 1.30) / 2))
    assert row.skill["last_scale"] == pytest.approx(1 - ours / ((0.55 + 0.80) / 2))
    width = 2 * Z[80] * 0.1
    assert row.interval_score_80 == pytest.approx(width + 10 * (0.3 - Z[80] * 0.1) / 2)
    assert {lv: one.hits for lv, one in row.coverage.items()} == {50: 1, 80: 1, 95: 1}
    assert row.coverage[80].lower == pytest.approx(0.0126, abs=1e-4)
    assert row.coverage[80].upper == pytest.approx(0.9874, abs=1e-4)


def test_few_forecasts_have_no_grade() -> None:
    assert scoreboard([forecasted(1.0, 1.0)] * 29)[0].grade == "uncalibrated, n<30"
    assert scoreboard([forecasted(1.0, 1.0)] * 30)[0].grade.startswith("underconfident: 30/30")


def test_forecast_without_a_result_is_counted_and_is_no_hit() -> None:
    row = scoreboard([forecasted(1.0, 1.0), forecasted(1.0, None)])[0]
    assert (row.n, row.num_unscored, row.coverage[95].n) == (1, 1, 1)
    empty = scoreboard([forecasted(1.0, None)])[0]
    assert (empty.n, empty.coverage, empty.bias, empty.crps, empty.skill) == (0, {}, None, None, {})
    assert empty.standard_bias is None
    assert empty.grade == "uncalibrated, n<30"
    assert scoreboard([])[0].n == 0


def test_errors_of_different_metrics_are_not_averaged() -> None:
    rows = scoreboard(
        [forecasted(1.0, 1.1), forecasted(90.0, 91.0, spread=1.0, metric="tokens", family="x")]
    )
    assert rows[0].metrics == ("loss", "tokens")
    assert (rows[0].bias, rows[0].crps, rows[0].interval_score_80) == (None, None, None)
    assert rows[0].skill == {"last_scale": None, "no_effect": None}
    assert rows[0].standard_bias == pytest.approx(1.0)
    assert rows[0].coverage[95].hits == 2
    assert rows[1].bias == pytest.approx(0.1)


def test_skill_is_over_the_forecasts_that_have_the_baseline() -> None:
    row = scoreboard(
        [
            forecasted(1.0, 1.1, baselines={"no_effect": 0.0, "guess": 1.1}),
            forecasted(1.0, 5.0, baselines={"no_effect": 0.0}),
        ]
    )[0]
    assert row.skill["guess"] is None  # never off, so nothing to be better than
    theirs = 1.1 + 5.0
    ours = crps_normal(1.1, 1.0, 0.1) + crps_normal(5.0, 1.0, 0.1)
    assert row.skill["no_effect"] == pytest.approx(1 - ours / theirs)


def test_forecast_without_spread_has_no_standard_bias() -> None:
    assert scoreboard([forecasted(1.0, 1.1, spread=0.0)])[0].standard_bias is None


def test_calibrated_forecasts_are_graded_calibrated() -> None:
    draws = np.random.default_rng(2).standard_normal(400) * 0.1
    row = scoreboard([forecasted(1.0, 1.0 + float(d)) for d in draws])[0]
    assert row.grade.startswith("calibrated")
    assert row.coverage[95].share == pytest.approx(0.95, abs=0.04)


@pytest.mark.parametrize("ratio", [0.0, -1.0, math.nan, math.inf])
def test_ratio_that_is_none_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="extrapolation ratio"):
        band(ratio)
