"""Simulated verdicts agree with verdicts one by one, and with what is known of power."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.claims import CLAIM_KINDS, ClaimKind, outcome_of
from workbench.analysis.looks import Comparison, Measured, decide_look
from workbench.analysis.rules import NoiseFloor, Rule
from workbench.analysis.simulation import (
    NormalNoise,
    ResampledNoise,
    simulate,
    verdict_codes,
    verdict_rates,
)

NORMAL = NormalNoise(sd=1.0)
RULE = Rule.parse("superior(1) welch_t fixed(5) alpha 0.05")
NUM = 40
CODES = {"inconclusive": 0, "supported": 1, "refuted": 2}


class Recorded:
    """Noise that was drawn before, so that a test sees what the simulation saw."""

    sd = 1.0

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> np.ndarray:
        return self._values[:num, :arms, :seeds]


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("superior(1) welch_t fixed(5)", None),
        ("superior(2) welch_t group(3,5,8)", None),
        ("equivalent(1.5) paired_t group(3,5)", None),
        ("non_inferior(0.5) perm_exact group(4,5)", None),
        ("superior_by(0.2) paired_t anytime", 8),
    ],
)
def test_rates_are_the_shares_of_verdicts_reached_look_by_look(text: str, most: int | None) -> None:
    rule = Rule.parse(f"{text} alpha 0.05")
    looks = rule.looks_up_to(most)
    values = generator().standard_normal((NUM, 2, looks[-1]))
    simulated = simulate(rule, Recorded(values), num=NUM, generator=generator(), most=most)
    rates = verdict_rates(rule, simulated, true=0.8)
    outcomes, seeds = [], []
    for control, treatment in values:
        for n in looks:
            arms = [
                tuple(Measured(seed_index=i, value=float(v)) for i, v in enumerate(arm[:n]))
                for arm in (control, treatment + 0.8)
            ]
            comparison = Comparison(
                rule=rule, direction="maximize", divergence="arm_void",
                control=arms[0], treatment=arms[1],
            )  # fmt: skip
            look = decide_look(comparison, n, most=most)
            if look.state != "go_on":
                break
        outcomes.append(look.judgement.outcome)
        seeds.append(look.num_seeds)
    for outcome in ("supported", "refuted", "inconclusive", "void"):
        assert getattr(rates, outcome) == outcomes.count(outcome) / NUM
    assert rates.mean_seeds == sum(seeds) / NUM
    assert rates.stopped == tuple(seeds.count(n) / NUM for n in looks)
    assert rates.num == NUM


@given(
    st.sampled_from(CLAIM_KINDS),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.floats(-2, 2),
    st.floats(0, 3),
)
def test_verdict_codes_say_what_outcome_of_says(
    kind: ClaimKind, margin: float, lower: float, width: float
) -> None:
    codes = verdict_codes(
        kind, margin, np.array([lower, np.nan]), np.array([lower + width, np.nan])
    )
    assert codes.tolist() == [CODES[outcome_of(kind, margin, lower, lower + width)], 3]


def test_void_experiments_are_counted() -> None:
    values = np.zeros((4, 2, 5))
    values[0] = np.arange(10.0).reshape(2, 5)
    rates = verdict_rates(
        RULE, simulate(RULE, Recorded(values), num=4, generator=generator()), true=0
    )
    assert rates.void == 0.75


def test_simulation_repeats_exactly_and_serves_other_claims() -> None:
    first, second = (simulate(RULE, NORMAL, num=500, generator=generator(3)) for _ in range(2))
    assert np.array_equal(first.lower, second.lower)
    other = Rule.parse("equivalent(2) welch_t fixed(5) alpha 0.05")
    assert verdict_rates(other, first, true=0).supported > 0.5


@pytest.mark.parametrize(
    "text",
    [
        "superior(1) paired_t fixed(5) alpha 0.05",
        "superior(1) welch_t fixed(6) alpha 0.05",
        "superior(1) welch_t fixed(5) alpha 0.01",
    ],
)
def test_simulation_of_another_rule_is_refused(text: str) -> None:
    simulated = simulate(RULE, NORMAL, num=10, generator=generator())
    with pytest.raises(ValueError, match="says nothing of superior"):
        verdict_rates(Rule.parse(text), simulated, true=0)


def test_calibrated_floor_is_drawn_for_every_experiment() -> None:
    rule = Rule.parse(
        "superior(0) calibrated_t fixed(3) alpha 0.05",
        noise_floor=NoiseFloor(sd=1.0, num_runs=10),
        data_arms=False,
    )
    simulated = simulate(rule, NORMAL, num=400, generator=generator())
    widths = simulated.upper[0] - simulated.lower[0]
    assert len(set(widths.round(9))) == 400


def test_too_few_experiments_are_refused() -> None:
    with pytest.raises(ValueError, match="1 experiments show no rate"):
        simulate(RULE, NORMAL, num=1, generator=generator())


def test_resampled_noise_has_the_wanted_spread_and_one_group_an_experiment() -> None:
    tight, loose = [3.0 + 0.001 * i for i in range(10)], [5.0 + (i % 4) ** 2 for i in range(12)]
    noise = ResampledNoise([tight, loose, [1.0, 2.0], [4.0] * 20], sd=0.5)
    assert noise.num_groups == 2
    drawn = noise.draw(20_000, 2, 4, generator())
    assert drawn.shape == (20_000, 2, 4)
    assert drawn.std() == pytest.approx(0.5, rel=0.02)
    assert drawn.mean() == pytest.approx(0.0, abs=0.01)
    kinds = {
        tuple(sorted({round(float(v), 9) for v in (np.array(g) - np.mean(g)) / np.std(g) * 0.5}))
        for g in (tight, loose)
    }
    for one in drawn[:200]:
        seen = {round(float(v), 9) for v in one.ravel()}
        assert any(seen <= set(kind) for kind in kinds)


def test_resampled_noise_without_enough_repeats_is_refused() -> None:
    with pytest.raises(ValueError, match="no group has 10 repeats that differ"):
        ResampledNoise([[1.0] * 12, [1.0, 2.0]], sd=1.0)
