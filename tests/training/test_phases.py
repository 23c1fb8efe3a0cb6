"""The schedule is printable step by step, continuous and free of surprises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.training.config import RunConfig
from workbench.training.phases import (
    balance_weight_at,
    frozen_at,
    is_new_level,
    learning_rate,
    mixture_changes,
    phase_at,
    schedule_rows,
    stretches,
)

UP = {"name": "warmup", "lr": "linear_up"}
STABLE = {"name": "stable", "lr": "constant"}
DOWN = {"name": "decay", "lr": "linear_down", "final": 0.0}


def rates(config: RunConfig) -> list[float]:
    return [learning_rate(config, step) for step in range(1, config.steps + 1)]


def with_phases(make_config, steps, *pairs, lr=0.0008):
    return make_config(
        steps=steps,
        phases=[phase for phase, _ in pairs],
        phase_fractions={phase["name"]: share for phase, share in pairs},
        optimizer__lr=lr,
    )


def test_warmup_of_five_steps_gives_equal_parts_of_the_peak(make_config):
    """F1: no zero step, no off-by-one."""
    config = with_phases(make_config, 10, (UP, 0.5), (STABLE, 0.5))
    assert rates(config)[:5] == pytest.approx([0.00016, 0.00032, 0.00048, 0.00064, 0.0008])
    assert rates(config)[5:] == [0.0008] * 5


def test_decay_of_no_steps_stays_at_the_peak(make_config):
    """F1: no division by zero when the decay is empty."""
    config = with_phases(make_config, 10, (UP, 0.2), (STABLE, 0.8), (DOWN, 0.0))
    assert rates(config)[-1] == 0.0008


def test_warmup_of_no_steps_is_at_the_peak_at_step_one(make_config):
    """F3."""
    config = with_phases(make_config, 10, (UP, 0.0), (STABLE, 0.5), (DOWN, 0.5))
    assert rates(config)[0] == 0.0008


@pytest.mark.parametrize("shape", ["linear_down", "cosine_down"])
def test_decay_leaves_the_peak_continuously_and_reaches_its_final_value(make_config, shape):
    """F3: the decay is relative to its own beginning, not to the absolute step."""
    down = {"name": "decay", "lr": shape, "final": 0.25}
    config = with_phases(make_config, 1000, (UP, 0.1), (STABLE, 0.4), (down, 0.5), lr=1.0)
    values = rates(config)
    assert values[499] == 1.0
    assert 0.99 < values[500] < 1.0
    assert values[-1] == pytest.approx(0.25)


def test_decay_that_opens_the_run_starts_at_the_peak(make_config):
    """F3."""
    config = with_phases(make_config, 5, (DOWN, 1.0), lr=1.0)
    assert rates(config) == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert rates(with_phases(make_config, 1, (DOWN, 1.0), lr=1.0)) == [1.0]


def test_constant_after_a_decay_stays_low_and_a_second_rise_returns_to_the_peak(make_config):
    tail = {"name": "tail", "lr": "constant"}
    again = {"name": "again", "lr": "linear_up"}
    half = {"name": "decay", "lr": "linear_down", "final": 0.5}
    config = with_phases(make_config, 8, (half, 0.25), (tail, 0.25), (again, 0.5), lr=1.0)
    assert rates(config) == [1.0, 0.5, 0.5, 0.5, 0.625, 0.75, 0.875, 1.0]


@given(
    shares=st.tuples(*[st.integers(0, 20)] * 3).filter(any),
    steps=st.integers(1, 200),
    shape=st.sampled_from(["linear_down", "cosine_down"]),
    final=st.floats(0.01, 1),
)
def test_schedule_has_no_zero_and_no_jump(make_config, shares, steps, shape, final):
    """F1 F3: for any fractions, steps and shapes."""
    names = ("warmup", "stable", "decay")
    down = {"name": "decay", "lr": shape, "final": final}
    config = make_config(
        steps=steps,
        phases=[UP, STABLE, down],
        phase_fractions={n: s / sum(shares) for n, s in zip(names, shares, strict=True)},
        optimizer__lr=1.0,
    )
    values = rates(config)
    assert all(0 < value <= 1 for value in values)
    for stretch in stretches(config):
        length = stretch.end - stretch.begin
        for step in range(max(stretch.begin + 1, 2), stretch.end + 1):
            # A cosine falls at most pi/2 times as steeply as the line.
            assert abs(values[step - 1] - values[step - 2]) <= 1.6 / max(length - 1, 1)


def test_rows_agree_with_the_functions_and_cover_every_step(make_config):
    phases = [
        {**UP, "frozen": ["router"], "balance_weight": 0.5},
        {**STABLE, "mixture": {"code": 0.1, "docs": 0.9}},
        DOWN,
    ]
    config = make_config(phases=phases)
    rows = schedule_rows(config)
    assert [row.step for row in rows] == list(range(1, 13))
    for row in rows:
        assert row.lr == learning_rate(config, row.step)
        assert row.phase == phase_at(config, row.step).name
        assert row.balance_weight == balance_weight_at(config, row.step)
        assert row.frozen == frozen_at(config, row.step)
    assert [row.balance_weight for row in rows] == [0.5] * 3 + [0.01] * 9
    assert rows[0].frozen == ("router",)
    assert [step for step in range(2, 13) if is_new_level(config, step)] == [4, 10]
    assert mixture_changes(config) == (
        (1, {"code": 0.5, "docs": 0.5}),
        (4, {"code": 0.1, "docs": 0.9}),
        (10, {"code": 0.5, "docs": 0.5}),
    )


@pytest.mark.parametrize("step", [0, -1, 13])
def test_step_outside_the_run_is_refused(make_config, step):
    with pytest.raises(ValueError, match="not one of 1 to 12"):
        learning_rate(make_config(), step)
