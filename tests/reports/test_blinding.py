"""Chronicles before a verdict show no number that compares the arms, unless it was opened."""

import re
from dataclasses import replace

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, sample_log
from workbench.registry.entries import Exposure, RunEnded
from workbench.reports.blinding import hides_outcomes, shown_lineages
from workbench.reports.blocks import Picture
from workbench.reports.chronicle import chronicle
from workbench.reports.facts import experiment_facts
from workbench.reports.render import chronicle_html, chronicle_markdown

LABELLED = re.compile(r"seed-\d, step \d+: \d")
"""A value of a run at a step, as a validation curve labels it."""


def undecided() -> MemoryLog:
    """The sample up to what came before its sealed split was opened."""
    log = sample_log()
    first = next(
        place
        for place, entry in enumerate(log.found)
        if isinstance(entry.body, Exposure) and entry.body.what == "sealed_test"
    )
    del log.found[first:]
    return log


def opened(log: MemoryLog, *runs: str) -> MemoryLog:
    body = Exposure(what="validation_outcomes", by="team lead", purpose="a doubt", runs=list(runs))
    log.append(body)
    return log


def pages(log: MemoryLog) -> str:
    told = chronicle(experiment_facts(log, EXPERIMENT))
    return chronicle_html(told) + chronicle_markdown(told)


def figures(log: MemoryLog) -> set[str]:
    told = chronicle(experiment_facts(log, EXPERIMENT))
    blocks = [block for part in told.sections for block in part.blocks]
    return {block.figure.name for block in blocks if isinstance(block, Picture)}


def test_undecided_chronicle_shows_no_curve_by_arm_and_says_how_to_open_them() -> None:
    log = undecided()
    assert hides_outcomes(experiment_facts(log, EXPERIMENT))
    text = pages(log)
    assert {"loss", "validation"} & figures(log) == set()
    assert "attempts" in figures(log)
    assert "hidden until the verdict" in text
    assert "workbench outcomes 0001" in text
    assert "ends at a mean of" not in text
    assert not LABELLED.search(text)


def test_decided_chronicle_shows_the_curves() -> None:
    log = sample_log()
    assert {"loss", "validation"} <= figures(log)
    assert LABELLED.search(pages(log))
    assert "hidden until the verdict" not in pages(log)


def test_exploratory_chronicle_hides_nothing() -> None:
    log = exploratory_log()
    assert not hides_outcomes(experiment_facts(log, log.found[-1].subject))


def test_opened_curves_are_shown_of_the_runs_that_were_opened() -> None:
    log = opened(undecided(), "control/seed-0", "treatment/seed-0")
    assert {"loss", "validation"} <= figures(log)
    text = pages(log)
    assert "what team lead opened" in text
    assert "hidden until the verdict" not in text
    shown = shown_lineages(experiment_facts(log, EXPERIMENT))
    assert {run.run for run in shown} == {"control/seed-0", "treatment/seed-0"}


@pytest.mark.parametrize("when", ["while it ran", "afterwards"])
def test_attempt_that_ended_after_the_opening_stays_hidden(when: str) -> None:
    log = undecided()
    last = next(entry for entry in reversed(log.found) if isinstance(entry.body, RunEnded))
    opened(log, getattr(last.body, "run", ""))
    if when == "while it ran":
        exposure = log.found.pop()
        log.found.insert(last.sequence, replace(exposure, sequence=last.sequence - 1))
    runs = shown_lineages(experiment_facts(log, EXPERIMENT))
    shown = {a.ended.leaf for run in runs for a in run.attempts if a.ended}
    assert (last.leaf in shown) == (when == "afterwards")
