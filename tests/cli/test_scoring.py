"""`workbench scoreboard` as a user meets it."""

import json
import shutil

import pytest

from tests.cli.conftest import Command
from tests.labs import LabFolder
from tests.reports import forecast_log as logs
from tests.reports.forecast_log import Story
from tests.reports.sample import MemoryLog
from tests.reports.test_hidden import hide
from workbench.lab.reading import Reading
from workbench.reports.rankings import rankings
from workbench.reports.scores import lab_scoreboard
from workbench.reports.site import all_facts


def test_scoreboard_of_a_lab_without_forecasts_says_what_makes_them(
    workbench: Command, registered_lab: LabFolder
) -> None:
    said = workbench("scoreboard", lab=registered_lab)
    assert said.code == 0
    assert said.out.startswith("No forecast yet: workbench promote NNNN")
    found = json.loads(workbench("scoreboard", "--json", lab=registered_lab).out)
    assert found == {"boards": [], "forecasts": [], "hidden": [], "rankings": []}


@pytest.mark.slow
def test_scoreboard_is_the_same_from_the_store_and_from_the_published_files(
    workbench: Command, decided_lab: LabFolder
) -> None:
    stored = [workbench("scoreboard", *flag, lab=decided_lab).out for flag in ([], ["--json"])]
    shutil.rmtree(decided_lab.root / ".workbench")
    found = [workbench("scoreboard", *flag, lab=decided_lab).out for flag in ([], ["--json"])]
    assert found == stored
    assert "3 forecasts scored, of 1 experiment." in stored[0]
    assert "improvement: uncalibrated, n<30" in stored[0]
    assert "no conclusion, m<10" in stored[0]
    values = json.loads(stored[1])
    assert {record["fate"] for record in values["forecasts"]} == {"scored"}
    assert [r["kind"] for r in values["rankings"]] == [
        "proxies against full scale",
        "between proxy scales",
    ]


def told(
    workbench: Command, log: MemoryLog, lab: LabFolder, patch: pytest.MonkeyPatch, *flags: str
) -> str:
    """Return what the command says of a log."""
    found = all_facts([log]).values()
    patch.setattr(Reading, "scoreboard", lambda self: (lab_scoreboard(found), rankings(found)))
    said = workbench("scoreboard", *flags, lab=lab)
    assert (said.code, said.err) == (0, "")
    return said.out


def eventful_log() -> MemoryLog:
    log = logs.log_of([Story(name="0001-a"), Story(name="0002-b", method="last_scale", ratio=50.0)])
    story = Story(name="0003-c")
    logs.register(log, story)
    logs.promote(log, story)
    logs.forecast(log, story)
    logs.begin(log, story)
    logs.add(log, logs.forecast_body(story, "improvement"), story)
    return hide(log, [next(e.sequence for e in log.found if e.kind == "forecast")])


def test_scoreboard_fits_80_columns_and_names_what_is_left_out(
    workbench: Command, filed_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = told(workbench, eventful_log(), filed_lab, monkeypatch)
    assert "5 forecasts scored, of 2 experiments. Without a result: 3 open." in said
    assert "2 of 3" in said
    assert "  data_mixture, last_scale" in said
    assert "  10x to 100x" in said
    assert "Left out: 0003 improvement, entry " in said
    assert "late, made after a full-scale run began in entry " in said
    assert "Hidden: 0001, entry " in said
    tables = [line for line in said.splitlines() if not line.startswith(("Left", "Hidden"))]
    assert max(map(len, tables)) <= 90


def test_json_holds_every_forecast_with_its_entry(
    workbench: Command, filed_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = eventful_log()
    found = json.loads(told(workbench, log, filed_lab, monkeypatch, "--json"))
    assert [board["target"] for board in found["boards"]] == ["improvement", "treatment", "control"]
    assert len(found["forecasts"]) == 9
    for record in found["forecasts"]:
        entry = log.found[record["entry"]]
        assert (entry.leaf, entry.body.target) == (record["leaf"], record["target"])
    assert [hidden["experiment"] for hidden in found["hidden"]] == ["0001-a"]
    (standing, *_) = found["boards"][0]["standings"]
    assert standing["grade"] == "uncalibrated, n<30"


def test_candidates_that_are_lost_and_noise_that_is_unknown_are_said(
    workbench: Command, filed_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = eventful_log()
    runs = [e.sequence for e in log.found if e.kind == "proxy_run"]
    hide(log, runs[:1])
    said = told(workbench, log, filed_lab, monkeypatch)
    assert "without a value at both: control" in said
    assert "Between proxy scales" in said
    assert "no conclusion, m<10" in said
