"""Spaces: what coordinates make of a simplex, and the way back."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.proxies.conftest import recipe_values
from workbench.proxies.recipe import Recipe, dotted, value_at
from workbench.proxies.recipe_faults import config_keys
from workbench.proxies.space import (
    UNIT_HIGH,
    UNIT_LOW,
    coordinate_names,
    coordinates,
    draw,
)
from workbench.training.config import check_simplex

CONTROL = {
    "mixture": {"code": 0.5, "docs": 0.3, "math": 0.2},
    "balance.weight": 0.01,
    "phase_fractions": {"warmup": 0.1, "stable": 0.6, "decay": 0.3},
    "optimizer.lr": 0.01,
}


class Fixed:
    """Coordinates from a table, or from a generator where there is none."""

    def __init__(self, values: dict, source: random.Random | None = None) -> None:
        self.values = values
        self.source = source
        self.asked: list[str] = []

    def between(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        self.asked.append(name)
        if self.source is not None:
            return self.source.uniform(low, high)
        return self.values[name]

    def one_of(self, name: str, count: int) -> int:
        self.asked.append(name)
        return self.values[name]


def space(**dimensions: dict) -> dict:
    values = recipe_values()
    if dimensions:
        values["space"] = {key.replace("__", "."): value for key, value in dimensions.items()}
    return Recipe.model_validate(values).space


@given(st.lists(st.floats(UNIT_LOW, UNIT_HIGH), min_size=3, max_size=3))
def test_draw_any_coordinates_is_on_the_simplex_above_the_minimum(units: list[float]) -> None:
    names = ("mixture.code", "mixture.docs", "mixture.math")
    values = dict(zip(names, units, strict=True))
    values |= {"balance.weight": 0.01, "phase_fractions.decay": 0.5}
    shares = draw(space(), CONTROL, Fixed(values))["mixture"]
    check_simplex(shares)
    assert min(shares.values()) >= 0.05 - 1e-12


def test_draw_uniform_coordinates_are_uniform_on_the_simplex() -> None:
    """Of Dirichlet(1) over three shares: mean 1/3, variance 1/18, P(share > 1/2) = 1/4."""
    dimension = {"kind": "simplex", "domains": ["code", "docs", "math"]}
    source = Fixed({}, random.Random(3))
    found = [draw(space(mixture=dimension), CONTROL, source)["mixture"] for _ in range(4000)]
    code = [shares["code"] for shares in found]
    average = sum(code) / len(code)
    assert average == pytest.approx(1 / 3, abs=0.012)
    assert sum((c - average) ** 2 for c in code) / len(code) == pytest.approx(1 / 18, rel=0.06)
    assert sum(c > 0.5 for c in code) / len(code) == pytest.approx(0.25, abs=0.025)


def test_draw_phases_leave_the_rest_and_keep_the_others() -> None:
    values = {"mixture.code": 0.5, "mixture.docs": 0.5, "mixture.math": 0.5}
    values |= {"balance.weight": 0.02, "phase_fractions.decay": 0.25}
    found = draw(space(), CONTROL, Fixed(values))
    assert found["phase_fractions"] == {"warmup": 0.1, "stable": pytest.approx(0.65), "decay": 0.25}
    assert found["balance"] == {"weight": 0.02}


def test_draw_rounding_never_makes_a_negative_phase() -> None:
    dimension = {
        "kind": "fractions", "ranges": {"warmup": [0.0, 0.1], "decay": [0.1, 0.9]},
        "rest": "stable",
    }  # fmt: skip
    values = {"phase_fractions.warmup": 0.1, "phase_fractions.decay": 0.9000000000000001}
    shares = draw(space(phase_fractions=dimension), CONTROL, Fixed(values))["phase_fractions"]
    assert shares["stable"] == 0.0
    check_simplex(shares)


def test_draw_choice_and_uniform_take_what_they_are_given() -> None:
    found = draw(
        space(
            optimizer__lr={"kind": "uniform", "low": 0.001, "high": 0.1},
            balance__weight={"kind": "choice", "values": [0.0, 0.01]},
        ),
        CONTROL,
        Fixed({"optimizer.lr": 0.05, "balance.weight": 1}),
    )
    assert found == {"optimizer": {"lr": 0.05}, "balance": {"weight": 0.01}}


def test_coordinates_of_a_point_lead_back_to_it() -> None:
    near = coordinates(space(), CONTROL)
    assert tuple(near) == coordinate_names(space())
    found = draw(space(), CONTROL, Fixed(near))
    assert found["mixture"] == pytest.approx(CONTROL["mixture"], abs=1e-9)
    assert found["balance"]["weight"] == 0.01
    assert found["phase_fractions"] == pytest.approx(CONTROL["phase_fractions"])


def test_coordinates_outside_the_space_are_moved_to_its_edge() -> None:
    point = {
        "mixture": {"code": 1.0},
        "balance.weight": 5.0,
        "phase_fractions": {"warmup": 0.0, "stable": 0.05, "decay": 0.95},
    }
    near = coordinates(space(), point)
    assert near["balance.weight"] == 0.1
    assert near["phase_fractions.decay"] == 0.5
    assert near["mixture.docs"] == UNIT_HIGH
    assert all(math.isfinite(value) for value in near.values())


def test_coordinates_of_a_choice_that_is_not_offered_are_left_out() -> None:
    dimension = {"kind": "choice", "values": [0.001, 0.1]}
    assert coordinates(space(balance__weight=dimension), CONTROL) == {}
    assert coordinates(space(balance__weight=dimension), {"balance.weight": 0.1}) == {
        "balance.weight": 1
    }


BOUNDED = {
    "kind": "simplex",
    "domains": ["code", "docs", "math"],
    "minimum": 0.05,
    "maximum": {"docs": 0.3, "math": 0.4},
}


@given(st.lists(st.floats(UNIT_LOW, UNIT_HIGH), min_size=2, max_size=2))
def test_draw_under_upper_bounds_keeps_them_and_the_simplex(units: list[float]) -> None:
    bounded = space(mixture=BOUNDED)
    assert coordinate_names(bounded) == ("mixture.code", "mixture.docs")
    values = dict(zip(coordinate_names(bounded), units, strict=True))
    shares = draw(bounded, CONTROL, Fixed(values))["mixture"]
    check_simplex(shares)
    assert 0.05 <= shares["docs"] <= 0.3
    assert 0.05 <= shares["math"] <= 0.4
    assert shares["code"] >= 0.3 - 1e-12


def test_coordinates_under_upper_bounds_lead_back_to_the_point() -> None:
    bounded = space(mixture=BOUNDED)
    near = coordinates(bounded, CONTROL)
    assert tuple(near) == coordinate_names(bounded)
    shares = draw(bounded, CONTROL, Fixed(near))["mixture"]
    assert shares == pytest.approx(CONTROL["mixture"], abs=1e-9)


@pytest.mark.parametrize(
    ("maximum", "message"),
    [
        ({"code": 0.3, "docs": 0.3, "math": 0.3}, "the maxima sum to 0.9"),
        ({"code": 0.04}, "maximum 0.04 of 'code' is not above the minimum 0.05"),
        ({"poetry": 0.5}, "poetry"),
        ({"code": 1.5}, "less than or equal to 1"),
    ],
)
def test_bounds_that_leave_nothing_are_refused(maximum: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        space(mixture=BOUNDED | {"maximum": maximum})


def test_options_that_are_off_can_be_searched_and_overridden() -> None:
    """A written configuration leaves them out; the control's value is the one they then have."""
    values = recipe_values()
    values["space"] = {
        "batch.documents": {"kind": "choice", "values": ["joined", "masked"]},
    }
    values["scales"][1]["overrides"]["document_weights"] = {"first": 0.999, "last": 0.992}
    recipe = Recipe.model_validate(values)
    assert recipe.control() == {"batch": {"documents": "joined"}}
    tried = draw(recipe.space, {"batch.documents": "joined"}, Fixed({"batch.documents": 1}))
    config = recipe.at_scale("m", tried)
    assert config.batch.documents == "masked"
    assert dotted(config.model_dump(mode="json"))["document_weights"] == {
        "first": 0.999,
        "last": 0.992,
    }
    assert "document_weights" not in recipe.at_scale("s").model_dump(mode="json")


def test_widths_of_latent_attention_are_overridden_one_by_one() -> None:
    widths = {"kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4}
    keys = {f"model.attention.{name}": width for name, width in widths.items()}
    values = recipe_values()
    base = values["base"]["model"]
    base |= {"qk_norm": False, "num_kv_heads": base["num_heads"]}
    values["scales"][1]["overrides"] |= {"model.attention.kind": "mla", **keys}
    recipe = Recipe.model_validate(values)
    assert value_at(recipe.base.model_dump(mode="json"), "model.attention.kind") == "gqa"
    found = recipe.at_scale("m").model.attention
    assert found.model_dump() == {"kind": "mla", **widths}
    assert set(keys) <= set(config_keys())
