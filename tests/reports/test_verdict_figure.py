from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.reports.sample import EXPERIMENT, PROPOSAL, MemoryLog, sample_log
from workbench.registry.entries import Verdict
from workbench.reports.facts import Cited, experiment_facts, of_kind
from workbench.reports.figures.canvas import Axis, spread_labels, tick_labels, ticks
from workbench.reports.figures.verdict import verdict_intervals


def verdict_of(log: MemoryLog) -> Cited[Verdict]:
    return of_kind(log.found, Verdict)[0]


def words(svg: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]


@pytest.mark.parametrize(
    ("claim", "marks"),
    [
        ("superior(0.02)", ["0", "δ"]),
        ("superior_by(0.02)", ["0", "δ"]),
        ("non_inferior(0.02)", ["−δ", "0"]),
        ("equivalent(0.02)", ["−δ", "0", "δ"]),
        ("superior(0.0)", ["0"]),
    ],
)
def test_verdict_figure_marks_where_the_rule_changes_its_mind(claim: str, marks: list[str]) -> None:
    log = sample_log(proposal=PROPOSAL.replace("superior(0.02)", claim))
    facts = experiment_facts(log, EXPERIMENT)
    figure = verdict_intervals(verdict_of(log), facts.proposal)
    assert figure is not None
    assert [word for word in words(figure.wide) if word in ("0", "δ", "−δ")] == marks


def test_verdict_without_any_value_has_no_figure() -> None:
    verdict = verdict_of(sample_log())
    values = {
        arm: [seed.model_copy(update={"value": None}) for seed in seeds]
        for arm, seeds in verdict.value.values.items()
    }
    empty = verdict.value.model_copy(update={"values": values})
    assert verdict_intervals(Cited(value=empty, sources=verdict.sources), None) is None


def test_void_verdict_shows_values_without_an_interval() -> None:
    verdict = verdict_of(sample_log())
    changes = {"estimate": None, "lower": None, "upper": None, "outcome": "void"}
    void = verdict.value.model_copy(update=changes)
    figure = verdict_intervals(Cited(value=void, sources=verdict.sources), None)
    assert figure is not None
    assert figure.alt == "Verdict void."
    assert "Δ" not in words(figure.wide)


@pytest.mark.parametrize(
    ("low", "high", "wanted", "labels"),
    [
        (0, 600, 6, ["0", "100", "200", "300", "400", "500", "600"]),
        (1.72, 1.79, 4, ["1.72", "1.74", "1.76", "1.78"]),
        (-0.01, 0.06, 4, ["0.00", "0.02", "0.04", "0.06"]),
        (0, 50_000, 5, ["0", "10\u202fk", "20\u202fk", "30\u202fk", "40\u202fk", "50\u202fk"]),
    ],
)
def test_ticks_are_round_and_told_apart(
    low: float, high: float, wanted: int, labels: list[str]
) -> None:
    assert tick_labels(ticks(low, high, wanted)) == labels


def test_logarithmic_axis_has_at_least_two_ticks() -> None:
    for low, high in ((1e-4, 1e-1), (0.9, 1.1), (3e11, 2e13), (0.011, 0.019)):
        found = Axis(low=low, high=high, start=0, end=100, log=True).ticks()
        assert len(found) >= 2
        assert all(low * 0.99 <= value <= high * 1.01 for value in found)


def test_labels_are_spread_in_order_and_inside() -> None:
    placed = spread_labels([50, 51, 52, 10], 16, 0, 60)
    ordered = sorted(placed)
    assert all(b - a >= 16 - 1e-9 for a, b in pairwise(ordered))
    assert max(placed) <= 60
    assert placed[0] < placed[1] < placed[2]
