"""`workbench amend` and `workbench withdraw` as a researcher meets them, at 80 columns."""

from typing import Any

import pytest

from tests.cli.conftest import Command, Terminal
from tests.cli.test_commands import strict
from tests.experiments.test_amendments import ALPHA, PROPOSAL, edit, put
from tests.labs import SUBJECT, LabFolder
from tests.registry.test_amended import exposure
from workbench.cli.changes import ReasonName
from workbench.experiments.amendments import REASON_CLASSES

WHY = ("--reason-class", "error", "--reason", "mistyped")


def test_amend_shows_diff_timing_and_effect_before_it_asks(
    registered_lab: LabFolder, workbench: Command
) -> None:
    edit(registered_lab, ALPHA, (PROPOSAL, "# What the answer", "New prose.\n\n# What the answer"))
    said = workbench("amend", "1", *WHY, lab=registered_lab)
    assert said.code == 5
    lines = said.out.splitlines()
    assert lines[0] == f"Amendment of {SUBJECT}: 2 fields changed"
    assert lines[1:4] == ["  proposal  decision.alpha", "      was  0.05", "      now  0.01"]
    assert "      +New prose." in lines
    assert any(line.startswith("Known   before anything ran") for line in lines)
    assert any(line.startswith("Effect  none on the inference") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "nothing was written" in said.err
    assert "--yes" in said.err
    assert registered_lab.entries("amendment") == []


def test_amend_tells_the_chances_of_the_rule_before_and_after(
    registered_lab: LabFolder, workbench: Command
) -> None:
    edit(registered_lab, ALPHA)
    said = workbench("amend", "1", *WHY, lab=registered_lab)
    assert "Rule    chances unknown" in said.out
    edit(registered_lab, (PROPOSAL, "alpha: 0.01", "alpha: 0.05"))
    known = "noise: {sd: 0.006, source: a paper}\n  underpowered: "
    edit(registered_lab, (PROPOSAL, "underpowered: ", known))
    assert workbench("amend", "1", *WHY, "--yes", lab=registered_lab).code == 0
    edit(registered_lab, (PROPOSAL, "sd: 0.006,", "sd: 0.004,"), ALPHA)
    said = workbench("amend", "1", *WHY, "--yes", lab=registered_lab)
    told = " ".join(said.out.split())
    bodies = registered_lab.bodies("amendment")
    chances = [f"{body.power.chances['supported']:.0%}" for body in bodies]
    assert f"Rule if the improvement is truly +0.02: supported {chances[1]}" in told
    assert f"before: if the improvement is truly +0.02: supported {chances[0]}" in told
    assert chances[0] != chances[1]
    assert max(map(len, said.out.splitlines())) <= 80


def test_amend_with_yes_writes_and_says_what_comes_next(
    registered_lab: LabFolder, workbench: Command
) -> None:
    edit(registered_lab, ALPHA)
    said = workbench("amend", "1", *WHY, "--yes", lab=registered_lab)
    assert said.code == 0
    (entry,) = registered_lab.entries("amendment")
    assert f"Amended {SUBJECT}: entry {entry.sequence}  {entry.id}" in said.out
    told = workbench("status", lab=registered_lab)
    assert "amended 1× (in time)" in " ".join(told.out.split())


@pytest.mark.parametrize(("answer", "code", "written"), [("y\n", 0, 1), ("n\n", 1, 0)])
def test_amend_asks_on_a_terminal(
    registered_lab: LabFolder,
    workbench: Command,
    terminal: Terminal,
    answer: str,
    code: int,
    written: int,
) -> None:
    edit(registered_lab, ALPHA)
    terminal(answer)
    said = workbench("amend", "1", *WHY, lab=registered_lab)
    assert said.code == code
    assert said.out.index("Effect") < said.out.index("Amend?")
    assert len(registered_lab.entries("amendment")) == written


def test_amend_after_a_look_names_it_and_the_way_that_keeps_the_verdict(
    registered_lab: LabFolder, workbench: Command
) -> None:
    put(registered_lab, exposure())
    edit(registered_lab, ALPHA)
    said = workbench("amend", "1", "--dry-run", lab=registered_lab)
    assert said.code == 0
    told = " ".join(said.out.split())
    assert "Known outcomes have been seen exposure, entry 3" in told
    assert "the verdict will be exploratory and void" in told
    assert "workbench note -e 0001" in told
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.usefixtures("one_thread")
def test_amend_after_the_sweep_says_that_its_values_were_seen(
    swept_lab: LabFolder, workbench: Command
) -> None:
    edit(swept_lab, ALPHA)
    told = " ".join(workbench("amend", "1", "--dry-run", lab=swept_lab).out.split())
    assert "Seen 3 values of the sweep" in told
    assert "nothing was promoted, opened or judged yet" in told
    workbench("amend", "1", *WHY, "--yes", lab=swept_lab)
    assert workbench("chronicle", "1", lab=swept_lab).code == 0
    chronicle = swept_lab.root / "reports" / SUBJECT / "chronicle.md"
    assert "The sweep had shown 3\u00a0values" in chronicle.read_text("utf-8")


def test_amend_dry_run_as_json(registered_lab: LabFolder, workbench: Command) -> None:
    edit(registered_lab, ALPHA)
    said = workbench("amend", "1", "--dry-run", "--json", lab=registered_lab)
    assert said.code == 0
    found: Any = strict(said.out)
    assert found["changes"] == [
        {"document": "proposal", "path": "decision.alpha", "old": "0.05", "new": "0.01"}
    ]
    assert found["timing"] == "before_any_run"
    assert [entry["kind"] for entry in found["rests_on"]] == ["registration"]
    assert "entry" not in found
    assert registered_lab.entries("amendment") == []


def test_amend_as_json_writes_with_yes_only(registered_lab: LabFolder, workbench: Command) -> None:
    edit(registered_lab, ALPHA)
    assert workbench("amend", "1", *WHY, "--json", lab=registered_lab).code == 5
    said = workbench("amend", "1", *WHY, "--json", "--yes", lab=registered_lab)
    (entry,) = registered_lab.entries("amendment")
    assert strict(said.out)["entry"]["id"] == entry.id


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ((), "--reason-class and --reason"),
        (WHY[:2], "--reason missing"),
        (WHY[2:], "--reason-class missing"),
    ],
)
def test_amend_says_which_reason_it_misses(
    registered_lab: LabFolder, workbench: Command, given: tuple[str, ...], missing: str
) -> None:
    edit(registered_lab, ALPHA)
    said = workbench("amend", "1", *given, "--yes", lab=registered_lab)
    assert said.code == 3
    assert missing in said.err
    assert registered_lab.entries("amendment") == []


def test_amend_without_a_change_or_a_registration_is_refused(
    registered_lab: LabFolder, filed_stage: LabFolder, workbench: Command
) -> None:
    assert workbench("amend", "1", "--dry-run", lab=registered_lab).code == 5
    assert workbench("amend", "1", "--dry-run", lab=filed_stage).code == 4


def test_reason_names_are_those_of_the_record() -> None:
    assert [name.value for name in ReasonName] == list(REASON_CLASSES)


def test_withdraw_says_what_it_means_and_status_shows_it(
    registered_lab: LabFolder, workbench: Command
) -> None:
    why = ("--reason", "the corpus is not ours")
    said = workbench("withdraw", "1", *why, "--yes", lab=registered_lab)
    assert said.code == 0
    assert f"Withdrew {SUBJECT}" in said.out
    assert "nothing confirmatory of it runs any more" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    status = strict(workbench("status", "--json", lab=registered_lab).out)[0]
    assert (status["stage"], status["detail"]) == ("withdrawn", "the corpus is not ours")
    refused = workbench("sweep", "1", lab=registered_lab)
    assert refused.code == 5
    assert "was withdrawn" in refused.err


def test_withdraw_as_json(registered_lab: LabFolder, workbench: Command) -> None:
    why = ("--reason", "no budget", "--json")
    assert workbench("withdraw", "1", *why, lab=registered_lab).code == 5
    dry: Any = strict(workbench("withdraw", "1", *why, "--dry-run", lab=registered_lab).out)
    assert "entry" not in dry
    assert registered_lab.entries("withdrawal") == []
    found: Any = strict(workbench("withdraw", "1", *why, "--yes", lab=registered_lab).out)
    assert (found["experiment"], found["reason"]) == (SUBJECT, "no budget")
    assert found["timing"] == dry["timing"] == "before_any_run"
    assert found["entry"]["kind"] == "withdrawal"


def test_withdraw_shows_what_it_means_before_it_asks(
    registered_lab: LabFolder, workbench: Command
) -> None:
    why = ("--reason", "no budget")
    said = workbench("withdraw", "1", *why, lab=registered_lab)
    assert said.code == 5
    assert "Known   before anything ran" in said.out
    assert "never taken back" in said.out
    assert "workbench withdraw 1 --reason … --yes" in said.err
    assert workbench("withdraw", "1", *why, "--dry-run", lab=registered_lab).code == 0
    assert registered_lab.entries("withdrawal") == []


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("withdraw", "1", "--reason", "no budget"), "withdrawal"),
        (("reveal", "1"), "reveal"),
        (("keys", "rotate", "log", "--why", "scheduled", "--reason", "yearly"), "key_rotation"),
    ],
)
@pytest.mark.parametrize(("answer", "code", "written"), [("y\n", 0, 1), ("n\n", 1, 0)])
def test_what_cannot_be_taken_back_asks_on_a_terminal(
    filed_lab: LabFolder,
    workbench: Command,
    terminal: Terminal,
    command: tuple[str, ...],
    kind: str,
    answer: str,
    code: int,
    written: int,
) -> None:
    embargo = ("--embargo-until", "2099-12-31", "--embargo-reason", "under review")
    workbench("register", "1", *embargo, lab=filed_lab)
    terminal(answer)
    assert workbench(*command, lab=filed_lab).code == code
    assert len(filed_lab.entries(kind)) == written
