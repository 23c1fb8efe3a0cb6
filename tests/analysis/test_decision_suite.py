"""Measured errors stay at α, published figures are reproduced, and the document says what was
measured."""

import math
from functools import cache
from pathlib import Path

import pytest

from tests.analysis import decision_suite as suite
from tests.analysis.decision_suite import ALPHA, CLAIMS, DOCUMENT, HEADINGS, RULES, Row
from workbench.analysis.simulation import Noise, NormalNoise

FIGURES = 4


def beyond(rate: float, num: int) -> float:
    """By how many standard errors a measured rate exceeds α."""
    return (rate - ALPHA) / math.sqrt(ALPHA * (1 - ALPHA) / num)


def table(mark: str) -> list[list[str]]:
    text = DOCUMENT.read_text("utf-8")
    body = text.partition(f"<!-- {mark} -->\n")[2].partition(f"<!-- end {mark} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]


@cache
def measured(name: str, noise: Noise) -> dict[tuple[str, str], Row]:
    return {row.label: row for row in suite.rows(name, noise)}


@pytest.fixture(params=["normal", "real"])
def noise(request: pytest.FixtureRequest) -> tuple[str, Noise]:
    if request.param == "normal":
        return "normal", NORMAL
    return "real", _real(request.getfixturevalue("shared_data"))


NORMAL = NormalNoise(sd=1.0)


@cache
def _real(shared: Path) -> Noise:
    return suite.real_noise(shared)


def test_document_has_a_row_for_every_rule_and_claim() -> None:
    headings, _, *lines = table("rates")
    assert headings == HEADINGS
    assert [tuple(line[:2]) for line in lines] == [(r, c) for r in RULES for c in CLAIMS]


def test_document_shows_no_rule_beyond_its_alpha() -> None:
    for line in table("rates")[2:]:
        exact = line[0].startswith("perm_exact") and "8" in line[0]
        num = suite.NUM_EXACT if exact else suite.NUM
        errors = [float(line[place]) for place in (2, 3, 6, 7)]
        assert max(beyond(error, num) for error in errors) < 3.5, line


def test_document_shows_what_habits_cost() -> None:
    lines = table("habits")[2:]
    assert len(lines) == 7
    assert all(float(line[1]) > 3 * ALPHA > ALPHA >= float(line[3]) for line in lines)


@pytest.mark.slow
def test_no_rule_errs_beyond_its_alpha(noise: tuple[str, Noise]) -> None:
    found = measured(*noise)
    assert len(found) == len(RULES) * len(CLAIMS)
    for row in found.values():
        assert beyond(row.false_support, row.num) < 3.5, row
        assert beyond(row.false_refutation, row.num) < 3.5, row


@pytest.mark.slow
def test_expected_figures_are_reproduced(noise: tuple[str, Noise]) -> None:
    found = measured(*noise)
    welch = found["welch_t fixed(5)", "superior(0)"]
    assert welch.false_support == pytest.approx(0.045, abs=0.005)
    assert welch.power == pytest.approx(0.88, abs=0.02)
    group = found["welch_t group(3,5,8)", "superior(2)"]
    assert group.false_support == pytest.approx(0.024, abs=0.005)
    assert group.power == pytest.approx(0.92, abs=0.02)
    assert group.mean_seeds == pytest.approx(5.4, abs=0.2)
    assert found["paired_t anytime", "superior(0)"].false_support <= 0.03


@pytest.mark.slow
def test_document_says_what_is_measured(noise: tuple[str, Noise]) -> None:
    name, _ = noise
    place = HEADINGS.index(f"false support, {name}")
    for line in table("rates")[2:]:
        row = measured(*noise)[line[0], line[1]]
        rates = (row.false_support, row.false_refutation, row.power)
        for shown, rate in zip(line[place : place + 3], rates, strict=True):
            # Another numpy may draw otherwise: within the error of two simulations.
            error = math.sqrt(2 * max(rate * (1 - rate), 0.001) / row.num)
            assert float(shown) == pytest.approx(rate, abs=0.0005 + 4 * error), line


@pytest.mark.slow
def test_habits_inflate_and_rules_hold(noise: tuple[str, Noise]) -> None:
    for habit in suite.habits(noise[1]):
        assert habit.error > 3 * ALPHA, habit
        assert beyond(habit.held, habit.num) < 3.5, habit


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1.5, 3.0])
def test_calibrated_rule_holds_its_error_when_both_arms_are_noisier(scale: float) -> None:
    for n in (3, 5, 8):
        assert beyond(suite.mismatch((scale, scale), NORMAL, n), suite.NUM) < 3.5
