import math

import pytest

from tests.reports.sample import EXPERIMENT, exploratory_log, sample_log
from workbench.registry.entries import ProxyRun, RunEnded, Trial
from workbench.reports.accounting import bill, sweep_accounting
from workbench.reports.facts import experiment_facts


def test_sweep_counts_come_from_the_trials_and_cite_them() -> None:
    facts = experiment_facts(sample_log(), EXPERIMENT)
    assert facts.sweep is not None
    told = sweep_accounting(facts.sweep)
    assert told.declared is not None
    assert (told.declared.value, told.ran, told.finished) == (16, 16, True)
    counts = {state: cited.value for state, cited in told.counts}
    assert counts == {"completed": 12, "pruned": 2, "failed": 1, "diverged": 1}
    assert all(len(cited.sources) == cited.value for _, cited in told.counts)
    assert told.disagreements == ()


def test_closing_count_that_hides_a_failed_trial_is_told() -> None:
    log = sample_log()
    log.replace_body("sweep_ended", counts={"completed": 13, "pruned": 2, "diverged": 1})
    facts = experiment_facts(log, EXPERIMENT)
    assert facts.sweep is not None
    told = sweep_accounting(facts.sweep).disagreements
    assert any("0 failed" in text and "show 1" in text for text in told)


def test_continued_sweep_keeps_its_first_budget() -> None:
    """C5: the declared number is a total, also across interruptions."""
    log = exploratory_log()
    start = log.found[0]
    log.append(start.body.model_copy(update={"already_done": 6}), start.subject)
    sweep = experiment_facts(log, start.subject).exploratory
    assert sweep is not None
    declared = sweep_accounting(sweep).declared
    assert declared is not None
    assert declared.value == 16


def test_bill_counts_every_second_once() -> None:
    log = sample_log()
    spent = math.fsum(
        entry.body.device_seconds
        for entry in log.found
        if isinstance(entry.body, Trial | ProxyRun | RunEnded)
    )
    assert bill(experiment_facts(log, EXPERIMENT)).device_seconds == pytest.approx(spent)


def test_bill_divides_a_killed_attempt_between_kept_and_discarded() -> None:
    costs = bill(experiment_facts(sample_log(), EXPERIMENT)).costs
    discarded = [cost for cost in costs if cost.outcome == "discarded"]
    assert [cost.items for cost in discarded] == [1]
    assert discarded[0].device_seconds == pytest.approx(12 * 0.158)
    assert discarded[0].tokens == 12 * 2048


def test_run_that_diverged_is_wasted_as_a_whole() -> None:
    log = sample_log()
    log.found = [
        e
        for e in log.found
        if not (isinstance(e.body, RunEnded) and e.body.run == "control/seed-0")
    ]
    end = next(e.body for e in log.found if isinstance(e.body, RunEnded))
    changes = {"run": "control/seed-0", "outcome": "diverged", "device_seconds": 50.0}
    log.append(end.model_copy(update=changes))
    found = bill(experiment_facts(log, EXPERIMENT))
    diverged = [c for c in found.costs if c.stage == "full scale" and c.outcome == "diverged"]
    assert [(cost.fate, cost.device_seconds) for cost in diverged] == [("wasted", 50.0)]


def test_shares_of_a_bill_sum_to_one() -> None:
    found = bill(experiment_facts(sample_log(), EXPERIMENT))
    assert sum(found.share(fate) for fate in ("kept", "stopped", "wasted")) == pytest.approx(1)
