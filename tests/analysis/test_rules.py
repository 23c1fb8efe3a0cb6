"""Rules are read from their registered form, and what no rule can be is refused with its value."""

import math

import pytest

from workbench.analysis.rules import NoiseFloor, Rule, Stopping

FLOOR = NoiseFloor(sd=0.001, num_runs=12)


@pytest.mark.parametrize(
    "text",
    [
        "superior(0.02) welch_t fixed(5) alpha 0.05",
        "superior_by(0.001) paired_t group(3,5,8) alpha 0.025 holm",
        "non_inferior(0) perm_exact fixed(5) alpha 0.01",
        "equivalent(1e-05) paired_t anytime alpha 0.05",
    ],
)
def test_parse_reads_what_text_writes(text: str) -> None:
    assert Rule.parse(text).text == text


def test_parse_fills_every_part() -> None:
    rule = Rule.parse(" superior(2e-2)  welch_t  group(3, 5) alpha 0.1 holm".replace("3, 5", "3,5"))
    assert (rule.claim_kind, rule.margin, rule.interval) == ("superior", 0.02, "welch_t")
    assert (rule.stopping.kind, rule.stopping.looks) == ("group", (3, 5))
    assert (rule.alpha, rule.multiplicity, rule.claim) == (0.1, "holm", "superior(0.02)")


def test_of_reads_a_proposals_fields_with_spaces_between_looks() -> None:
    rule = Rule.of(claim="superior(0.1)", interval="welch_t", stopping="group(3, 5)", alpha=0.05)
    assert rule.stopping.text == "group(3,5)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("better(0.02) welch_t fixed(5) alpha 0.05", r"claim 'better\(0.02\)'"),
        ("superior(-1) welch_t fixed(5) alpha 0.05", r"claim 'superior\(-1\)'"),
        ("superior(nan) welch_t fixed(5) alpha 0.05", "claim"),
        ("superior(1e999) welch_t fixed(5) alpha 0.05", "margin inf"),
        ("superior(0.02) bootstrap fixed(5) alpha 0.05", "interval 'bootstrap'"),
        ("superior(0.02) welch_t until_it_works alpha 0.05", "stopping 'until_it_works'"),
        ("superior(0.02) welch_t fixed(1) alpha 0.05", "2 seeds at least"),
        ("superior(0.02) welch_t group(5) alpha 0.05", "has 1 looks"),
        ("superior(0.02) welch_t group(5,3) alpha 0.05", "must rise"),
        ("superior(0.02) welch_t group(3,3) alpha 0.05", "must rise"),
        ("superior(0.02) welch_t fixed(5) alpha 0.5", "alpha 0.5"),
        ("superior(0.02) welch_t fixed(5) alpha 0", "alpha 0.0"),
        ("superior(0.02) welch_t fixed(5)", "not of the form"),
        ("superior(0.02) welch_t fixed(5) alpha 0.05 bonferroni", "multiplicity 'bonferroni'"),
        ("equivalent(0) welch_t fixed(5) alpha 0.05", "can never be supported"),
        ("superior(0.02) welch_t anytime alpha 0.05", "write interval paired_t"),
        ("superior(0.02) perm_exact fixed(3) alpha 0.04", "smallest p is 0.05"),
        ("superior(0.02) perm_exact group(3,5,8) alpha 0.05", "cannot reach alpha 0.0166667"),
        ("superior(0.02) perm_exact fixed(11) alpha 0.05", "too many splits"),
    ],
)
def test_parse_refuses_with_the_offending_value(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Rule.parse(text)


def test_stopping_of_a_wrong_number_of_looks_is_refused() -> None:
    with pytest.raises(ValueError, match="has 2 looks"):
        Stopping(kind="fixed", looks=(3, 5))
    with pytest.raises(ValueError, match="has 1 looks"):
        Stopping(kind="anytime", looks=(3,))


def test_perm_exact_at_alpha_equal_to_its_smallest_p_is_allowed() -> None:
    assert Rule.parse("superior(0) perm_exact fixed(3) alpha 0.05").look_alpha == 0.05


def test_look_alpha_is_an_equal_share_of_each_group_look_only() -> None:
    assert Rule.parse("superior(0) welch_t group(3,5,8) alpha 0.06").look_alpha == pytest.approx(
        0.02
    )
    assert Rule.parse("superior(0) welch_t fixed(3) alpha 0.06").look_alpha == 0.06
    assert Rule.parse("superior(0) paired_t anytime alpha 0.06").look_alpha == 0.06


def test_looks_up_to_a_number_of_seeds() -> None:
    group = Rule.parse("superior(0) welch_t group(3,5) alpha 0.05")
    assert group.looks_up_to(None) == group.looks_up_to(5) == (3, 5)
    with pytest.raises(ValueError, match="ends at 5 seeds, not 8"):
        group.looks_up_to(8)


def test_anytime_looks_first_where_it_can_show_something() -> None:
    rule = Rule.parse("superior(0) paired_t anytime alpha 0.05")
    assert rule.looks_up_to(5) == (3, 4, 5)
    with pytest.raises(ValueError, match="can show nothing with 2 seeds"):
        rule.looks_up_to(2)
    with pytest.raises(ValueError, match="registered number of seeds"):
        rule.looks_up_to(None)


def test_calibrated_t_needs_a_floor_and_arms_of_the_same_data() -> None:
    text = "superior(0.02) calibrated_t fixed(3) alpha 0.05"
    assert Rule.parse(text, noise_floor=FLOOR, data_arms=False).noise_floor == FLOOR
    with pytest.raises(ValueError, match="differ in their data: spread differs by mixture"):
        Rule.parse(text, noise_floor=FLOOR, data_arms=True)
    with pytest.raises(ValueError, match="must be told"):
        Rule.parse(text, noise_floor=FLOOR)
    with pytest.raises(ValueError, match="needs a measured noise floor"):
        Rule.parse(text, data_arms=False)
    with pytest.raises(ValueError, match="welch_t uses no noise floor"):
        Rule.parse("superior(0.02) welch_t fixed(3) alpha 0.05", noise_floor=FLOOR)


def test_noise_floor_of_values_is_their_spread() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    floor = NoiseFloor.of(values)
    assert floor.sd == pytest.approx(math.sqrt(55 / 6))
    assert (floor.num_runs, floor.degrees_of_freedom) == (10, 9)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([1.0, 2.0] * 4 + [3.0], "9 runs is too uncertain"),
        ([1.0], "1 runs is too uncertain"),
        ([1.0] * 12, "must be finite and positive"),
        ([1.0] * 11 + [math.nan], "finite values"),
    ],
)
def test_noise_floor_that_says_nothing_is_refused(values: list[float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        NoiseFloor.of(values)


def test_permutation_test_of_a_huge_number_of_seeds_is_refused_at_once() -> None:
    """Counting the splits would never end, also for a reader who verifies somebody's log."""
    with pytest.raises(ValueError, match="too many splits"):
        Rule.parse("superior(1) perm_exact fixed(999999999999) alpha 0.05")
