"""An explanation says three things, and its thresholds really change the verdict."""

import re
from dataclasses import replace

import pytest

from workbench.analysis.claims import Judgement
from workbench.analysis.explanation import explain, turning_points
from workbench.analysis.looks import judge_by
from workbench.analysis.rules import NoiseFloor, Rule

CONTROL = [3.2801, 3.2790, 3.2812, 3.2795, 3.2804]
BETTER = [3.2701, 3.2699, 3.2715, 3.2702, 3.2698]
CLAIMS = [
    "superior(0.002)",
    "superior(0)",
    "superior_by(0.002)",
    "non_inferior(0.002)",
    "equivalent(0.002)",
    "equivalent(0.0001)",
]
INTERVALS = ["welch_t", "paired_t", "perm_exact"]


def judged(rule: Rule, shift: float = 0.0) -> Judgement:
    treatment = [value - shift for value in BETTER]
    return judge_by(rule, CONTROL, treatment, direction="minimize", alpha=0.05)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_turning_points_change_the_verdict(claim: str, interval: str) -> None:
    rule = Rule.parse(f"{claim} {interval} fixed(5) alpha 0.05")
    base = judged(rule)
    assert base.estimate is not None
    edges = turning_points(rule, base)
    assert edges
    step = 1e-6
    for edge in edges:
        below = judged(rule, edge - step - base.estimate).outcome
        above = judged(rule, edge + step - base.estimate).outcome
        assert below != above


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("shift", [-0.02, -0.0095, -0.0085, 0.0])
def test_sentences_never_offer_the_outcome_that_was_given(
    claim: str, interval: str, shift: float
) -> None:
    rule = Rule.parse(f"{claim} {interval} fixed(5) alpha 0.05")
    found = judged(rule, shift)
    text = explain(rule, found, metric="bits_per_byte")
    assert found.outcome in text.seen
    words = {"supported": "have supported", "refuted": "have refuted", "inconclusive": "be open"}
    assert words[found.outcome] not in text.otherwise
    assert str(text).count(". ") == 2
    assert "bits_per_byte" in text.claimed


def test_explanation_reads_as_three_sentences() -> None:
    rule = Rule.parse("superior(0.002) welch_t fixed(5) alpha 0.05")
    assert str(explain(rule, judged(rule), metric="loss")) == (
        "Claimed was that the treatment's loss is better than the control's by enough to matter, "
        "0.002 (rule: superior(0.002) welch_t fixed(5) alpha 0.05, alpha on each side). "
        "Seen was an improvement of +0.00974 from 5 control and 5 treatment seeds, at least "
        "+0.008829 and at most +0.01065 by Welch's t at alpha 0.05 each: supported. "
        "With this spread and these seeds, an improvement below +0.001089 would have refuted it."
    )


def test_explanation_of_a_void_verdict_gives_the_reason() -> None:
    rule = Rule.parse("superior(0) welch_t fixed(2) alpha 0.05")
    void = judge_by(rule, [1.0, float("nan")], [1.0, 2.0], direction="minimize", alpha=0.05)
    text = explain(rule, void, metric="loss")
    assert text.seen == (
        "Seen was no improvement that could be told, from 2 control and 2 treatment seeds: void "
        "(1 of 2 control values are not finite)."
    )
    assert text.otherwise.startswith("Only complete, finite and varying values")
    still = judge_by(rule, [1.0, 1.0], [0.5, 0.5], direction="minimize", alpha=0.05)
    assert "improvement of +0.5 from" in explain(rule, still, metric="loss").seen
    assert " at least " not in explain(rule, still, metric="loss").seen


def test_explanation_of_a_breached_guardrail() -> None:
    rule = Rule.parse("superior(0.002) welch_t fixed(5) alpha 0.05")
    text = explain(rule, judged(rule), metric="loss", breached=("code_loss", "math_loss"))
    assert "with code_loss and math_loss breached: refuted by the breach." in text.seen
    assert text.otherwise == "Without the breach it would have been supported."
    open_still = replace(judged(rule), outcome="inconclusive")
    assert "with code_loss breached: inconclusive." in explain(
        rule, open_still, metric="loss", breached=("code_loss",)
    ).seen  # fmt: skip


def test_explanation_without_bounds_says_so() -> None:
    rule = Rule.parse("superior(0) paired_t anytime alpha 0.05")
    found = judge_by(rule, [1.0, 2.0], [0.5, 1.0], direction="minimize", alpha=0.05)
    text = explain(rule, found, metric="loss")
    assert "no lower bound and no upper bound by the anytime t" in text.seen
    assert turning_points(rule, found) == []
    assert text.otherwise.startswith("More seeds would give bounds")


def test_claim_of_a_family_has_no_single_turning_point() -> None:
    rule = Rule.parse("superior(0.002) welch_t fixed(5) alpha 0.05 holm")
    text = explain(rule, judged(rule), metric="loss")
    assert "family corrected by Holm" in text.claimed
    assert text.otherwise == (
        "No single improvement can be given at which it would turn, because its level hangs on "
        "what the family's other claims show."
    )
    assert turning_points(rule, judged(rule)) == []
    void = replace(judged(rule), outcome="void")
    assert explain(rule, void, metric="loss").otherwise.startswith("Only complete, finite")


def test_explanation_names_the_guards_fallback() -> None:
    rule = Rule.parse(
        "superior(0) calibrated_t fixed(3) alpha 0.05",
        noise_floor=NoiseFloor(sd=0.0001, num_runs=12),
        data_arms=False,
    )
    found = judge_by(rule, CONTROL[:3], BETTER[:3], direction="minimize", alpha=0.05)
    text = explain(rule, found, metric="loss")
    assert "by Welch's t at alpha 0.05 each, since the arms vary more than their noise" in text.seen


def test_explanation_of_a_judgement_without_level_leaves_it_out() -> None:
    rule = Rule.parse("superior(0.002) welch_t fixed(5) alpha 0.05")
    text = explain(rule, replace(judged(rule), alpha=None), metric="loss")
    assert "by Welch's t: supported" in text.seen


def test_equivalence_that_no_estimate_could_show_says_so() -> None:
    rule = Rule.parse("equivalent(0.0001) welch_t fixed(5) alpha 0.05")
    assert "no improvement could have supported it" in explain(
        rule, judged(rule), metric="loss"
    ).otherwise  # fmt: skip


@pytest.mark.parametrize("margin", [0.0002, 0.002, 0.02])
@pytest.mark.parametrize("shift", [-0.05, -0.0115, -0.00974, 0.0])
def test_every_region_that_is_named_of_an_equivalence_has_its_outcome(
    margin: float, shift: float
) -> None:
    rule = Rule.parse(f"equivalent({margin}) welch_t fixed(5) alpha 0.05")
    base = judged(rule, shift)
    assert base.estimate is not None
    told = explain(rule, base, metric="loss").otherwise
    number = r"([+-][\d.e-]+\d)"
    regions = {
        "refuted": re.findall(rf"below {number} or above {number} would have refuted", told),
        "supported": re.findall(rf"between {number} and {number} would have supported", told),
        "inconclusive": [
            region
            for part in re.findall(r"[^;]+ would be open", told)
            for region in re.findall(rf"from {number} to {number}", part)
        ],
    }
    possible = {"refuted", "inconclusive"} | ({"supported"} if margin > 0.0002 else set())
    assert {outcome for outcome, found in regions.items() if found} == possible - {base.outcome}
    for outcome, found in regions.items():
        for low, high in ((float(a), float(b)) for a, b in found):
            step = (high - low) / 1000
            inside = [low + step, high - step]
            at = [low - step, high + step] if outcome == "refuted" else [*inside, (low + high) / 2]
            assert {judged(rule, shift + one - base.estimate).outcome for one in at} == {outcome}


def test_supported_equivalence_names_what_would_be_open() -> None:
    rule = Rule.parse("equivalent(0.02) welch_t fixed(5) alpha 0.05")
    assert explain(rule, judged(rule, -0.00974), metric="loss").otherwise == (
        "With this spread and these seeds, an improvement below -0.02091 or above +0.02091 would "
        "have refuted it; one from -0.02091 to -0.01909 or from +0.01909 to +0.02091 would be open."
    )


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("shift", [-0.02, -0.0095, -0.0085, 0.0])
def test_first_condition_says_what_it_is_of(claim: str, shift: float) -> None:
    rule = Rule.parse(f"{claim} welch_t fixed(5) alpha 0.05")
    told = explain(rule, judged(rule, shift), metric="loss").otherwise
    assert told.startswith("With this spread and these seeds, ")
    assert "an improvement" in told.split(" one ")[0]


def test_superiority_by_no_margin_is_claimed_at_all() -> None:
    rule = Rule.parse("superior(0) welch_t fixed(5) alpha 0.05")
    claimed = explain(rule, judged(rule), metric="loss").claimed
    assert claimed.startswith(
        "Claimed was that the treatment's loss is better than the control's at all (rule:"
    )
