from typing import Any

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, registration, sample_log
from workbench.reports.facts import experiment_facts
from workbench.reports.status import state_of, status_lines


def cut_after(kind: str, last: bool = True) -> MemoryLog:
    log = sample_log()
    places = [i for i, entry in enumerate(log.found) if entry.kind == kind]
    log.found = log.found[: places[-1 if last else 0] + 1]
    return log


@pytest.mark.parametrize(
    ("kind", "state", "said"),
    [
        ("registration", "registered", "nothing has run"),
        ("anchor", "registered", "nothing has run"),
        ("sweep_started", "sweeping", "0 of 16"),
        ("trial", "sweeping", "16 of 16"),
        ("sweep_ended", "swept", "nothing promoted"),
        ("proxy_run", "swept", "nothing promoted"),
        ("promotion", "promoted", "trial-04 was promoted"),
        ("run_ended", "ran", "the verdict is still to be computed"),
        ("verdict", "supported", "Use the promoted mixture"),
    ],
)
def test_status_tells_how_far_the_experiment_has_come(kind: str, state: str, said: str) -> None:
    facts = experiment_facts(cut_after(kind), EXPERIMENT)
    assert state_of(facts) == state
    lines = status_lines(facts)
    assert [line.label for line in lines] == ["Question", "State", "Result", "Forecast", "Cost"]
    assert said in lines[1].text.replace("\u00a0", " ")


def test_status_says_what_was_explored_before_it_was_registered() -> None:
    log = exploratory_log(EXPERIMENT)
    count = len(log.found)
    log.append(registration())
    _, state, *_ = status_lines(experiment_facts(log, EXPERIMENT))
    text = state.text.replace("\u00a0", " ")
    assert f"Explored before it was registered: {count} entries." in text
    after = sample_log()
    _, state, *_ = status_lines(experiment_facts(after, EXPERIMENT))
    assert "Explored" not in state.text


def test_status_of_running_experiment_counts_finished_runs() -> None:
    facts = experiment_facts(cut_after("incident"), EXPERIMENT)
    assert state_of(facts) == "running"
    assert "3 of 6" in status_lines(facts)[1].text


def test_status_with_no_candidate_says_that_it_stopped() -> None:
    log = cut_after("promotion")
    log.replace_body("promotion", chosen="none", reason="no candidate beat the control")
    facts = experiment_facts(log, EXPERIMENT)
    assert state_of(facts) == "stopped"
    assert "no candidate may be promoted" in status_lines(facts)[1].text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"outcome": "void", "void_reasons": ["run x is missing"]}, "Void: run x is missing."),
        ({"estimate": None, "void_reasons": []}, "no estimate could be computed"),
        ({}, "n\u00a0=\u00a03 + 3 runs; rule superior(0.02)"),
    ],
)
def test_result_is_told_with_estimate_bounds_and_n_or_with_why_not(
    changes: dict[str, Any], said: str
) -> None:
    log = sample_log()
    log.replace_body("verdict", **changes)
    assert said in status_lines(experiment_facts(log, EXPERIMENT))[2].text


def test_every_number_of_the_status_cites_an_entry() -> None:
    for line in status_lines(experiment_facts(sample_log(), EXPERIMENT)):
        assert all(clause.sources for clause in line.clauses), line


def test_exploratory_status_never_sounds_decided() -> None:
    facts = experiment_facts(exploratory_log(), "recipe:mixture@1")
    text = " ".join(line.text for line in status_lines(facts))
    assert "can never support a verdict" in text
    assert "Decided" not in text
