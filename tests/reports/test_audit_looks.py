"""Verdicts of rules that look early, decide families or use a noise floor, forged part by part."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.amending import amendment_of
from tests.reports.looks import Story, forged, moved, noise_floor, proposal_text, story
from tests.reports.sample import EXPERIMENT, MemoryLog, front
from workbench.registry.amended import course_of, late_reasons
from workbench.registry.entries import (
    ClaimResult,
    Exposure,
    GuardrailResult,
    Hidden,
    Look,
    NoiseFloor,
    Redaction,
    Registration,
    RunEnded,
    RunStarted,
    SeedValue,
    Verdict,
)
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal
from workbench.reports.applied import applied
from workbench.reports.audit import audit_claims
from workbench.reports.replay import PlainRule, is_plain

RULE = "rule is the registered rule"
SEEDS = "every registered seed is accounted for"
RUNS = "runs ran the promoted configuration"
EXPOSURE = "sealed test was opened once a run, on the record"
OUTCOME = "outcome follows from the values"
MEANS = "guardrails are the registered ones"
LOOKS = "looks are those of the registered stopping rule"
MODE = "one verdict, of a confirmatory experiment"

DIVERGED = frozenset({"control/seed-1"})
HONEST: dict[str, dict[str, Any]] = {
    "group to its end": {},
    "group that stops": {"effect": 0.1},
    "group without effect": {"effect": 0.0},
    "fixed": {"stopping": "fixed(5)", "seeds": 5},
    "anytime": {"interval": "paired_t", "stopping": "anytime", "seeds": 6, "effect": 0.02},
    "permutation": {"interval": "perm_exact", "stopping": "fixed(5)", "seeds": 5},
    "calibrated": {"interval": "calibrated_t", "floor": noise_floor(), "spread": 0.005},
    "family": {"family": True},
    "family at once": {"family": True, "stopping": "fixed(5)", "seeds": 5},
    "excluded run": {"divergence": "exclude", "diverged": DIVERGED},
    "broken guardrail": {"guardrail": 1.5, "effect": 0.1},
    "non-inferior": {"claim": "non_inferior(0.02)"},
    "equivalent": {"claim": "equivalent(0.05)"},
    "superior by": {"claim": "superior_by(0.02)"},
}


def failed(log: MemoryLog) -> dict[str, str]:
    return {found.check: found.detail for found in audit_claims(log) if not found.passed}


@pytest.mark.parametrize("name", HONEST)
def test_honest_verdict_of_every_rule_passes(name: str) -> None:
    log = story(**HONEST[name]).decided()
    assert len(audit_claims(log)) == 10
    assert failed(log) == {}


def test_stories_differ_in_where_they_stop() -> None:
    ends = {}
    for name in ("group to its end", "group that stops", "anytime"):
        told = story(**HONEST[name])
        told.decided()
        ends[name] = (len(told.looks), told.looks[-1].state)
    assert ends == {
        "group to its end": (3, "final"),
        "group that stops": (1, "stop"),
        "anytime": (4, "final"),
    }


def test_void_look_and_its_verdict_pass() -> None:
    told = story(diverged=DIVERGED)
    told.look(3, void=["run control/seed-1 diverged, and the rule is arm_void"])
    verdict = told.verdict()
    assert (verdict.outcome, verdict.estimate) == ("void", None)
    assert failed(told.log) == {}


def test_verdict_that_gives_up_between_looks_is_void_and_passes() -> None:
    told = story()
    assert told.look(3).state == "go_on"
    told.verdict(outcome="inconclusive")
    assert set(failed(told.log)) == {LOOKS}
    told.log.found.pop()
    action = "Repair the cause and register again"
    reasons = ["run control/seed-3 is missing"]
    told.verdict(outcome="void", void_reasons=reasons, action=action, scores=[])
    assert failed(told.log) == {}


def test_verdict_before_any_look_may_only_be_void_and_empty() -> None:
    told = story()
    values = {arm: told.seeds(arm, 2, shut=True) for arm in ("control", "treatment")}
    told.run(0, 2)
    told.judge(values, 3)
    told.results = [told.void(claim, "runs are missing") for claim in told.proposal.claims()]
    told.verdict(values, void_reasons=["runs are missing"])
    assert failed(told.log) == {}


# Forgeries: what is done to the log of a group(3,5,8) that went to its end, and what catches it.


def of(log: MemoryLog, kind: type) -> list[Entry]:
    return [entry for entry in log.found if isinstance(entry.body, kind)]


def edit(kind: type, place: int, **changes: Any) -> Callable[[MemoryLog], None]:
    def change(log: MemoryLog) -> None:
        forged(log, kind.kind, lambda body: body.model_copy(update=changes), place)

    return change


def edit_result(kind: type, place: int, number: int = 0, **changes: Any) -> Any:
    def change(log: MemoryLog) -> None:
        def altered(body: Any) -> Any:
            results = list(body.results)
            results[number] = results[number].model_copy(update=changes)
            return body.model_copy(update={"results": results})

        forged(log, kind.kind, altered, place)

    return change


def edit_seed(kind: type, place: int, index: int, **changes: Any) -> Any:
    def change(log: MemoryLog) -> None:
        def altered(body: Any) -> Any:
            seeds = [
                seed.model_copy(update=changes) if seed.seed_index == index else seed
                for seed in body.values["control"]
            ]
            return body.model_copy(update={"values": {**body.values, "control": seeds}})

        forged(log, kind.kind, altered, place)

    return change


def both(*changes: Callable[[MemoryLog], None]) -> Callable[[MemoryLog], None]:
    def change(log: MemoryLog) -> None:
        for each in changes:
            each(log)

    return change


def drop(kind: type, place: int) -> Callable[[MemoryLog], None]:
    return lambda log: log.found.remove(of(log, kind)[place])


def move(kind: type, place: int, to: type, other: int) -> Callable[[MemoryLog], None]:
    return lambda log: moved(log, of(log, kind)[place], log.found.index(of(log, to)[other]))


def second_exposure(log: MemoryLog) -> None:
    opened = of(log, Exposure)[0].body
    entry = log.append(opened)
    moved(log, entry, log.found.index(of(log, Look)[0]))


def unused_exposure(log: MemoryLog) -> None:
    runs = ["control/seed-0"]
    exposure = Exposure(what="sealed_test", by="me", purpose="a glance", runs=runs)
    moved(log, log.append(exposure), log.found.index(of(log, Verdict)[0]))


def started_again(log: MemoryLog) -> None:
    start = of(log, RunStarted)[0].body
    again = log.append(start.model_copy(update={"attempt": 2, "from_step": 600}))
    moved(log, again, log.found.index(of(log, Look)[0]))


def repeated_look(log: MemoryLog) -> None:
    moved(log, log.append(of(log, Look)[1].body), log.found.index(of(log, Verdict)[0]))


FORGERIES: dict[str, tuple[Callable[[MemoryLog], None], str]] = {
    "look's estimate": (edit_result(Look, 0, estimate=0.5), OUTCOME),
    "look's lower bound": (edit_result(Look, 1, lower=0.001), OUTCOME),
    "look's upper bound": (edit_result(Look, 1, upper=0.001), OUTCOME),
    "look's freedom": (edit_result(Look, 1, degrees_of_freedom=99.0), OUTCOME),
    "look's alpha": (edit_result(Look, 0, alpha=0.05), OUTCOME),
    "look's interval": (edit_result(Look, 0, interval="paired_t"), OUTCOME),
    "look's outcome": (edit_result(Look, 0, outcome="supported"), OUTCOME),
    "look's reason": (edit_result(Look, 0, reason="who knows"), OUTCOME),
    "look's claim": (edit_result(Look, 0, claim="superior(0.01)"), OUTCOME),
    "look's metric": (edit_result(Look, 0, metric="bpb_code"), OUTCOME),
    "look's direction": (edit_result(Look, 0, direction="maximize"), OUTCOME),
    "look's hypothesis": (edit_result(Look, 0, hypothesis="H9"), OUTCOME),
    "look without results": (edit(Look, 0, results=[]), OUTCOME),
    "look's state": (edit(Look, 0, state="stop", next_seeds=None), OUTCOME),
    "look's next seeds": (edit(Look, 0, next_seeds=8), OUTCOME),
    "look's void reasons": (edit(Look, 0, void_reasons=["a run is missing"]), OUTCOME),
    "look's mode": (edit(Look, 0, mode="exploratory"), LOOKS),
    "look's number": (edit(Look, 0, number=2), LOOKS),
    "look's seeds": (edit(Look, 0, num_seeds=4), LOOKS),
    "skipped look": (drop(Look, 1), LOOKS),
    "no look": (both(drop(Look, 2), drop(Look, 1), drop(Look, 0)), LOOKS),
    "look after the end": (repeated_look, LOOKS),
    "looks in another order": (move(Look, 2, Look, 1), LOOKS),
    "look after the verdict": (move(Verdict, 0, Look, 2), LOOKS),
    "look that stopped": (edit(Look, 1, state="stop", next_seeds=None), LOOKS),
    "value at a later look": (edit_seed(Look, 1, 0, value=1.7), LOOKS),
    "value at the verdict": (edit_seed(Verdict, 0, 0, value=1.7), LOOKS),
    "metrics at a later look": (edit_seed(Look, 2, 0, metrics={"bpb_macro": 1.7}), LOOKS),
    "checkpoint at a later look": (edit_seed(Look, 2, 0, checkpoint_sha256="00" * 32), LOOKS),
    "value against its metrics": (edit_seed(Look, 2, 7, value=1.7), OUTCOME),
    "value left out": (edit_seed(Look, 2, 7, value=None, metrics={}), SEEDS),
    "no metrics": (edit_seed(Look, 2, 7, metrics={}), OUTCOME),
    "seed twice": (edit_seed(Look, 1, 3, seed_index=4), SEEDS),
    "no exposure": (drop(Exposure, 1), EXPOSURE),
    "exposure of other runs": (edit(Exposure, 1, runs=["control/seed-3"]), EXPOSURE),
    "exposure after its look": (move(Exposure, 0, RunStarted, 6), EXPOSURE),
    "exposure before its runs": (move(Exposure, 1, RunStarted, 6), EXPOSURE),
    "exposure before a run ended": (move(Exposure, 0, RunEnded, 5), EXPOSURE),
    "second exposure": (second_exposure, EXPOSURE),
    "exposure that nothing uses": (unused_exposure, EXPOSURE),
    "run again after it was seen": (started_again, EXPOSURE),
    "run before its look": (move(RunStarted, 6, RunStarted, 0), LOOKS),
    "verdict of an earlier look": (edit(Verdict, 0, look=2, num_seeds=5), LOOKS),
    "verdict's look": (edit(Verdict, 0, look=1), LOOKS),
    "verdict's number of seeds": (edit(Verdict, 0, num_seeds=5), LOOKS),
    "verdict's stopping": (edit(Verdict, 0, stopping="fixed(8)"), RULE),
    "verdict's noise floor": (edit(Verdict, 0, noise_floor="ab" * 32), RULE),
    "verdict without results": (edit(Verdict, 0, results=[]), OUTCOME),
    "verdict's result": (edit_result(Verdict, 0, lower=0.02), LOOKS),
    "verdict's alpha": (edit_result(Verdict, 0, alpha=0.05), OUTCOME),
    "verdict's bound": (edit(Verdict, 0, lower=0.02), OUTCOME),
    "verdict's outcome": (edit(Verdict, 0, outcome="refuted"), OUTCOME),
    "void that is none": (
        edit(Verdict, 0, outcome="void", void_reasons=["a run is missing"]), OUTCOME
    ),
    "mean of a metric": (
        edit(Verdict, 0, per_metric={"bpb_math": {"control": 1.7, "treatment": 1.6}}), MEANS
    ),
    "means that are not told": (edit(Verdict, 0, per_metric={}), MEANS),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_verdict_with_looks_is_caught(name: str) -> None:
    forge, check = FORGERIES[name]
    log = story().decided()
    forge(log)
    assert check in failed(log)


def test_run_after_the_rule_stopped_fails() -> None:
    told = story(effect=0.1)
    assert told.look(3).state == "stop"
    told.run(3, 4)
    told.verdict()
    assert set(failed(told.log)) == {LOOKS}


def test_look_of_a_rule_that_looks_once_fails() -> None:
    told = story(stopping="fixed(5)", seeds=5)
    log = told.decided()
    body = of(story().decided(), Look)[0].body
    moved(log, log.append(body), log.found.index(of(log, Exposure)[0]))
    assert LOOKS in failed(log)


SINGLE: dict[str, tuple[Callable[[MemoryLog], None], str]] = {
    "look": (edit(Verdict, 0, look=2), LOOKS),
    "seeds": (edit(Verdict, 0, num_seeds=4), LOOKS),
    "stopping": (edit(Verdict, 0, stopping=""), RULE),
    "results": (edit_result(Verdict, 0, alpha=0.01), OUTCOME),
    "exposed runs": (edit(Exposure, 0, runs=["control/seed-0"]), EXPOSURE),
    "metrics": (edit_seed(Verdict, 0, 2, metrics={"bpb_macro": 1.6}), OUTCOME),
    "swapped seeds": (
        both(edit_seed(Verdict, 0, 0, run="control/seed-1"),
             edit_seed(Verdict, 0, 1, run="control/seed-0")), RUNS
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_forged_verdict_of_one_look_is_caught(name: str) -> None:
    forge, check = SINGLE[name]
    log = story(stopping="fixed(5)", seeds=5).decided()
    forge(log)
    assert check in failed(log)


def bare(body: Verdict) -> Verdict:
    """Return the verdict as it was before looks and families had fields."""
    values = {
        arm: [seed.model_copy(update={"metrics": {}}) for seed in seeds]
        for arm, seeds in body.values.items()
    }
    changes = {"stopping": "", "num_seeds": None, "look": 1, "results": [], "noise_floor": ""}
    return body.model_copy(update={**changes, "values": values})


def test_only_a_plain_rule_may_lack_the_newer_fields() -> None:
    log = story(stopping="fixed(5)", seeds=5).decided()
    forged(log, "verdict", bare)
    assert failed(log) == {}
    for other in ("permutation", "calibrated", "family at once", "group that stops", "anytime"):
        log = story(**HONEST[other]).decided()
        forged(log, "verdict", bare)
        assert RULE in failed(log), other


@pytest.mark.parametrize(
    "changes",
    [
        {"hypothesis": "H3"},
        {"claim": "non_inferior(0.02)"},
        {"metric": "bpb_docs"},
        {"outcome": "refuted"},
        {"alpha": 0.05},
        {"lower": 0.0},
    ],
)
@pytest.mark.parametrize("kind", [Look, Verdict])
def test_forged_result_of_a_family_is_caught(kind: type, changes: dict[str, Any]) -> None:
    log = story(family=True).decided()
    edit_result(kind, 0, number=1, **changes)(log)
    assert OUTCOME in failed(log)


def test_claim_that_an_earlier_look_decided_stays_decided() -> None:
    told = story(family=True)
    log = told.decided()
    looks = [entry.body for entry in of(log, Look)]
    decided = {
        result.hypothesis: place
        for place, look in reversed(list(enumerate(looks)))
        for result in look.results
        if result.outcome == "supported"
    }
    name, place = min(decided.items(), key=lambda item: item[1])
    assert place < len(looks) - 1
    number = [result.hypothesis for result in looks[0].results].index(name)
    assert looks[-1].results[number] == looks[place].results[number]
    # Said again from the values of the last look, as if it had not been decided before.
    edit_result(Look, len(looks) - 1, number=number, estimate=0.5)(log)
    assert OUTCOME in failed(log)


def test_family_without_a_metric_that_it_needs_is_caught() -> None:
    log = story(family=True, stopping="fixed(5)", seeds=5).decided()
    edit_seed(Verdict, 0, 1, metrics={"bpb_macro": 1.7})(log)
    assert "no value of bpb_code" in failed(log)[OUTCOME]


def test_completed_run_that_is_told_as_diverged_is_caught() -> None:
    told = story(**HONEST["excluded run"])
    told.diverged = frozenset()
    told.run(0, 3)
    told.diverged = DIVERGED
    told.expose(0, 3, "look 1")
    values = {arm: told.seeds(arm, 3) for arm in ("control", "treatment")}
    found = told.judge(values, 3)
    told.last = Look(mode="confirmatory", number=1, num_seeds=3, state=found.state,
                     next_seeds=found.next_seeds, values=values, results=told.results)  # fmt: skip
    told.log.append(told.last)
    told.verdict()
    assert "it did not diverge" in failed(told.log)[RUNS]


def floored(**changes: Any) -> Story:
    floor = noise_floor().model_copy(update=changes)
    return story(interval="calibrated_t", floor=floor, spread=0.005)


def repeats(count: int, seed: str | None = None) -> dict[str, Any]:
    found = noise_floor()
    kept = found.repeats[:count]
    if seed is not None:
        kept[1] = kept[1].model_copy(update={"seed": seed})
    return {"repeats": kept}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spreads": {**noise_floor().spreads, "bpb_macro": 0.0001}}, "spread of bpb_macro"),
        ({"spreads": {**noise_floor().spreads, "bpb_else": 0.0001}}, "spread of bpb_else"),
        ({"num_runs": 40}, "says 40 runs, 10 completed"),
        (repeats(9), "says 10 runs, 9 completed"),
        (repeats(11, seed="700"), "counts a seed twice"),
    ],
)
def test_forged_noise_floor_is_caught(changes: dict[str, Any], said: str) -> None:
    assert said in failed(floored(**changes).decided())[RULE]


def test_noise_floor_that_was_recorded_after_it_was_named_is_caught() -> None:
    log = floored().decided()
    (floor,) = of(log, NoiseFloor)
    moved(log, floor, 5)
    assert "recorded after it was named" in failed(log)[RULE]


def test_noise_floor_that_is_not_in_the_log_is_caught() -> None:
    log = floored().decided()
    log.found.remove(of(log, NoiseFloor)[0])
    found = failed(log)
    assert "no noise floor" in found[RULE]
    assert "needs a measured noise floor" in found[OUTCOME]


def test_calibrated_bounds_by_another_spread_are_caught() -> None:
    log = floored().decided()
    wide = noise_floor(spread=0.02)
    forged(log, "noise_floor", lambda body: wide)
    assert OUTCOME in failed(log)


def test_guardrail_is_held_by_the_values_and_not_by_what_is_told() -> None:
    log = story(**HONEST["broken guardrail"]).decided()
    body = of(log, Verdict)[0].body
    rail = GuardrailResult(metric="bpb_math", at_most=1.5, treatment_mean=1.49, held=True)
    means = {**body.per_metric, "bpb_math": {"control": 1.7, "treatment": 1.49}}
    action = "Use the promoted mixture for the next corpus"
    edit(Verdict, 0, guardrails=[rail], per_metric=means, outcome="supported", action=action)(log)
    assert MEANS in failed(log)


def amended_story() -> Story:
    """Return a story whose alpha was amended after its first look, with all looks taken."""
    told = story()
    told.look(3)
    text = proposal_text().replace("alpha: 0.05", "alpha: 0.01")
    told.log.append(amendment_of(told.log, text))
    told.proposal = Proposal.model_validate(front(text))
    for count in (5, 8):
        told.look(count)
    return told


def test_look_is_replayed_by_the_rule_in_force_when_it_was_taken() -> None:
    told = amended_story()
    (reason,) = late_reasons(course_of(told.log, EXPERIMENT))
    action = "Repair the cause and register again"
    told.verdict(mode="exploratory", outcome="void", void_reasons=[reason], action=action)
    assert failed(told.log) == {}
    edit_result(Look, 0, alpha=0.01 / 3)(told.log)
    assert OUTCOME in failed(told.log)


def test_amendment_after_a_look_never_supports_anything() -> None:
    told = amended_story()
    told.verdict()
    assert MODE in failed(told.log)


def test_value_that_changes_after_a_late_amendment_fails() -> None:
    told = amended_story()
    (reason,) = late_reasons(course_of(told.log, EXPERIMENT))
    action = "Repair the cause and register again"
    told.verdict(mode="exploratory", outcome="void", void_reasons=[reason], action=action)
    edit_seed(Look, 1, 0, value=1.7)(told.log)
    assert LOOKS in failed(told.log)


def test_hidden_noise_floor_leaves_the_verdict_unrecomputed() -> None:
    log = floored().decided()
    place = next(i for i, entry in enumerate(log.found) if entry.kind == "noise_floor")
    floor = log.found[place]
    log.found[place] = replace(floor, body=Hidden(), body_bytes=b"", salt=b"")
    log.append(Redaction(what="personal_data", reason="it names a person"), floor.subject)
    log.found[-1] = replace(log.found[-1], refs=(floor.leaf,))
    (found,) = audit_claims(log)
    assert found.passed
    assert f"NOT RECOMPUTED: it rests on #{place}, redacted by entry" in found.detail


def test_checks_are_documented_under_their_numbers() -> None:
    text = (Path(__file__).parents[2] / "docs" / "record-format.md").read_text("utf-8")
    rows = re.findall(r"^\| c([0-9]+) \| ([^|]+) \|", text, re.MULTILINE)
    checks = audit_claims(story().decided())
    assert rows == [(str(found.number), found.check) for found in checks]


@pytest.mark.parametrize("claim", ["superior(0.02)", "equivalent(0.05)", "non_inferior(0.01)"])
@pytest.mark.parametrize("effect", [0.0, 0.03, 0.1])
def test_plain_rule_says_what_the_libraries_say(claim: str, effect: float) -> None:
    told = story(stopping="fixed(5)", seeds=5, claim=claim, effect=effect)
    values = told.decided() and of(told.log, Verdict)[0].body.values
    assert is_plain(told.proposal.decision)
    plain = PlainRule(proposal=told.proposal).at(values, 5, None)
    by_libraries = applied(told.proposal, None).at(values, 5, None)
    first, other = (said.by_hypothesis["H1"] for said in (plain, by_libraries))
    assert (first.outcome, first.n_control, first.alpha) == (other.outcome, 5, 0.05)
    for name in ("estimate", "lower", "upper", "degrees_of_freedom"):
        assert getattr(first, name) == pytest.approx(getattr(other, name), rel=1e-10)
    assert (plain.number, plain.num_seeds, plain.state, plain.next_seeds) == (1, 5, "final", None)


@pytest.mark.parametrize(("stopping", "seeds"), [("fixed(5)", 6), ("fixed(6)", 5)])
def test_rule_that_contradicts_its_design_is_no_rule(stopping: str, seeds: int) -> None:
    log = story(stopping="fixed(5)", seeds=5).decided()
    registered = of(log, Registration)[0].body
    frozen = registered.frozen
    changed = {
        **frozen,
        "decision": {**frozen["decision"], "stopping": stopping},
        "design": {**frozen["design"], "seeds": seeds},
    }
    log.replace_body("registration", frozen=changed)
    assert "the registered rule cannot be applied" in failed(log)[LOOKS]


def test_results_and_seeds_compare_every_field() -> None:
    """Whoever adds a field to a result or a seed decides here how it is audited."""
    assert set(ClaimResult.model_fields) == {
        "hypothesis", "claim", "metric", "direction", "outcome", "estimate", "lower", "upper",
        "degrees_of_freedom", "interval", "alpha", "reason",
    }  # fmt: skip
    assert set(SeedValue.model_fields) == {
        "seed_index", "value", "run", "checkpoint_sha256", "metrics",
    }  # fmt: skip
