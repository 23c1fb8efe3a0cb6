"""A look is decided as registered: precedence, void conditions, divergence, and what comes next."""

import itertools
import math
from dataclasses import replace

import pytest

from workbench.analysis.claims import judge
from workbench.analysis.looks import (
    Comparison,
    DivergenceRule,
    Look,
    Measured,
    decide_look,
    judge_by,
)
from workbench.analysis.rules import NoiseFloor, Rule

CONTROL = [3.2801, 3.2790, 3.2812, 3.2795, 3.2804]
BETTER = [3.2701, 3.2699, 3.2715, 3.2702, 3.2698]
LIKE = [3.2797, 3.2793, 3.2806, 3.2800, 3.2799]
FLOOR = NoiseFloor(sd=0.0008, num_runs=12)


def arm(values: list[float | None]) -> tuple[Measured, ...]:
    return tuple(Measured(seed_index=i, value=value) for i, value in enumerate(values))


def comparison(
    text: str,
    control: list[float | None],
    treatment: list[float | None],
    divergence: DivergenceRule = "arm_void",
) -> Comparison:
    floor = FLOOR if "calibrated" in text else None
    return Comparison(
        rule=Rule.parse(f"{text} alpha 0.05", noise_floor=floor, data_arms=False),
        direction="minimize",
        divergence=divergence,
        control=arm(control),
        treatment=arm(treatment),
    )


def state(look: Look) -> tuple[str, int | None, str]:
    return look.state, look.next_seeds, look.judgement.outcome


def test_fixed_look_is_final_and_says_what_judge_says() -> None:
    look = decide_look(comparison("superior(0.002) welch_t fixed(5)", CONTROL, BETTER), 5)
    assert state(look) == ("final", None, "supported")
    assert look.judgement == judge(
        CONTROL, BETTER, direction="minimize", claim_kind="superior", margin=0.002, alpha=0.05
    )


def test_group_look_stops_early_with_its_share_of_alpha() -> None:
    found = comparison("superior(0.002) welch_t group(3,5,8)", CONTROL[:3], BETTER[:3])
    look = decide_look(found, 3)
    assert state(look) == ("stop", None, "supported")
    assert look.judgement.alpha == pytest.approx(0.05 / 3)
    alone = judge(
        CONTROL[:3], BETTER[:3], direction="minimize", claim_kind="superior", margin=0.002,
        alpha=0.05 / 3,
    )  # fmt: skip
    assert look.judgement == alone


def test_group_look_that_shows_nothing_goes_on_to_the_next() -> None:
    look = decide_look(comparison("superior(0.002) welch_t group(3,5)", CONTROL[:3], LIKE[:3]), 3)
    assert (look.number, *state(look)) == (1, "go_on", 5, "inconclusive")
    last = decide_look(comparison("superior(0.0005) welch_t group(3,5)", CONTROL, LIKE), 5)
    assert (last.number, *state(last)) == (2, "final", None, "inconclusive")


def test_group_look_refutes_before_it_supports() -> None:
    """A real effect that is too small to matter does not support ``superior``."""
    small = [value - 0.0015 for value in CONTROL]
    small[0] -= 0.00001
    look = decide_look(comparison("superior(0.01) paired_t group(5,8)", CONTROL, small), 5)
    assert state(look) == ("stop", None, "refuted")
    assert look.judgement.lower is not None
    assert look.judgement.lower > 0


def test_anytime_goes_on_until_the_registered_number_of_seeds() -> None:
    rule = "superior(0.0005) paired_t anytime"
    first = decide_look(comparison(rule, CONTROL[:3], LIKE[:3]), 3, most=5)
    assert state(first) == ("go_on", 4, "inconclusive")
    last = decide_look(comparison(rule, CONTROL, LIKE), 5, most=5)
    assert (last.number, *state(last)) == (3, "final", None, "inconclusive")
    won = decide_look(comparison(rule, CONTROL[:4], BETTER[:4]), 4, most=5)
    assert state(won) == ("stop", None, "supported")


def test_a_look_between_the_registered_ones_is_refused() -> None:
    with pytest.raises(ValueError, match=r"does not look at 4 seeds, only at \[3, 5\]"):
        decide_look(comparison("superior(0) welch_t group(3,5)", CONTROL[:4], LIKE[:4]), 4)


def test_values_beyond_the_look_are_refused() -> None:
    with pytest.raises(ValueError, match=r"control has seeds \[3, 4\]"):
        decide_look(comparison("superior(0) welch_t group(3,5)", CONTROL, LIKE), 3)


def test_two_values_of_one_seed_are_refused() -> None:
    twice = comparison("superior(0) welch_t fixed(5)", CONTROL, LIKE)
    twice = replace(twice, treatment=(*twice.treatment[:4], twice.treatment[0]))
    with pytest.raises(ValueError, match="treatment has two values of one seed"):
        decide_look(twice, 5)


def test_a_missing_seed_voids_and_keeps_the_estimate() -> None:
    look = decide_look(comparison("superior(0) welch_t group(5,8)", CONTROL[:4], BETTER), 5)
    assert state(look) == ("stop", None, "void")
    assert look.judgement.reason == "control is without its seed 4"
    assert look.judgement.estimate is not None
    assert look.judgement.lower is look.judgement.upper is None


def test_every_reason_of_a_void_is_given() -> None:
    treatment: list[float | None] = [math.nan, None, 3.27]
    look = decide_look(comparison("superior(0) welch_t fixed(5)", CONTROL, treatment), 5)
    assert look.judgement.reason == (
        "treatment is without its seeds 3, 4; seed 1 of treatment diverged, and the rule is "
        "arm_void; 1 of 2 treatment values are not finite"
    )


def test_all_missing_seeds_are_named_at_once() -> None:
    found = comparison("superior(0) welch_t fixed(5)", CONTROL[:3], BETTER[:4])
    assert decide_look(found, 5).judgement.reason == (
        "control is without its seeds 3, 4; treatment is without its seed 4"
    )


@pytest.mark.parametrize("interval", ["welch_t", "paired_t", "calibrated_t", "perm_exact"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_voids(interval: str, value: float) -> None:
    """Cases C, NaN: it never wins and never counts as 0."""
    treatment = [*BETTER[:4], value]
    look = decide_look(comparison(f"superior(0) {interval} fixed(5)", CONTROL, treatment), 5)
    assert look.judgement.outcome == "void"
    assert look.judgement.reason == "1 of 5 treatment values are not finite"
    assert look.judgement.estimate is None


@pytest.mark.parametrize("interval", ["welch_t", "paired_t", "calibrated_t", "perm_exact"])
def test_no_variation_voids(interval: str) -> None:
    look = decide_look(comparison(f"superior(0) {interval} fixed(3)", [3.28] * 3, [3.27] * 3), 3)
    assert look.judgement.outcome == "void"
    assert "no variation" in look.judgement.reason


def test_pairs_that_all_differ_by_the_same_void() -> None:
    shifted = [value + 0.25 for value in (1.0, 2.0, 3.5)]
    look = decide_look(comparison("superior(0) paired_t fixed(3)", [1.0, 2.0, 3.5], shifted), 3)
    assert look.judgement.outcome == "void"
    assert look.judgement.reason.startswith("no variation of the differences")
    assert look.judgement.estimate == pytest.approx(-0.25)


def test_a_diverged_run_voids_under_arm_void() -> None:
    treatment = [*BETTER[:4], None]
    look = decide_look(comparison("superior(0) welch_t fixed(5)", CONTROL, treatment), 5)
    assert look.judgement.outcome == "void"
    assert look.judgement.reason == "seed 4 of treatment diverged, and the rule is arm_void"


def test_a_diverged_run_is_left_out_under_exclude() -> None:
    treatment: list[float | None] = [*BETTER[:4], None]
    rule = "superior(0.002) {} fixed(5)"
    welch = decide_look(comparison(rule.format("welch_t"), CONTROL, treatment, "exclude"), 5)
    assert (welch.judgement.n_control, welch.judgement.n_treatment) == (5, 4)
    assert welch.judgement.outcome == "supported"
    paired = decide_look(comparison(rule.format("paired_t"), CONTROL, treatment, "exclude"), 5)
    assert (paired.judgement.n_control, paired.judgement.n_treatment) == (4, 4)
    assert paired.judgement.estimate == pytest.approx(
        sum(c - t for c, t in zip(CONTROL[:4], BETTER[:4], strict=True)) / 4
    )


def test_too_few_left_after_exclusion_voids() -> None:
    treatment: list[float | None] = [3.27, None, None]
    look = decide_look(
        comparison("superior(0) welch_t fixed(3)", CONTROL[:3], treatment, "exclude"), 3
    )
    assert look.judgement.reason == "treatment has 1 value(s); an interval needs at least 2"


def test_exclusion_below_what_a_permutation_test_can_show_is_inconclusive() -> None:
    treatment: list[float | None] = [3.17, 3.18, None]
    look = decide_look(
        comparison("superior(0) perm_exact fixed(3)", CONTROL[:3], treatment, "exclude"), 3
    )
    assert state(look) == ("final", None, "inconclusive")
    assert look.judgement.lower is look.judgement.upper is None


def test_calibrated_rule_says_when_its_guard_put_welchs_interval_in_its_place() -> None:
    rule = "superior(0.002) calibrated_t fixed(5)"
    calm = decide_look(comparison(rule, CONTROL, BETTER), 5).judgement
    assert (calm.interval, calm.degrees_of_freedom, calm.outcome) == (
        "calibrated_t",
        19,
        "supported",
    )
    wild = [3.26, 3.30, 3.20, 3.34, 3.28]
    judged = decide_look(comparison(rule, CONTROL, wild), 5).judgement
    assert judged.interval == "welch_t"
    by_welch = judge(
        CONTROL, wild, direction="minimize", claim_kind="superior", margin=0.002, alpha=0.05
    )
    assert judged.lower == pytest.approx(by_welch.lower)


def test_pairs_of_unequal_length_are_refused() -> None:
    rule = Rule.parse("superior(0) paired_t fixed(3) alpha 0.05")
    with pytest.raises(ValueError, match="pairs of 3 and 2 values"):
        judge_by(rule, [1.0, 2.0, 3.0], [1.0, 2.5], direction="minimize", alpha=0.05)


@pytest.mark.parametrize("interval", ["welch_t", "paired_t", "calibrated_t", "perm_exact"])
@pytest.mark.parametrize("claim", ["superior", "superior_by", "non_inferior", "equivalent"])
def test_the_mirrored_direction_gives_the_same(interval: str, claim: str) -> None:
    one = comparison(f"{claim}(0.001) {interval} fixed(5)", CONTROL, LIKE)
    other = replace(
        one,
        direction="maximize",
        control=arm([-value for value in CONTROL]),
        treatment=arm([-value for value in LIKE]),
    )
    first, second = decide_look(one, 5).judgement, decide_look(other, 5).judgement
    assert first.outcome == second.outcome
    assert first.lower == pytest.approx(second.lower, abs=1e-12)
    assert first.upper == pytest.approx(second.upper, abs=1e-12)


@pytest.mark.parametrize("interval", ["welch_t", "paired_t", "perm_exact"])
def test_the_order_of_seeds_does_not_matter(interval: str) -> None:
    found = comparison(f"superior(0.001) {interval} fixed(5)", CONTROL, LIKE)
    expected = decide_look(found, 5).judgement
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 23):
        shuffled = replace(found, control=tuple(found.control[i] for i in order))
        assert decide_look(shuffled, 5).judgement == expected


@pytest.mark.parametrize("rule", ["paired_t fixed(3)", "paired_t anytime"])
def test_pairs_that_differ_by_the_same_but_for_rounding_are_void(rule: str) -> None:
    found = judge_by(
        Rule.parse(f"superior(0.02) {rule} alpha 0.05"),
        [1.1, 2.3, 3.7],
        [0.8, 2.0, 3.4],
        direction="minimize",
        alpha=0.05,
    )
    assert (found.outcome, found.lower) == ("void", None)
    assert "no variation of the differences" in found.reason
