from typing import Any

import pytest

from tests.reports.sample import EXPERIMENT, PROPOSAL, MemoryLog, exploratory_log, sample_log
from workbench.registry.entries import (
    Exposure,
    GuardrailResult,
    Promotion,
    Registration,
    RunEnded,
    RunStarted,
    Verdict,
)
from workbench.reports.audit import audit_claims

NUM_CHECKS = 10


def failed(log: MemoryLog) -> list[str]:
    return [f.check for f in audit_claims(log) if not f.passed]


def verdict_of(log: MemoryLog) -> Verdict:
    return next(e.body for e in log.found if isinstance(e.body, Verdict))


def test_sound_claim_passes_every_check() -> None:
    findings = audit_claims(sample_log())
    assert [finding.number for finding in findings] == list(range(1, NUM_CHECKS + 1))
    assert [finding.detail for finding in findings if not finding.passed] == []


@pytest.mark.parametrize(
    ("treatment", "outcome"),
    [
        ((1.7312, 1.7281, 1.7349), "supported"),
        ((1.7790, 1.7730, 1.7835), "refuted"),
        ((1.7000, 1.7900, 1.7800), "inconclusive"),
    ],
)
def test_each_outcome_is_recomputed(treatment: tuple[float, ...], outcome: str) -> None:
    log = sample_log(treatment=treatment)
    assert verdict_of(log).outcome == outcome
    assert failed(log) == []


FIELDS: dict[str, Any] = {
    "outcome": "inconclusive",
    "hypothesis": "H2",
    "claim": "superior(0.01)",
    "alpha": 0.1,
    "metric": "bpb_code",
    "direction": "maximize",
    "estimate": 0.05,
    "lower": 0.001,
    "upper": 0.2,
    "degrees_of_freedom": 4.0,
    "action": "Publish at once",
    "scores": [],
    "void_reasons": ["a seed is missing"],
    "guardrails": [GuardrailResult(metric="bpb_docs", at_most=2.0, treatment_mean=2.1, held=True)],
}


@pytest.mark.parametrize("field", FIELDS)
def test_any_changed_field_of_a_verdict_fails_the_audit(field: str) -> None:
    log = sample_log()
    log.replace_body("verdict", **{field: FIELDS[field]})
    assert failed(log)


def test_changed_seed_value_fails_the_outcome_and_the_scores() -> None:
    log = sample_log()
    values = {arm: list(seeds) for arm, seeds in verdict_of(log).values.items()}
    values["control"][0] = values["control"][0].model_copy(update={"value": 1.79})
    log.replace_body("verdict", values=values)
    assert "outcome follows from the values" in failed(log)
    assert "forecast scores follow from the forecasts" in failed(log)


def test_missing_seed_fails_unless_the_verdict_is_void() -> None:
    log = sample_log()
    values = {arm: list(seeds) for arm, seeds in verdict_of(log).values.items()}
    log.replace_body("verdict", values={**values, "control": values["control"][:2]})
    assert "every registered seed is accounted for" in failed(log)


def void(log: MemoryLog, **changes: Any) -> None:
    action = "Repair the cause and register again"
    reasons = ["run x is missing"]
    log.replace_body(
        "verdict", outcome="void", void_reasons=reasons, action=action, scores=[], **changes
    )


def test_void_verdict_of_a_split_that_stayed_shut_passes() -> None:
    log = sample_log()
    values = {
        arm: [seed.model_copy(update={"value": None}) for seed in seeds]
        for arm, seeds in verdict_of(log).values.items()
    }
    log.found = [e for e in log.found if not isinstance(e.body, Exposure)]
    nothing = dict.fromkeys(("estimate", "lower", "upper", "degrees_of_freedom"))
    void(log, values=values, per_metric={}, **nothing)
    assert failed(log) == []


def test_verdict_is_not_void_because_it_says_so() -> None:
    log = sample_log()
    void(log)
    assert failed(log) == ["outcome follows from the values"]


def test_void_verdict_that_hides_what_was_seen_fails() -> None:
    log = sample_log()
    values = {
        arm: [seed.model_copy(update={"value": None}) for seed in seeds]
        for arm, seeds in verdict_of(log).values.items()
    }
    nothing = dict.fromkeys(("estimate", "lower", "upper", "degrees_of_freedom"))
    void(log, values=values, per_metric={}, **nothing)
    assert failed(log) == ["sealed test was opened once a run, on the record"]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (RunStarted, {"config_sha256": "00" * 32}),
        (RunStarted, {"mode": "exploratory"}),
        (RunEnded, {"outcome": "failed"}),
        (RunEnded, {"checkpoint_sha256": "00" * 32}),
        (Promotion, {"config_sha256": {}}),
        (Promotion, {"mode": "exploratory"}),
    ],
)
def test_run_that_is_not_the_promoted_one_fails(kind: type, changes: dict[str, Any]) -> None:
    log = sample_log()
    log.replace_body(kind.kind, **changes)
    assert "runs ran the promoted configuration" in failed(log)


def test_sealed_split_opened_twice_or_never_fails() -> None:
    log = sample_log()
    exposure = next(e.body for e in log.found if isinstance(e.body, Exposure))
    log.append(exposure)
    assert "sealed test was opened once a run, on the record" in failed(log)
    log.found = [e for e in log.found if not isinstance(e.body, Exposure)]
    assert "sealed test was opened once a run, on the record" in failed(log)


def test_run_started_after_the_sealed_split_was_opened_fails() -> None:
    log = sample_log()
    start = next(e.body for e in log.found if isinstance(e.body, RunStarted))
    log.append(start.model_copy(update={"attempt": 2, "from_step": 600}))
    assert "sealed test was opened once a run, on the record" in failed(log)


def test_second_verdict_fails() -> None:
    log = sample_log()
    log.append(verdict_of(log))
    assert "one verdict, of a confirmatory experiment" in failed(log)


def test_frozen_values_that_differ_from_the_text_fail() -> None:
    log = sample_log()
    registration = next(e.body for e in log.found if isinstance(e.body, Registration))
    altered = PROPOSAL.replace("alpha: 0.05", "alpha: 0.1")
    document = registration.proposal.model_copy(update={"text": altered})
    log.replace_body("registration", proposal=document)
    assert failed(log) == ["frozen proposal is its text"]


def test_text_that_is_no_proposal_fails_without_a_crash() -> None:
    log = sample_log()
    registration = next(e.body for e in log.found if isinstance(e.body, Registration))
    for text in ("", "---\n- no\n---\n", "no front matter"):
        document = registration.proposal.model_copy(update={"text": text})
        log.replace_body("registration", proposal=document)
        assert failed(log) == ["frozen proposal is its text"]


def test_broken_guardrail_turns_supported_into_refuted() -> None:
    text = PROPOSAL.replace(
        "  secondary:", "  guardrails:\n    - {metric: bpb_docs, at_most: 2.0}\n  secondary:"
    )
    log = sample_log(proposal=text)
    rail = GuardrailResult(metric="bpb_docs", at_most=2.0, treatment_mean=2.1117, held=False)
    log.replace_body("verdict", guardrails=[rail])
    assert "outcome follows from the values" in failed(log)
    action = "Keep the natural mixture and close the question"
    log.replace_body("verdict", outcome="refuted", action=action)
    assert failed(log) == []


def test_confirmatory_verdict_on_exploratory_work_fails() -> None:
    log = exploratory_log()
    log.append(verdict_of(sample_log()), "recipe:mixture@1")
    findings = audit_claims(log)
    assert [finding.passed for finding in findings] == [False]
    assert "without a registration" in findings[0].detail


def test_log_without_a_verdict_has_nothing_to_audit() -> None:
    log = sample_log()
    log.found = [e for e in log.found if not isinstance(e.body, Verdict)]
    assert audit_claims(log) == []
    assert log.found[1].subject == EXPERIMENT


def test_forecast_made_after_a_run_began_fails() -> None:
    log = sample_log()
    forecast = next(e.body for e in log.found if e.kind == "forecast")
    log.append(forecast)
    assert failed(log) == ["forecast scores follow from the forecasts"]


def test_exploratory_runs_at_any_time_leave_the_claim_alone() -> None:
    log = sample_log()
    place = next(i for i, e in enumerate(log.found) if isinstance(e.body, RunStarted))
    start = log.found[place].body.model_copy(update={"mode": "exploratory", "run": "try/seed-0"})
    log.append(start)
    assert failed(log) == []
