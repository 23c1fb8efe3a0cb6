"""Holm over p-values, and the same by bounds over any interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.families import decide_family, holm
from workbench.analysis.looks import Comparison, Measured, decide_look
from workbench.analysis.rules import Rule

RULE = "superior(0.5) welch_t fixed(5) alpha 0.05 holm"


def member(effect: float, seed: int, text: str = RULE, n: int = 5) -> Comparison:
    generator = np.random.default_rng(seed)
    arms = [
        tuple(
            Measured(seed_index=i, value=float(v))
            for i, v in enumerate(generator.standard_normal(n) + shift)
        )
        for shift in (0, effect)
    ]
    return Comparison(
        rule=Rule.parse(text), direction="maximize", divergence="arm_void",
        control=arms[0], treatment=arms[1],
    )  # fmt: skip


def p_of_support(one: Comparison) -> float:
    """The α at which the lower bound touches 0, by bisection."""
    low, high = 1e-9, 0.499
    for _ in range(60):
        middle = (low + high) / 2
        look = decide_look(one, 5, share=middle / one.rule.alpha).judgement
        low, high = (low, middle) if look.lower is not None and look.lower > 0 else (middle, high)
    return high


def test_holm_rejects_step_by_step() -> None:
    # 0.01 <= .05/4, 0.015 <= .05/3, 0.03 > .05/2: the step-down ends there.
    assert holm([0.03, 0.01, 0.04, 0.015], 0.05) == [False, True, False, True]
    assert holm([0.02, 0.02, 0.02], 0.05) == [False] * 3
    assert holm([0.012, 0.02, 0.05], 0.05) == [True] * 3
    assert holm([], 0.05) == []


@pytest.mark.parametrize("p", [math.nan, -0.1, 1.1])
def test_holm_refuses_what_is_no_p_value(p: float) -> None:
    with pytest.raises(ValueError, match="are no p-values"):
        holm([0.01, p], 0.05)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_its_definition(p_values: list[float]) -> None:
    expected = [False] * len(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for step, place in enumerate(order):
        if p_values[place] > 0.05 / (len(p_values) - step):
            break
        expected[place] = True
    assert holm(p_values, 0.05) == expected


@pytest.mark.parametrize("seed", range(8))
def test_family_supports_what_holm_rejects(seed: int) -> None:
    effects = (0.0, 1.0, 2.0, 3.0)
    members = {str(e): member(e, 10 * seed + i) for i, e in enumerate(effects)}
    looks = decide_family(members, 5)
    rejected = holm([p_of_support(one) for one in members.values()], 0.05)
    supported = {name: look.judgement.outcome == "supported" for name, look in looks.items()}
    for (name, look), hit in zip(looks.items(), rejected, strict=True):
        if look.judgement.outcome != "refuted":
            assert supported[name] == hit


def test_family_bounds_agree_with_the_outcome_and_level() -> None:
    members = {"big": member(4.0, 1), "bigger": member(6.0, 2), "none": member(0.2, 3)}
    looks = decide_family(members, 5)
    assert [look.judgement.outcome for look in looks.values()] == [
        "supported", "supported", "inconclusive",
    ]  # fmt: skip
    # Two of three shown at once, at α/3; refutation stays at α/3 (nothing refuted).
    assert looks["big"].judgement.alpha == pytest.approx(0.05 / 3)
    assert looks["bigger"].judgement.alpha == pytest.approx(0.05 / 3)
    assert looks["none"].judgement.alpha == pytest.approx(0.05 / 3)
    for look in looks.values():
        assert look.judgement.lower is not None
        assert (look.judgement.lower > 0) == (look.judgement.outcome == "supported")


def test_family_shows_all_and_its_bounds_keep_the_level_of_their_step() -> None:
    looks = decide_family({"big": member(4.0, 1), "bigger": member(6.0, 2)}, 5)
    assert [look.judgement.alpha for look in looks.values()] == [pytest.approx(0.025)] * 2


def test_family_refutes_at_its_own_level() -> None:
    looks = decide_family({"bad": member(-6.0, 4), "none": member(0.3, 5)}, 5)
    assert looks["bad"].judgement.outcome == "refuted"
    assert looks["bad"].judgement.alpha == pytest.approx(0.025)
    assert looks["none"].judgement.outcome == "inconclusive"
    assert looks["none"].judgement.alpha == pytest.approx(0.025)


def test_one_member_is_judged_as_alone() -> None:
    one = member(2.0, 6)
    assert decide_family({"only": one}, 5)["only"] == decide_look(one, 5, share=1.0)


def test_claim_of_a_family_is_not_decided_alone() -> None:
    with pytest.raises(ValueError, match="decided with the others"):
        decide_look(member(2.0, 6), 5)


def test_void_member_still_counts_in_the_size() -> None:
    whole = member(6.0, 7)
    torn = Comparison(
        rule=whole.rule, direction="maximize", divergence="arm_void",
        control=whole.control[:4], treatment=whole.treatment,
    )  # fmt: skip
    looks = decide_family({"whole": whole, "torn": torn}, 5)
    assert looks["torn"].judgement.outcome == "void"
    assert looks["whole"].judgement == decide_look(whole, 5, share=0.5).judgement
    weak = decide_family({"weak": member(0.3, 5), "torn": torn}, 5)["weak"].judgement
    assert (weak.outcome, weak.alpha) == ("inconclusive", pytest.approx(0.025))


def test_family_of_anytime_rules_without_bounds_goes_on() -> None:
    text = "superior(0.5) paired_t anytime alpha 0.05 holm"
    members = {str(i): member(3.0, i, text, n=3) for i in range(3)}
    looks = decide_family(members, 3, most=8)
    assert {(look.state, look.judgement.lower) for look in looks.values()} == {("go_on", None)}


def test_family_of_unlike_or_unregistered_members_is_refused() -> None:
    alone = member(1.0, 1, "superior(0.5) welch_t fixed(5) alpha 0.05")
    with pytest.raises(ValueError, match=r"\['alone'\] were not registered with multiplicity holm"):
        decide_family({"alone": alone}, 5)
    other = member(1.0, 1, "superior(0.5) welch_t fixed(5) alpha 0.01 holm")
    with pytest.raises(ValueError, match="share one alpha"):
        decide_family({"one": member(1.0, 1), "other": other}, 5)


def test_family_that_a_permutation_test_cannot_reach_is_refused() -> None:
    text = "superior(0.5) perm_exact fixed(3) alpha 0.05 holm"
    with pytest.raises(ValueError, match=r"in a family of 2: its smallest p is 0.05"):
        decide_family({"a": member(1.0, 1, text, n=3), "b": member(1.0, 2, text, n=3)}, 3)


def test_family_of_the_two_sided_claim_stays_consistent() -> None:
    text = "equivalent(2) welch_t fixed(5) alpha 0.05 holm"
    members = {str(e): member(e, i, text) for i, e in enumerate((0.0, 0.1, 9.0))}
    looks = decide_family(members, 5)
    assert [look.judgement.outcome for look in looks.values()][2] == "refuted"


@pytest.mark.slow
def test_family_wise_error_is_held() -> None:
    """Four claims without effect: any false support in at most 5 % of families."""
    wrong = 0
    for seed in range(600):
        members = {str(i): member(0.0, 1000 + 4 * seed + i) for i in range(4)}
        looks = decide_family(members, 5)
        wrong += any(look.judgement.outcome == "supported" for look in looks.values())
    assert wrong / 600 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)
