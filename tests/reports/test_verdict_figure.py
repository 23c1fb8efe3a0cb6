import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.reports.looks import forged, story
from tests.reports.sample import EXPERIMENT, PROPOSAL, MemoryLog, sample_log
from workbench.registry.entries import Look, SeedValue
from workbench.reports.facts import experiment_facts
from workbench.reports.figures.canvas import Axis, Figure, spread_labels, tick_labels, ticks
from workbench.reports.figures.verdict import claim_figure
from workbench.reports.rulings import rulings_of


def drawn(log: MemoryLog, claim: int = 0) -> Figure | None:
    ruling = rulings_of(experiment_facts(log, EXPERIMENT))[claim]
    return claim_figure(ruling, name="verdict", said="Verdict", sources=())


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
    figure = drawn(log)
    assert figure is not None
    assert [word for word in words(figure.wide) if word in ("0", "δ", "−δ")] == marks


def test_verdict_without_any_value_has_no_figure() -> None:
    log = sample_log()
    values = {
        arm: [SeedValue(seed_index=0, run=f"{arm}/seed-0")] for arm in ("control", "treatment")
    }
    log.replace_body("verdict", values=values)
    assert drawn(log) is None


def test_void_verdict_shows_values_without_an_interval() -> None:
    log = sample_log()
    changes = {"estimate": None, "lower": None, "upper": None, "outcome": "void"}
    log.replace_body("verdict", **changes)
    figure = drawn(log)
    assert figure is not None
    assert figure.alt == "Verdict."
    assert "Δ" not in words(figure.wide)


def test_figure_shows_every_look_and_says_each_in_words() -> None:
    figure = drawn(story().decided())
    assert figure is not None
    rows = [word for word in words(figure.wide) if word in ("n\u00a0=\u00a03", "n\u00a0=\u00a05")]
    assert rows == ["n\u00a0=\u00a03", "n\u00a0=\u00a05"]
    assert figure.wide.count('class="interval earlier"') == 6
    for look in ("Look 1 at 3 seeds", "Look 2 at 5 seeds", "Look 3 at 8 seeds"):
        assert look in figure.alt
    assert [source.kind for source in figure.sources] == ["look"] * 3


def test_figure_of_a_family_has_the_values_of_the_claims_own_measure() -> None:
    log = story(family=True, stopping="fixed(5)", seeds=5).decided()
    figure = drawn(log, claim=2)
    assert figure is not None
    assert "bpb_docs, bits/byte" in words(figure.wide)
    assert [word for word in words(figure.wide) if word in ("0", "δ", "−δ")] == ["−δ", "0", "δ"]


@pytest.mark.parametrize(
    ("claim", "zones"),
    [
        ("superior(0.02)", ["refuted", "inconclusive", "supported"]),
        ("non_inferior(0.02)", ["refuted", "inconclusive", "supported"]),
        ("equivalent(0.05)", ["refuted", "inconclusive", "supported", "inconclusive", "refuted"]),
        ("equivalent(0.001)", ["refuted", "inconclusive", "refuted"]),
    ],
)
def test_strip_shows_the_outcomes_of_other_improvements_in_order(
    claim: str, zones: list[str]
) -> None:
    figure = drawn(story(claim=claim, stopping="fixed(5)", seeds=5).decided())
    assert figure is not None
    assert re.findall(r'class="zone (\w+)"', figure.wide) == zones
    assert figure.alt.count("The rule turns at") == 1


def test_claims_of_a_family_have_no_strip() -> None:
    log = story(family=True, stopping="fixed(5)", seeds=5).decided()
    for claim in range(3):
        figure = drawn(log, claim=claim)
        assert figure is not None
        assert 'class="zone' not in figure.wide
        assert "strip" not in figure.caption
        assert "The rule turns at" not in figure.alt


def test_bound_that_does_not_exist_is_an_open_end() -> None:
    log = story(interval="paired_t", stopping="anytime", seeds=6, effect=0.02).decided()
    nothing = {"lower": None, "upper": None}

    def without_bounds(body: Look) -> Look:
        results = [result.model_copy(update=nothing) for result in body.results]
        return body.model_copy(update={"results": results})

    forged(log, "look", without_bounds, 0)
    figure = drawn(log)
    assert figure is not None
    assert "Look 1 at 3 seeds: +0.0230, no bounds, inconclusive" in figure.alt


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
