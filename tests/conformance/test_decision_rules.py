"""Decision rules against numbers computed elsewhere; skips where the vectors are absent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.analysis.eprocess import e_value
from workbench.analysis.forecasts import crps_normal, interval_score
from workbench.analysis.looks import Comparison, Measured, decide_look
from workbench.analysis.rules import Rule


@pytest.fixture
def vectors(shared_data: Path) -> dict[str, Any]:
    return json.loads((shared_data / "decision-rules" / "decision_rules.json").read_text("utf-8"))


def measured(values: list[float]) -> tuple[Measured, ...]:
    return tuple(Measured(seed_index=i, value=value) for i, value in enumerate(values))


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("interval", ["welch", "paired"])
def test_decide_look_gives_the_shared_bounds_and_verdict(
    vectors: dict[str, Any], interval: str, index: int
) -> None:
    case = vectors["cases"][index]
    expected = case[interval]
    n = len(case["control"])
    rule = Rule.of(
        claim=f"superior({case['min_effect']})",
        interval=f"{interval}_t",
        stopping=f"fixed({n})",
        alpha=case["alpha"],
    )
    comparison = Comparison(
        rule=rule,
        direction="minimize" if case["lower_is_better"] else "maximize",
        divergence="arm_void",
        control=measured(case["control"]),
        treatment=measured(case["treatment"]),
    )
    look = decide_look(comparison, n)
    assert look.state == "final"
    assert look.judgement.outcome == expected["verdict"]
    assert look.judgement.estimate == pytest.approx(expected["mean"], rel=1e-9)
    assert look.judgement.lower == pytest.approx(expected["L"], rel=1e-9)
    assert look.judgement.upper == pytest.approx(expected["U"], rel=1e-9)


@pytest.mark.parametrize("index", range(3))
def test_e_value_gives_the_shared_evidence(vectors: dict[str, Any], index: int) -> None:
    case = vectors["cases"][index]
    gains = np.array(case["control"]) - np.array(case["treatment"])
    assert e_value(gains[None])[0] == pytest.approx(case["e_onesided_c2_0.25"], rel=1e-8)


def test_e_value_gives_the_example_of_the_vectors_source(vectors: dict[str, Any]) -> None:
    assert "one-sided 2.50320" in vectors["made_with"]
    assert e_value(np.array([[0.8, 1.1, -0.2, 1.7]]))[0] == pytest.approx(2.50320, abs=5e-6)


def test_forecast_scores_give_the_shared_numbers(vectors: dict[str, Any]) -> None:
    for case in vectors["crps_normal"]:
        assert crps_normal(case["y"], case["mu"], case["sd"]) == pytest.approx(
            case["crps"], rel=2e-8
        )
    for case in vectors["interval_score"]:
        found = interval_score(case["y"], case["l"], case["u"], alpha=case["alpha"])
        assert found == case["score"]
