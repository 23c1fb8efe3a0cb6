from typing import Any

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, sample_log
from workbench.registry.entries import ProxyRun, RunEnded
from workbench.reports.disclosures import composition, disclosures
from workbench.reports.facts import experiment_facts
from workbench.reports.shortcomings import limitations, negative_results


def negatives(log: MemoryLog) -> dict[str, str]:
    facts = experiment_facts(log, EXPERIMENT)
    return {line.label: line.text.replace("\u00a0", " ") for line in negative_results(facts)}


def test_negative_results_name_what_failed_missed_or_was_rejected() -> None:
    found = negatives(sample_log())
    assert found["Trials below the control"].startswith("4 of 11 completed trials")
    assert "trial-06: improvement +0.0314" in found["Candidates not promoted"]
    assert "one of its re-runs diverged" in found["Candidates not promoted"]
    assert "flattered it by 0.0075 bits/byte" in found["Best-of-sweep optimism"]
    assert "Trial 8 diverged: loss became non-finite" in found["Failed and diverged"]
    assert "outside the 50\u202f% interval" in found["Forecast of improvement"]
    assert "bpb_docs −0.0077" in found["Secondary metrics"]


@pytest.mark.parametrize("outcome", ["refuted", "inconclusive"])
def test_refuted_hypothesis_is_a_negative_result(outcome: str) -> None:
    log = sample_log()
    log.replace_body("verdict", outcome=outcome)
    assert f"Hypothesis H1 {outcome}" in negatives(log)


def test_failed_proxy_runs_and_runs_are_told() -> None:
    log = sample_log()
    proxy = next(e.body for e in log.found if isinstance(e.body, ProxyRun))
    log.append(proxy.model_copy(update={"state": "diverged", "value": None, "reason": "NaN"}))
    log.found = [
        e
        for e in log.found
        if not (isinstance(e.body, RunEnded) and e.body.run == "control/seed-2")
    ]
    end = next(e.body for e in log.found if isinstance(e.body, RunEnded))
    log.append(end.model_copy(update={"run": "control/seed-2", "outcome": "diverged"}))
    text = negatives(log)["Failed and diverged"]
    assert "Control at tiny, seed 0 diverged: NaN" in text
    assert "control/seed-2 diverged" in text


def test_forecast_that_a_baseline_beat_is_told() -> None:
    log = sample_log()
    verdict = next(e.body for e in log.found if e.kind == "verdict")
    scores = [s.model_copy(update={"crps_baselines": {"no_effect": 0.0}}) for s in verdict.scores]
    log.replace_body("verdict", scores=scores)
    assert "the baseline no effect scored better" in negatives(log)["Forecast of treatment"]


def test_promotion_of_nobody_says_why() -> None:
    log = sample_log()
    log.replace_body("promotion", chosen="none", reason="every candidate was worse")
    assert "Every candidate was worse." in negatives(log)["Candidates not promoted"]


@pytest.mark.parametrize(
    ("changes", "label"),
    [({}, "Time"), ({}, "Sample"), ({}, "Deviations"), ({}, "Cost of restarts")],
)
def test_limits_of_the_record_itself_are_told(changes: dict[str, Any], label: str) -> None:
    facts = experiment_facts(sample_log(), EXPERIMENT)
    assert label in [line.label for line in limitations(facts)]


def test_dirty_code_is_a_limitation() -> None:
    log = sample_log()
    body = next(e.body for e in log.found if e.kind == "registration")
    log.replace_body("registration", code=body.code.model_copy(update={"dirty": True}))
    labels = [line.label for line in limitations(experiment_facts(log, EXPERIMENT))]
    assert "Code" in labels


def test_five_disclosures_are_always_made() -> None:
    wanted = [
        *("Failed work", "Data composition", "The whole search", "Who operated it"),
        "Contamination",
    ]
    for log, subject in ((sample_log(), EXPERIMENT), (exploratory_log(), "recipe:mixture@1")):
        told = disclosures(experiment_facts(log, subject))
        assert [line.label for line in told] == wanted
        assert all(line.text for line in told)


def test_composition_gives_sources_thresholds_and_mixtures_of_both_arms() -> None:
    made_of = composition(experiment_facts(sample_log(), EXPERIMENT))
    assert made_of is not None
    assert [row.domain for row in made_of.rows] == ["code", "docs", "math"]
    assert [arm for arm, _, _ in made_of.mixtures] == ["control", "treatment"]
    assert made_of.mixtures[0][2] == "natural"
    text = " ".join(line.text for line in made_of.filters)
    assert "20\u202fkB" in text
    assert "5.0\u202f% validation" in text
