"""What a rule is expected to say agrees with closed forms, with exact tests and with itself."""

import numpy as np
import pytest

from workbench.analysis.planning import (
    NUM,
    Nested,
    Outlook,
    ended_at,
    fewest_seeds,
    seed_plan,
    stopped_by,
)
from workbench.analysis.power import outcome_chances
from workbench.analysis.rules import NoiseFloor, Rule, Stopping
from workbench.analysis.simulation import simulate, verdict_rates

FLOOR = NoiseFloor(sd=1.0, num_runs=10)


def rule_of(text: str, alpha: float = 0.05) -> Rule:
    calibrated = "calibrated_t" in text
    return Rule.parse(
        f"{text} alpha {alpha}",
        noise_floor=FLOOR if calibrated else None,
        data_arms=False if calibrated else None,
    )


def outlook(text: str, most: int | None = None) -> Outlook:
    return Outlook.of(rule_of(text), most=most)


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("superior(2) welch_t fixed(5)", 2.0),
        ("superior(2) welch_t fixed(3)", 0.0),
        ("superior_by(1) welch_t fixed(8)", 2.2),
        ("equivalent(2) welch_t fixed(8)", 0.5),
        ("non_inferior(1) welch_t fixed(4)", 0.0),
    ],
)
def test_power_by_simulation_is_that_of_the_closed_form(text: str, true: float) -> None:
    rule = rule_of(text)
    closed = Outlook.of(rule).at(0.01 * true, sd=0.01)
    assert Outlook.of(rule).num is None
    simulated = simulate(rule, Nested(), num=NUM, generator=np.random.default_rng(1))
    rates = verdict_rates(rule, simulated, true=true)
    scaled = outcome_chances(
        rule.claim_kind, rule.margin, true=true, sd=1.0, n=rule.stopping.looks[0], alpha=0.05
    )
    for outcome in ("supported", "refuted", "inconclusive"):
        assert getattr(rates, outcome) == pytest.approx(scaled[outcome], abs=0.01)
    assert closed.mean_seeds == rule.stopping.looks[0]
    assert closed.stopped == {rule.stopping.looks[0]: 1.0}


def test_group_rule_has_the_power_and_seeds_that_are_documented() -> None:
    found = outlook("superior(2) welch_t group(3,5,8)").at(2.0, sd=1.0)
    assert found.power == pytest.approx(0.92, abs=0.02)
    assert found.mean_seeds == pytest.approx(5.4, abs=0.2)
    assert list(found.stopped) == [3, 5, 8]
    assert sum(found.stopped.values()) == pytest.approx(1)
    assert sum(found.chances.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "text", ["welch_t group(3,5,8)", "calibrated_t fixed(5)", "perm_exact group(4,5,8)"]
)
def test_chances_scale_with_the_spread(text: str) -> None:
    one = outlook(f"superior(2) {text}").at(2.0, sd=1.0)
    other = outlook(f"superior(0.02) {text}").at(0.02, sd=0.01)
    assert one.chances == pytest.approx(other.chances, abs=1e-4)
    again = outlook(f"superior(2) {text}").at(2.0, sd=1.0)
    assert again == one


def test_calibrated_rule_gains_over_welchs() -> None:
    calibrated = outlook("superior(2) calibrated_t fixed(3)").at(2.0, sd=1.0)
    assert calibrated.power > outlook("superior(2) welch_t fixed(3)").at(2.0, sd=1.0).power + 0.04


def test_anytime_by_running_sums_is_the_simulated_rule() -> None:
    rule = rule_of("superior(2) paired_t anytime")
    fast = Outlook.of(rule, most=12)
    assert fast.simulated is not None
    slow = simulate(rule, Nested(), num=NUM, generator=np.random.default_rng(20_261_130), most=12)
    assert fast.looks == slow.seeds
    assert np.allclose(fast.simulated.lower, slow.lower)
    assert np.allclose(fast.simulated.upper, slow.upper)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "true"), [(6, 1.0), (8, 1.0), (8, 1.5)])
def test_welchs_bounds_stand_in_for_large_permutation_tests(n: int, true: float) -> None:
    rule = rule_of(f"superior(1.5) perm_exact fixed({n})")
    exact = simulate(rule, Nested(), num=6000, generator=np.random.default_rng(20_261_130))
    wanted = verdict_rates(rule, exact, true=true).supported
    # Of other experiments, whose own standard error is 0.006.
    assert Outlook.of(rule).at(true, sd=1.0).power == pytest.approx(wanted, abs=0.02)


def test_permutation_test_beyond_enumeration_is_given_the_level_that_it_reaches() -> None:
    # 924 splits at 0.0015 leave one of them: 1/924.
    rule = Rule.parse("superior_by(0) perm_exact fixed(6) alpha 0.0015")
    found = Outlook.of(rule).at(3.0, sd=1.0).power
    at = outcome_chances("superior_by", 0.0, true=3.0, sd=1.0, n=6, alpha=1 / 924)
    assert found == pytest.approx(at["supported"], abs=0.01)


def test_detectable_improvement_agrees_with_the_power_of_welchs_t() -> None:
    found = outlook("superior_by(1) welch_t fixed(6)").detectable(power=0.8, sd=1.0)
    assert found is not None
    # With this spread, so far beyond the margin is shown with this power.
    at = outcome_chances("superior_by", 1.0, true=found, sd=1.0, n=6, alpha=0.05)
    assert at["supported"] == pytest.approx(0.8, abs=0.01)


def test_detectable_improvement_of_equivalence_is_how_far_apart_the_arms_may_be() -> None:
    rule = outlook("equivalent(3) paired_t fixed(8)")
    found = rule.detectable(power=0.8, sd=1.0)
    assert found is not None
    assert 1.0 < found < 2.5
    assert rule.at(found, sd=1.0).power >= 0.8 > rule.at(found + 0.05, sd=1.0).power
    assert outlook("equivalent(0.3) paired_t fixed(8)").detectable(power=0.8, sd=1.0) is None


def test_detectable_improvement_of_non_inferiority_may_be_a_loss() -> None:
    found = outlook("non_inferior(3) welch_t fixed(8)").detectable(power=0.8, sd=1.0)
    assert found is not None
    assert -3 < found < 0


@pytest.mark.parametrize(
    "text", ["superior(1) paired_t fixed(5)", "equivalent(1) welch_t group(3,8)"]
)
def test_largest_spread_gives_just_the_power(text: str) -> None:
    rule = outlook(text)
    true = 1.0 if "superior" in text else 0.0
    found = rule.largest_sd(true, power=0.8)
    assert found is not None
    assert rule.at(true, sd=found).power >= 0.8 > rule.at(true, sd=1.05 * found).power


def test_largest_spread_approaches_the_normal_formula() -> None:
    # z(0.95) + z(0.8) = 1.645 + 0.842
    found = outlook("superior_by(0) welch_t fixed(5000)").largest_sd(1.0, power=0.8)
    assert found == pytest.approx(1.0 / ((1.6449 + 0.8416) * (2 / 5000) ** 0.5), rel=3e-3)


def test_largest_spread_of_equivalence_is_stricter_than_one_side() -> None:
    one = outlook("non_inferior(0.01) welch_t fixed(5)").largest_sd(0.0, power=0.8)
    both = outlook("equivalent(0.01) welch_t fixed(5)").largest_sd(0.0, power=0.8)
    assert one is not None
    assert both is not None
    assert 0 < both < one


def test_largest_spread_is_none_where_no_spread_gives_the_power() -> None:
    rule = outlook("superior_by(1) paired_t fixed(5)")
    assert rule.largest_sd(1.0, power=0.8) is None
    assert outlook("superior_by(0) paired_t fixed(5)").largest_sd(0.0, power=0.8) is None


@pytest.mark.parametrize(
    ("text", "sd"),
    [
        ("superior(1) paired_t fixed(3)", 1.0),
        ("superior(1) paired_t fixed(60)", 1.0),
        ("superior(1) welch_t group(3,5,8)", 0.8),
        ("superior(1) calibrated_t group(3,20)", 0.9),
        ("superior(1) perm_exact fixed(4)", 0.6),
        ("superior(1) paired_t anytime", 0.7),
    ],
)
def test_fewest_seeds_have_the_power_and_one_less_has_not(text: str, sd: float) -> None:
    rule = rule_of(text)
    found = fewest_seeds(rule, true=1.0, sd=sd, power=0.8)
    assert found is not None
    powers = []
    for n in (found, found - 1):
        moved = ended_at(rule, n)
        assert moved is not None
        powers.append(Outlook.of(moved, most=n).at(1.0, sd=sd).power)
    assert powers[0] >= 0.8 > powers[1]


def test_fewest_seeds_of_a_group_come_after_its_other_looks() -> None:
    assert fewest_seeds(rule_of("superior(1) welch_t group(3,5,8)"), true=1, sd=0.1, power=0.8) == 6


def test_fewest_seeds_of_welchs_t_are_those_of_the_closed_form() -> None:
    assert fewest_seeds(rule_of("superior(2) welch_t fixed(9)"), true=2, sd=1, power=0.8) == 5


@pytest.mark.parametrize(
    "text",
    [
        "superior(1) paired_t fixed(5)",
        "superior(1) perm_exact fixed(5)",
        "superior(1) paired_t anytime",
        "superior(1) welch_t fixed(5)",
    ],
)
def test_fewest_seeds_beyond_what_may_be_registered_are_none(text: str) -> None:
    assert fewest_seeds(rule_of(text), true=1.0, sd=20.0, power=0.8) is None


def test_rule_is_not_given_looks_that_its_interval_does_not_allow() -> None:
    exact = rule_of("superior(1) perm_exact fixed(5)")
    assert ended_at(exact, 11) is None
    assert ended_at(rule_of("superior(1) welch_t group(3,5,8)"), 5) is None
    anytime = rule_of("superior(1) paired_t anytime")
    assert ended_at(anytime, 7) == anytime
    fixed = stopped_by(anytime, Stopping(kind="fixed", looks=(4,)))
    assert fixed is not None
    assert fixed.text == "superior(1) paired_t fixed(4) alpha 0.05"
    assert stopped_by(exact, Stopping(kind="fixed", looks=(2,))) is None


def test_seed_plan_says_what_a_rule_shows() -> None:
    plans = [
        seed_plan(outlook(f"superior(1) {text}", most), true=2.0, sd=1.0, power=0.8)
        for text, most in (
            ("welch_t group(3,5,8)", None),
            ("welch_t fixed(3)", None),
            ("welch_t fixed(8)", None),
            ("paired_t anytime", 6),
        )
    ]
    assert [plan.stopping for plan in plans] == ["group(3,5,8)", "fixed(3)", "fixed(8)", "anytime"]
    assert [plan.seeds for plan in plans] == [8, 3, 8, 6]
    assert plans[1].power < plans[0].power < plans[2].power
    assert plans[0].mean_seeds < 8 == plans[2].mean_seeds
    effects = [plan.detectable for plan in plans]
    assert effects[2] < effects[0] < effects[1]  # type: ignore[operator]


def test_more_seeds_leave_the_first_ones_as_they_are() -> None:
    few, more = (Nested().draw(3, 2, n, np.random.default_rng(1)) for n in (2, 5))
    assert few.shape == (3, 2, 2)
    assert np.array_equal(few, more[:, :, :2])


@pytest.mark.parametrize("sd", [0.0, -1.0, float("nan")])
def test_no_spread_has_no_chances(sd: float) -> None:
    with pytest.raises(ValueError, match="no chances"):
        outlook("superior(1) welch_t fixed(3)").at(1.0, sd=sd)
