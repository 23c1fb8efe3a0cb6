"""Forecasts from a ladder: targets, scales, compute, baselines."""

import dataclasses
import math

import pytest

from tests.proxies.test_selection import runs
from workbench.analysis.extrapolation import LEVELS
from workbench.errors import RunFailedError
from workbench.planner.counts import training_flops_per_token
from workbench.proxies.forecast import ForecastRequest, forecasts
from workbench.proxies.recipe import Recipe, with_values
from workbench.registry.entries import Forecast, ProxyRun


@pytest.fixture
def request_(recipe: Recipe) -> ForecastRequest:
    return ForecastRequest(
        mode="confirmatory",
        metric="bpb_macro",
        direction="minimize",
        method="power_law",
        candidate="trial-04",
        full=with_values(recipe.base, {"model": {"d_model": 32}, "steps": 100}),
        num_seeds=3,
        expected_improvement=0.05,
    )


@pytest.fixture
def ladder(recipe: Recipe) -> list[ProxyRun]:
    small = {"scale": "s", "tokens": 160}
    medium = {"scale": "m", "tokens": 320}
    return [
        *runs("control", 2.50, 2.52, **small),
        *runs("control", 2.20, 2.23, **medium),
        *runs("trial-04", 2.40, 2.42, **small),
        *runs("trial-04", 2.10, 2.12, **medium),
        *runs("trial-09", 9.0, 9.0, **medium),
    ]


def by_target(found: tuple[Forecast, ...]) -> dict[str, Forecast]:
    return {forecast.target: forecast for forecast in found}


def test_forecasts_name_three_targets_and_their_sources(request_, recipe, ladder) -> None:
    found = by_target(forecasts(request_, recipe, ladder))
    assert list(found) == ["control", "treatment", "improvement"]
    treatment = found["treatment"]
    assert treatment.metric == "bpb_macro"
    assert [p.scale for p in treatment.scales] == ["s", "m"]
    assert [p.n for p in treatment.scales] == [2, 2]
    assert treatment.scales[1].mean == pytest.approx(2.11)
    config = recipe.at_scale("m")
    expected = training_flops_per_token(config.model, 8) * 320
    assert treatment.scales[1].compute_flops == expected
    full = training_flops_per_token(request_.full.model, 8) * 100 * 16
    assert treatment.extrapolation_ratio == pytest.approx(full / expected)
    assert [i.level for i in treatment.intervals] == list(LEVELS)
    assert treatment.point < 2.11
    assert found["improvement"].point == pytest.approx(found["control"].point - treatment.point)


def test_forecasts_are_shown_beside_their_baselines(request_, recipe, ladder) -> None:
    found = by_target(forecasts(request_, recipe, ladder))
    assert found["improvement"].baselines == {
        "no_effect": 0.0,
        "last_scale": pytest.approx(0.105, abs=1e-4),
        "proposer": 0.05,
    }
    assert found["treatment"].baselines["no_effect"] == found["control"].point
    assert found["control"].baselines == {"last_scale": pytest.approx(2.215, abs=1e-4)}
    means = [p.mean for p in found["improvement"].scales]
    assert means == [pytest.approx(0.10), pytest.approx(0.105)]
    assert found["improvement"].scales[0].sd == pytest.approx(0.02)


def test_forecasts_last_scale_method_repeats_the_largest_proxy(request_, recipe, ladder) -> None:
    request_ = dataclasses.replace(request_, method="last_scale")
    found = by_target(forecasts(request_, recipe, ladder))
    assert found["treatment"].point == pytest.approx(2.11, abs=1e-4)
    assert found["treatment"].method == "last_scale"


def test_forecasts_leave_out_what_did_not_complete(request_, recipe, ladder) -> None:
    ladder = [*ladder, *runs("trial-04", None, math.nan, scale="m", tokens=320)]
    found = by_target(forecasts(request_, recipe, ladder))
    assert found["treatment"].scales[1].n == 2


def test_forecasts_go_into_the_ledger_as_they_are(request_, recipe, ladder) -> None:
    for forecast in forecasts(request_, recipe, ladder):
        assert Forecast.model_validate(forecast.to_json()) == forecast


def test_forecasts_from_one_scale_are_refused(request_, recipe, ladder) -> None:
    with pytest.raises(RunFailedError, match="two scales"):
        forecasts(request_, recipe, [run for run in ladder if run.scale == "s"])


def test_forecasts_difference_only_where_both_arms_have_a_scale(request_, recipe, ladder) -> None:
    three = recipe.model_copy(
        update={"scales": (*recipe.scales, recipe.scales[1].model_copy(update={"name": "l"}))}
    )
    ladder = [*ladder, *runs("control", 2.0, scale="l", tokens=640)]
    found = by_target(forecasts(request_, three, ladder))
    assert [p.scale for p in found["control"].scales] == ["s", "m", "l"]
    assert [p.scale for p in found["improvement"].scales] == ["s", "m"]
    assert found["control"].scales[2].sd is None
