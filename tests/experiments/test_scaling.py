"""From the proxy's configuration to full scale."""

import math
from typing import Any

import pytest

from tests.labs import RECIPE
from workbench.experiments.scaling import follows, key_changes, power
from workbench.proxies.recipe import nested, with_values
from workbench.registry.proposal import ScalingRule
from workbench.training.config import RunConfig

PROXY = RunConfig.model_validate(RECIPE["base"])


def grown(**dotted: Any) -> RunConfig:
    return with_values(PROXY, nested({key.replace("__", "."): v for key, v in dotted.items()}))


def law(key: str, of: str, exponent: float) -> ScalingRule:
    return ScalingRule(key=key, rule="power", of=of, exponent=exponent, why="theory")


def test_key_changes_equal_configurations_have_none() -> None:
    assert key_changes(PROXY, PROXY, [law("steps", "model.d_model", 1.0)]) == []


def test_key_changes_without_a_rule_is_a_deviation() -> None:
    (change,) = key_changes(PROXY, grown(steps=12), [])
    assert (change.key, change.proxy, change.full, change.deviation) == ("steps", 6, 12, True)
    assert "no scaling rule" in change.explained_by


def test_key_changes_with_a_registered_value_gives_the_reason() -> None:
    rule = ScalingRule(key="steps", rule="registered", why="what the compute allows")
    (change,) = key_changes(PROXY, grown(steps=12), [rule])
    assert not change.deviation
    assert "what the compute allows" in change.explained_by


@pytest.mark.parametrize(
    ("lr", "deviation"),
    [(1e-4 / math.sqrt(2), False), (7.071e-5, False), (7.07e-5, False), (7e-5, True), (1e-3, True)],
)
def test_key_changes_power_rule_holds_up_to_rounding(lr: float, deviation: bool) -> None:
    full = grown(model__d_model=16, optimizer__lr=lr)
    rules = [
        ScalingRule(key="model.d_model", rule="registered", why="w"),
        law("optimizer.lr", "model.d_model", -0.5),
    ]
    found = {change.key: change for change in key_changes(PROXY, full, rules)}
    assert not found["model.d_model"].deviation
    assert found["optimizer.lr"].deviation is deviation
    assert "model.d_model ratio 2" in found["optimizer.lr"].explained_by


def test_key_changes_whole_number_follows_its_law_rounded() -> None:
    full = grown(model__d_model=16, steps=8)
    rules = [
        ScalingRule(key="model.d_model", rule="registered", why="w"),
        law("steps", "model.d_model", 0.4),  # 6 × 2^0.4 = 7.917
    ]
    assert not any(change.deviation for change in key_changes(PROXY, full, rules))


def test_key_changes_mixture_is_compared_value_by_value() -> None:
    before = grown(mixture={"code": 0.5, "docs": 0.5})
    after = grown(mixture={"code": 0.6, "docs": 0.4})
    changes = key_changes(before, after, [])
    assert changes
    assert all(change.key.startswith("mixture") for change in changes)
    assert all(change.deviation for change in changes)


def test_power_that_no_double_holds_is_nan_and_follows_nothing() -> None:
    assert power(2.0, 4.0, 0.5) == 4.0
    for value in (power(2.0, 1e300, 2.0), power(2.0, -1.0, 0.5), power(1.0, 0.0, -1.0)):
        assert math.isnan(value)
        assert not follows(1.0, value, whole=False)
        assert not follows(1.0, value, whole=True)
