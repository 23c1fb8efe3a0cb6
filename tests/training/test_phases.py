"""The schedule is printable step by step, continuous and free of surprises."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

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

FALLS = ("linear_down", "cosine_down", "one_minus_sqrt_down")
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


def test_one_minus_sqrt_decay_falls_with_the_root_of_its_share(make_config):
    """F3: against the formula peak·(1 - (1 - final)·√(i/n)), from the decay's own beginning."""
    down = {"name": "decay", "lr": "one_minus_sqrt_down", "final": 0.1}
    config = with_phases(make_config, 1000, (UP, 0.1), (STABLE, 0.5), (down, 0.4), lr=0.002)
    expected = [0.002 * (1 - 0.9 * math.sqrt(i / 400)) for i in range(1, 401)]
    assert rates(config)[600:] == pytest.approx(expected, rel=1e-12)
    assert rates(config)[599] == 0.002
    assert rates(config)[-1] == pytest.approx(0.0002)


@pytest.mark.parametrize("shape", FALLS)
def test_decay_that_opens_the_run_starts_at_the_peak_and_ends_where_it_says(make_config, shape):
    """F3: any shape."""
    down = {"name": "decay", "lr": shape, "final": 0.25}
    values = rates(with_phases(make_config, 7, (down, 1.0), lr=1.0))
    assert (values[0], values[-1]) == (1.0, pytest.approx(0.25))
    assert values == sorted(values, reverse=True)


def test_prewarm_updates_nothing_and_leaves_the_warm_up_as_it_was(make_config):
    """F1: the steps without updates are named, and the warm-up after them has no zero step."""
    prewarm = {"name": "prewarm", "lr": "none"}
    frozen = {**UP, "frozen": ["router"]}
    config = with_phases(make_config, 20, (prewarm, 0.2), (frozen, 0.25), (STABLE, 0.55))
    assert rates(config)[:4] == [0.0] * 4
    assert rates(config)[4:9] == pytest.approx([0.00016, 0.00032, 0.00048, 0.00064, 0.0008])
    assert [frozen_at(config, step) for step in (1, 4, 5, 9, 10)] == [
        ("all",), ("all",), ("router",), ("router",), ()
    ]  # fmt: skip
    opens_high = with_phases(make_config, 20, (prewarm, 0.2), (DOWN, 0.8), lr=1.0)
    assert rates(opens_high)[4] == 1.0


def test_prewarm_after_a_phase_that_updates_is_refused(make_config):
    prewarm = {"name": "pause", "lr": "none"}
    with pytest.raises(ValueError, match="phase 'pause' has lr none but comes after"):
        with_phases(make_config, 10, (STABLE, 0.5), (prewarm, 0.5))


def test_rate_jumps_only_where_a_phase_declares_it(make_config):
    half = {"name": "decay", "lr": "linear_down", "final": 0.5}
    tail = {"name": "tail", "lr": "constant"}
    again = {"name": "again", "lr": "linear_down", "final": 0.2, "jump": 0.8}
    config = with_phases(make_config, 12, (half, 0.25), (tail, 0.25), (again, 0.5), lr=1.0)
    assert rates(config) == pytest.approx(
        [1.0, 0.75, 0.5, 0.5, 0.5, 0.5, 0.8, 0.68, 0.56, 0.44, 0.32, 0.2]
    )
    assert [step for step in range(2, 13) if is_new_level(config, step)] == [7]
    rise = {"name": "again", "lr": "linear_up", "jump": 0.0}
    config = with_phases(make_config, 8, (half, 0.25), (tail, 0.25), (rise, 0.5), lr=1.0)
    assert rates(config)[4:] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("again", [{"lr": "linear_up"}, {"lr": "constant", "jump": 1.0}])
def test_phase_of_no_steps_makes_no_jump(make_config, again):
    """F1: a rise, or a declared jump, that rounds to no step has not happened."""
    half = {"name": "decay", "lr": "linear_down", "final": 0.5}
    tail = {"name": "tail", "lr": "constant"}
    phases = ((half, 0.5), ({"name": "again", **again}, 0.0), (tail, 0.5))
    assert rates(with_phases(make_config, 4, *phases, lr=1.0)) == [1.0, 0.5, 0.5, 0.5]


def test_phase_that_does_not_jump_is_written_as_before_the_field_existed(make_config):
    assert "jump" not in str(make_config().model_dump(mode="json"))


KIMI_STEPS = (149_254, 82_090)
"""10 T and 5.5 T tokens in steps of 67 M."""


def test_schedule_of_kimi_k2_is_the_published_one(make_config):
    """500 warm-up steps, 2e-4 for 10 T tokens, cosine to 2e-5 over 5.5 T."""
    until, fall = KIMI_STEPS
    steps = until + fall
    cosine = {"name": "decay", "lr": "cosine_down", "final": 0.1}
    phases = ((UP, 500 / steps), (STABLE, (until - 500) / steps), (cosine, fall / steps))
    config = with_phases(make_config, steps, *phases, lr=2e-4)
    at = {row.step: row.lr for row in schedule_rows(config, [1, 500, until, until + 41_045, steps])}
    assert list(at.values()) == pytest.approx([4e-7, 2e-4, 2e-4, 1.1e-4, 2e-5])
    assert [stretch.end for stretch in stretches(config)] == [500, until, steps]


def smollm3(make_config, steps, decay):
    """2,000 warm-up steps and a linear decay to 0 over the last tenth."""
    stable = steps - 2000 - steps // 10
    phases = ((UP, 2000 / steps), (STABLE, stable / steps), (DOWN, decay / steps))
    return with_phases(make_config, steps, *phases, lr=2e-4)


def test_schedule_of_smollm3_is_the_published_one(make_config):
    steps = 4_720_000
    config = smollm3(make_config, steps, steps // 10)
    wanted = [1, 2000, steps - steps // 10, steps - 1, steps]
    found = [row.lr for row in schedule_rows(config, wanted)]
    assert found == pytest.approx([1e-7, 2e-4, 2e-4, 2e-4 / 472_000, 0.0], abs=1e-18)


@pytest.mark.parametrize("more", [1, -1])
def test_decay_that_ends_a_step_off_the_end_is_refused(make_config, more):
    """As published, SmolLM3's decay ends one step past the end."""
    steps = 4_720_000
    with pytest.raises(ValueError, match=f"cover {steps + more} steps, but the run has {steps}"):
        smollm3(make_config, steps, steps // 10 + more)


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


def documented_presets():
    text = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text("utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("preset", documented_presets())
def test_preset_of_the_documentation_is_accepted_and_has_no_zero_step(make_config, preset):
    shares = {"code": 0.2, "docs": 0.8}
    values = YAML(typ="safe").load(preset.replace("docs: 0.6, math: 0.2", "docs: 0.8"))
    config = make_config(steps=200, **values)
    updated = [row for row in schedule_rows(config) if "all" not in row.frozen]
    assert all(row.lr > 0 for row in updated[:-1])
    assert max(row.lr for row in updated) == config.optimizer.lr
    assert mixture_changes(config)[-1][1] in (config.mixture, shares)


def test_documentation_shows_three_presets():
    assert len(documented_presets()) == 3
