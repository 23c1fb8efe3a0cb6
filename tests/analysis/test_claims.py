"""Decision rules against independently computed vectors and their own definitions."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from workbench.analysis.claims import (
    CLAIM_KINDS,
    judge,
    mean,
    outcome_of,
    sample_variance,
    welch_interval,
)

RULE = {"direction": "minimize", "claim_kind": "superior", "margin": 0.01, "alpha": 0.05}


def vectors(shared_data: Path) -> list[dict]:
    return json.loads((shared_data / "decision-rules" / "decision_rules.json").read_text())["cases"]


@pytest.mark.parametrize("index", range(3))
def test_judge_shared_vectors_agree(shared_data: Path, index: int) -> None:
    case = vectors(shared_data)[index]
    found = judge(
        case["control"],
        case["treatment"],
        direction="minimize" if case["lower_is_better"] else "maximize",
        claim_kind="superior",
        margin=case["min_effect"],
        alpha=case["alpha"],
    )
    expected = case["welch"]
    assert found.outcome == expected["verdict"]
    assert found.estimate == pytest.approx(expected["mean"], rel=1e-9)
    assert found.degrees_of_freedom == pytest.approx(expected["df"], rel=1e-9)
    assert found.lower == pytest.approx(expected["L"], rel=1e-9)
    assert found.upper == pytest.approx(expected["U"], rel=1e-9)
    assert (found.n_control, found.n_treatment) == (len(case["control"]), len(case["treatment"]))


@pytest.mark.parametrize("index", range(3))
def test_judge_mirrored_vectors_maximize_gives_the_same(shared_data: Path, index: int) -> None:
    case = vectors(shared_data)[index]
    found = judge(
        [-v for v in case["control"]],
        [-v for v in case["treatment"]],
        direction="maximize",
        claim_kind="superior",
        margin=case["min_effect"],
        alpha=case["alpha"],
    )
    assert found.outcome == case["welch"]["verdict"]
    assert found.lower == pytest.approx(case["welch"]["L"], rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "outcome"),
    [
        ("superior", 0.001, 0.02, "supported"),
        ("superior", 0.001, 0.009, "refuted"),  # real, but too small to matter
        ("superior", -0.02, 0.009, "refuted"),
        ("superior", -0.001, 0.02, "inconclusive"),
        ("superior", 0.0, 0.02, "inconclusive"),
        ("superior_by", 0.011, 0.02, "supported"),
        ("superior_by", 0.001, 0.02, "inconclusive"),
        ("superior_by", -0.02, 0.009, "refuted"),
        ("non_inferior", -0.009, 0.02, "supported"),
        ("non_inferior", -0.011, 0.02, "inconclusive"),
        ("non_inferior", -0.03, -0.011, "refuted"),
        ("equivalent", -0.009, 0.009, "supported"),
        ("equivalent", -0.009, 0.011, "inconclusive"),
        ("equivalent", 0.011, 0.02, "refuted"),
        ("equivalent", -0.02, -0.011, "refuted"),
    ],
)
def test_outcome_of_bounds_follows_the_rule(
    kind: str, lower: float, upper: float, outcome: str
) -> None:
    assert outcome_of(kind, 0.01, lower, upper) == outcome


@pytest.mark.parametrize(
    ("control", "treatment", "reason"),
    [
        ([], [1.0, 2.0], "control has 0"),
        ([1.0], [1.0, 2.0], "control has 1"),
        ([1.0, 2.0], [1.0], "treatment has 1"),
        ([1.0, math.nan], [1.0, 2.0], "1 of 2 control values are not finite"),
        ([1.0, 2.0], [0.5, math.inf], "1 of 2 treatment values are not finite"),
        ([1.0, 1.0], [0.9, 0.9], "no variation"),
        ([1e200, 3e200], [1e200, 2e200], "beyond 1e+150"),
    ],
)
def test_judge_unusable_values_are_void(
    control: list[float], treatment: list[float], reason: str
) -> None:
    found = judge(control, treatment, **RULE)
    assert found.outcome == "void"
    assert reason in found.reason
    assert found.lower is None
    assert found.upper is None
    assert found.degrees_of_freedom is None


def test_judge_a_nan_is_neither_a_win_nor_a_zero() -> None:
    """Sweeps and verdicts: a NaN never wins, never counts as 0."""
    found = judge([1.0, 1.1, 1.2], [math.nan, 0.1, 0.1], **RULE)
    assert (found.outcome, found.estimate) == ("void", None)


def test_judge_no_variation_keeps_the_estimate() -> None:
    assert judge([1.0, 1.0], [0.75, 0.75], **RULE).estimate == 0.25


def test_judge_one_constant_arm_has_the_other_arms_freedom() -> None:
    found = judge([1.0, 1.0, 1.0], [0.5, 0.6, 0.7], **RULE)
    assert found.outcome == "supported"
    assert found.degrees_of_freedom == pytest.approx(2.0)


def test_judge_tiny_variances_are_void_or_exact() -> None:
    tiny = 1e-170
    found = judge([tiny, 2 * tiny], [3 * tiny, 4 * tiny], **{**RULE, "margin": 0.0})
    assert found.outcome == "void"  # the variance itself is below what a double can hold
    found = judge([1e-100, 2e-100], [3e-100, 5e-100], **{**RULE, "margin": 0.0})
    assert found.degrees_of_freedom == pytest.approx(1.4705882, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"direction": "lower"},
        {"claim_kind": "better"},
        {"margin": -0.1},
        {"margin": math.nan},
        {"alpha": 0.5},
        {"alpha": 0.0},
        {"alpha": math.nan},
    ],
)
def test_judge_impossible_rule_is_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=str(next(iter(change)))[:5]):
        judge([1.0, 1.1], [1.0, 1.2], **{**RULE, **change})


def test_outcome_of_unknown_claim_is_refused() -> None:
    with pytest.raises(ValueError, match="claim 'best'"):
        outcome_of("best", 0.1, 0.0, 1.0)


def test_welch_interval_without_variation_or_repeats_is_refused() -> None:
    with pytest.raises(ValueError, match="no variation"):
        welch_interval([1.0, 1.0], [2.0, 2.0], direction="minimize", alpha=0.05)
    with pytest.raises(ValueError, match="2 values an arm"):
        welch_interval([1.0], [2.0, 2.1], direction="minimize", alpha=0.05)


def test_sample_variance_equal_values_is_exactly_zero() -> None:
    assert sample_variance([0.1] * 10) == 0.0
    with pytest.raises(ValueError, match="variance of 1"):
        sample_variance([1.0])
    with pytest.raises(ValueError, match="no values"):
        mean([])


VALUES = st.lists(st.floats(-100, 100).map(lambda v: round(v, 6)), min_size=2, max_size=8)


@given(control=VALUES, treatment=VALUES, kind=st.sampled_from(CLAIM_KINDS))
def test_judge_any_values_is_consistent(
    control: list[float], treatment: list[float], kind: str
) -> None:
    found = judge(control, treatment, **{**RULE, "claim_kind": kind})
    if found.outcome == "void":
        assert found.reason
        return
    assert found.lower <= found.estimate <= found.upper
    freedom = found.degrees_of_freedom
    assert min(len(control), len(treatment)) - 1 <= freedom + 1e-9
    assert freedom <= len(control) + len(treatment) - 2 + 1e-9
    error = welch_interval(control, treatment, direction="minimize", alpha=0.05).standard_error
    # The upper bound leaves exactly α of Student's t above it.
    assert 1 - stdtr(freedom, (found.upper - found.estimate) / error) == pytest.approx(
        0.05, abs=1e-6
    )


def test_judge_arms_equal_but_for_rounding_are_void() -> None:
    found = judge([0.3, 0.1 + 0.2, 0.3], [0.2, 0.2, 0.3 - 0.1], **RULE)
    assert (found.outcome, found.lower) == ("void", None)
    assert "no variation in either arm" in found.reason
    # What differs by more than rounding is judged.
    assert judge([0.3, 0.3 + 1e-13, 0.3], [0.2, 0.2, 0.2], **RULE).outcome == "supported"
