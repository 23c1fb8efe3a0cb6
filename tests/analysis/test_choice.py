"""Cases C: a NaN never wins and never equals 0; an infeasible option is never best."""

import math

import pytest

from workbench.analysis.choice import Option, best_option


def option(name: str, value: float | None, *, feasible: bool = True) -> Option:
    return Option(name=name, value=value, feasible=feasible)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_what_is_not_a_finite_value_never_wins(bad: float | None, direction: str) -> None:
    for order in (
        [option("bad", bad), option("good", -5.0)],
        [option("good", 5.0), option("bad", bad)],
    ):
        found = best_option(order, direction)  # type: ignore[arg-type]
        assert found is not None
        assert found.name == "good"


def test_best_option_is_the_best_in_its_direction() -> None:
    options = [option("a", 2.0), option("b", 1.0), option("c", 3.0)]
    assert best_option(options, "minimize") == options[1]
    assert best_option(options, "maximize") == options[2]


def test_infeasible_option_is_never_best() -> None:
    options = [option("best", 0.0, feasible=False), option("worse", 9.0)]
    assert best_option(options, "minimize") == options[1]


def test_none_feasible_is_none() -> None:
    assert (
        best_option([option("a", 1.0, feasible=False), option("b", math.nan)], "minimize") is None
    )
    assert best_option([], "minimize") is None


def test_of_equal_options_the_earlier_is_taken() -> None:
    options = [option("first", 1.0), option("second", 1.0)]
    assert best_option(options, "maximize") == options[0]


def test_unknown_direction_is_refused_even_without_options() -> None:
    with pytest.raises(ValueError, match="direction 'up'"):
        best_option([], "up")  # type: ignore[arg-type]
