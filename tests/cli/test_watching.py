"""`health` and `outcomes` as a user meets them, and the side doors to outcomes that are shut."""

import json
import re
import sys
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.labs import LabFolder

WHY = ["--by", "lead", "--why", "the seeds look far apart"]


def values(lab: LabFolder) -> set[str]:
    """Return every validation value of a full-scale run as it would be printed."""
    return {
        f"{value:.4f}"
        for end in lab.bodies("run_ended")
        for point in end.evaluations
        for value in point.values.values()
    }


def told(text: str, lab: LabFolder) -> set[str]:
    """Return the values that a number of the text begins with, to three decimals or more.

    The end of a longer number tells nothing: a time of 1796079183.519 seconds is no loss of 3.519.
    """
    return {v for v in values(lab) if re.search(rf"(?<![\d.]){re.escape(v[:-1])}", text)}


def test_told_finds_a_value_wherever_a_number_begins_with_it(finished_lab: LabFolder) -> None:
    value = min(values(finished_lab))
    for text in (value, value[:-1], f"-{value}", f'"loss": {value}71', f"bpb={value}"):
        assert value in told(text, finished_lab), text
    assert told(f"179607918{value}", finished_lab) == set()


def test_health_fits_80_columns_and_tells_no_outcome(
    finished_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("health", "1", lab=finished_lab)
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= 80
    assert len(re.findall(r"^treatment/seed-\d +1 +completed +12/12 ", said.out, re.MULTILINE)) == 3
    assert "6 of at most 6 runs have started" in said.out
    assert "workbench outcomes 1" in said.out
    assert told(said.out, finished_lab) == set()


def test_health_json_is_strict(finished_lab: LabFolder, workbench: Command) -> None:
    said = workbench("health", "1", "--json", lab=finished_lab)
    found = json.loads(said.out, parse_constant=_refuse)
    assert [run["condition"] for run in found["runs"]] == ["completed"] * 6
    assert found["runs"][0]["signals"]["loss_trend"] == "too short"
    assert told(said.out, finished_lab) == set()


def _refuse(constant: str) -> Any:
    raise AssertionError(constant)


@pytest.mark.parametrize(
    "command", [["run", "1"], ["status"], ["status", "--json"], ["health", "1"], ["verify"]]
)
@pytest.mark.usefixtures("one_thread")
def test_no_view_tells_an_outcome_before_the_verdict(
    finished_lab: LabFolder, workbench: Command, command: list[str]
) -> None:
    said = workbench(*command, lab=finished_lab)
    assert said.code == 0
    assert told(said.out + said.err, finished_lab) == set()
    assert finished_lab.entries("exposure") == []


@pytest.mark.usefixtures("one_thread")
def test_run_says_where_its_values_are_and_shows_them_after_the_verdict(
    finished_lab: LabFolder, workbench: Command
) -> None:
    before = workbench("run", "1", lab=finished_lab).out
    assert "hidden until the verdict" in before
    assert "validation bpb_macro" not in before
    workbench("verdict", "1", lab=finished_lab)
    after = workbench("run", "1", lab=finished_lab).out
    for end in finished_lab.bodies("run_ended"):
        assert f"{end.evaluations[-1].values['bpb_macro']:.4f}" in after
    assert "hidden" not in after
    for said in (before, after):
        assert max(map(len, said.splitlines())) <= 80


def test_outcomes_says_what_it_means_then_logs_then_shows(
    finished_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("outcomes", "1", *WHY, "--yes", lab=finished_lab)
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    meaning, _, rest = said.out.partition("Recorded: exposure, entry")
    assert told(meaning, finished_lab) == set()
    meaning = " ".join(meaning.split())
    assert "lead opened them: the seeds look far apart" in meaning
    (promotion,) = finished_lab.entries("promotion")
    assert f"as it already does since the promotion (entry {promotion.sequence})" in meaning
    assert "stays confirmatory" in meaning
    assert values(finished_lab) <= set(rest.split())
    again = workbench("outcomes", "1", *WHY, "--yes", lab=finished_lab)
    assert "opened once before" in again.out


def test_outcomes_asks_on_a_terminal_and_takes_no_for_an_answer(
    finished_lab: LabFolder, workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    said = workbench("outcomes", "1", *WHY, lab=finished_lab)
    assert (said.code, "Nothing was written." in said.out) == (1, True)
    assert told(said.out, finished_lab) == set()
    assert finished_lab.entries("exposure") == []
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert workbench("outcomes", "1", *WHY, lab=finished_lab).code == 0
    assert len(finished_lab.entries("exposure")) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--yes"], 3, "says why"),
        ([*WHY], 5, "here nobody can answer"),
        ([*WHY, "--json"], 5, "--yes"),
    ],
)
def test_outcomes_that_are_not_opened_stay_hidden(
    finished_lab: LabFolder, workbench: Command, arguments: list[str], code: int, why: str
) -> None:
    said = workbench("outcomes", "1", *arguments, lab=finished_lab)
    assert (said.code, why in said.err) == (code, True)
    assert told(said.out + said.err, finished_lab) == set()
    assert finished_lab.entries("exposure") == []


def test_outcomes_json_names_the_exposure_and_every_point(
    finished_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("outcomes", "1", *WHY, "--yes", "--json", lab=finished_lab)
    found = json.loads(said.out, parse_constant=_refuse)
    (entry,) = finished_lab.entries("exposure")
    assert found["exposure"] == {"sequence": entry.sequence, "id": entry.id}
    assert {point["arm"] for point in found["points"]} == {"control", "treatment"}
    assert {point["step"] for point in found["points"]} == {3, 6, 9, 12}


def test_outcomes_of_a_decided_experiment_are_shown_without_a_question(
    decided_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("outcomes", "1", lab=decided_lab)
    assert said.code == 0
    assert values(decided_lab) <= set(said.out.split())
    assert "Recorded" not in said.out
