"""Reveal, redact and the keys, as a user meets them."""

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import strict
from tests.labs import SUBJECT, LabFolder

EMBARGO = ["--embargo-until", "2099-12-31", "--embargo-reason", "under review"]


def test_register_under_embargo_says_what_stays_public(
    filed_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("register", "1", *EMBARGO, lab=filed_lab)
    assert (said.code, said.err) == (0, "")
    assert "embargo    until 2099-12-31: under review" in said.out
    assert "Public all the same: the folder's name" in said.out
    assert f"do not push experiments/{SUBJECT}" in said.out
    assert "workbench reveal 0001" in said.out
    said = workbench("status", lab=filed_lab)
    assert "embargo until" in said.out
    assert workbench("reveal", "1", "--json", lab=filed_lab).code == 5
    said = workbench("reveal", "1", "--json", "--yes", lab=filed_lab)
    assert strict(said.out) == {
        "experiment": SUBJECT, "entry": 4, "until": "2099-12-31", "num_entries": 1, "lost": [],
    }  # fmt: skip


def test_planned_embargo_is_shown_at_check_with_what_stays_public(
    filed_lab: LabFolder, workbench: Command
) -> None:
    path = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    planned = 'embargo:\n  until: "2099-12-31"\n  reason: under review\n'
    path.write_text(path.read_text("utf-8").replace("---\n", f"---\n{planned}", 1), "utf-8")
    said = workbench("check", "1", lab=filed_lab)
    assert said.code == 0, said.err
    assert "Under embargo until 2099-12-31: under review" in said.out
    told = " ".join(said.out.split())
    assert f"the folder ({SUBJECT}) may be renamed" in told
    assert "workbench propose TITLE --slug NAME" in told


def test_register_under_embargo_says_what_stays_public_before_it_writes(
    filed_lab: LabFolder, workbench: Command
) -> None:
    (filed_lab.root / "uncommitted").touch()
    said = workbench("register", "1", *EMBARGO, lab=filed_lab)
    assert said.code == 5
    assert said.out.startswith("Public all the same: the folder's name")


def test_slug_of_a_proposal_can_be_chosen(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("propose", "Secret: does MoE help?", "--slug", "Second", lab=filed_lab)
    assert "Filed experiments/0002-second/proposal.md" in said.out
    for path in (filed_lab.root / "experiments" / "0002-second").iterdir():
        assert "secret-does" not in path.read_text("utf-8")
    assert workbench("propose", "x", "--slug", "日本", lab=filed_lab).code == 3


HOSTILE = "x\x1b[2J\x1b]0;title\x07\nVERIFIED  99 entries\u202e\x9b1m"


def test_text_of_a_log_is_shown_and_never_obeyed_by_a_terminal(
    filed_lab: LabFolder, workbench: Command
) -> None:
    """The log may be a stranger's: a reason must not clear the screen or pass for the outcome."""
    terms = ["--embargo-until", "2099-12-31", "--embargo-reason", HOSTILE]
    said = workbench("register", "1", *terms, lab=filed_lab)
    refused = workbench("register", "1", lab=filed_lab)
    noted = workbench("redact", HOSTILE, "--what", "other", "--reason", "r", lab=filed_lab)
    workbench("publish", lab=filed_lab)
    verified = workbench("verify", "--from", "registry", lab=filed_lab)
    status = workbench("status", lab=filed_lab)
    for text in (*(each.out + each.err for each in (said, refused, noted, verified, status)),):
        assert not set(text) & set("\x1b\x07\x9b\u202e")
    outcome = [line for line in verified.out.splitlines() if line.startswith("VERIFIED")]
    assert outcome == [verified.out.splitlines()[-1]]
    assert r"x\x1b[2J\x1b]0;title\x07\nVERIFIED  99 entries\u202e\x9b1m" in verified.out


def test_register_with_half_an_embargo_is_refused(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("register", "1", "--embargo-until", "2099-12-31", lab=filed_lab)
    assert said.code == 3
    assert "--embargo-reason" in said.err


def test_reveal_says_what_comes_next_and_twice_is_refused(
    filed_lab: LabFolder, workbench: Command
) -> None:
    workbench("register", "1", *EMBARGO, lab=filed_lab)
    refused = workbench("reveal", "1", "--reason", "accepted", lab=filed_lab)
    assert (refused.code, filed_lab.entries("reveal")) == (5, [])
    assert "workbench reveal 1 --reason … --yes" in refused.err
    dry = workbench("reveal", "1", "--dry-run", lab=filed_lab)
    assert (dry.code, filed_lab.entries("reveal")) == (0, [])
    said = workbench("reveal", "1", "--reason", "accepted", "--yes", lab=filed_lab)
    assert said.code == 0
    assert said.out.startswith(dry.out)
    assert "to be published  1 entry with content" in said.out
    assert "Next: workbench publish" in said.out
    again = workbench("reveal", "1", lab=filed_lab)
    assert again.code == 5
    assert "no embargo" in again.err


def test_reveal_says_what_is_lost_for_ever(filed_lab: LabFolder, workbench: Command) -> None:
    workbench("register", "1", *EMBARGO, lab=filed_lab)
    why = ["--what", "legal_order", "--reason", "ordered", "--yes"]
    workbench("redact", "2", *why, lab=filed_lab)
    said = workbench("reveal", "1", "--yes", lab=filed_lab)
    assert "to be published  0 entries with content" in said.out
    assert "lost for ever    the content of 1 entry: #2" in said.out


def test_redact_shows_what_is_lost_and_what_is_not_erased_then_asks(
    registered_lab: LabFolder, workbench: Command
) -> None:
    workbench("note", "a name that must go", "-e", "1", lab=registered_lab)
    arguments = ["redact", "3", "--what", "personal_data", "--reason", "a name"]
    dry = workbench(*arguments, "--dry-run", lab=registered_lab)
    assert dry.code == 0
    assert f"Entry 3: note of {SUBJECT}" in dry.out
    assert "nothing rests on it" in dry.out
    assert "what git holds of registry/" in dry.out
    asked = workbench(*arguments, lab=registered_lab)
    assert asked.code == 5
    assert "--yes" in asked.err
    assert len(registered_lab.entries()) == 4
    done = workbench(*arguments, "--yes", lab=registered_lab)
    assert done.code == 0
    assert "recorded as entry 4" in done.out
    store = (registered_lab.root / ".workbench" / "ledger.db").read_bytes()
    assert b"a name that must go" not in store
    told = workbench("redact", "3", "--what", "other", "--reason", "r", "-y", lab=registered_lab)
    assert told.code == 5
    assert "no body here" in told.err


def test_redact_of_what_may_be_an_experiment_is_refused(
    registered_lab: LabFolder, workbench: Command
) -> None:
    why = ["--what", "other", "--reason", "r", "--yes"]
    refused = workbench("redact", "0001", *why, lab=registered_lab)
    assert refused.code == 3
    assert "0001 may be experiment 0001 or entry 1" in refused.err
    assert "write #1 for the entry" in refused.err
    assert registered_lab.entries("redaction") == []
    assert workbench("redact", "#1", *why, lab=registered_lab).code == 0


def test_redact_as_json(registered_lab: LabFolder, workbench: Command) -> None:
    arguments = ["redact", "1", "--what", "licence", "--reason", "r", "--dry-run", "--json"]
    said = strict(workbench(*arguments, lab=registered_lab).out)
    assert (said["entry"], said["kind"], said["redaction"]) == (1, "registration", None)
    assert "the promise itself" in said["consequence"]


def test_redacted_registration_stops_the_experiment_with_the_reason(
    registered_lab: LabFolder, workbench: Command
) -> None:
    arguments = ["redact", "1", "--what", "legal_order", "--reason", "ordered", "--yes"]
    assert workbench(*arguments, lab=registered_lab).code == 0
    said = workbench("sweep", "1", lab=registered_lab)
    assert said.code == 5
    assert "entry 1 (registration) is hidden here, redacted by entry 3" in said.err
    assert "hidden" in workbench("status", lab=registered_lab).out
    assert workbench("chronicle", lab=registered_lab).code == 0


def test_keys_rotate_and_show(registered_lab: LabFolder, workbench: Command) -> None:
    before = strict(workbench("keys", "show", "--json", lab=registered_lab).out)
    assert [line["role"] for line in before] == ["log", "author"]
    arguments = ["keys", "rotate", "log", "--why", "compromise", "--reason", "a laptop was stolen"]
    refused = workbench(*arguments, lab=registered_lab)
    assert refused.code == 5
    assert "a backup of the keys from before no longer serves" in refused.out
    assert "workbench keys rotate log --why compromise --reason … --yes" in refused.err
    assert workbench(*arguments, "--dry-run", lab=registered_lab).code == 0
    assert registered_lab.entries("key_rotation") == []
    said = workbench(*arguments, "--yes", lab=registered_lab)
    assert (said.code, said.err) == (0, "")
    assert "signed by both keys" in said.out
    assert "A key was stolen" in said.out
    after = strict(workbench("keys", "show", "--json", lab=registered_lab).out)
    log = [line for line in after if line["role"] == "log"]
    assert [(line["since"], line["until"]) for line in log] == [(0, 3), (3, None)]
    assert log[0]["vkey"] == before[0]["vkey"] != log[1]["vkey"]
    assert "retired-" in log[0]["private"]
    assert stat.S_IMODE(Path(log[0]["private"]).stat().st_mode) == 0o600
    text = workbench("keys", "show", lab=registered_lab).out
    assert log[1]["vkey"] in text
    assert "until entry 3" in text
    assert workbench("note", "by the new key", lab=registered_lab).code == 0


def test_keys_rotate_without_a_reason_is_refused(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench(
        "keys",
        "rotate",
        "author",
        "--why",
        "scheduled",
        "--reason",
        " ",
        "--yes",
        lab=registered_lab,
    )
    assert said.code == 3
    assert len(registered_lab.entries()) == 3


@pytest.mark.parametrize(("option", "next_step"), [([], "[reviewers]"), (["--witness"], "witness")])
def test_keys_new_makes_a_private_file_and_never_overwrites_it(
    tmp_path: Path, workbench: Command, option: list[str], next_step: str
) -> None:
    path = tmp_path / "ann.key"
    said = workbench("keys", "new", "lab.example/ann", *option, "--out", str(path))
    assert said.code == 0
    assert "lab.example/ann+" in said.out
    assert next_step in said.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert workbench("keys", "new", "lab.example/ann", *option, "--out", str(path)).code == 5
    assert path.read_bytes() == before


def test_keys_new_without_a_file_goes_beside_the_keys_of_logs(
    tmp_path: Path, workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert workbench("keys", "new", "lab.example/ann").code == 0
    assert (tmp_path / "workbench" / "people" / "lab.example_ann.key").is_file()


@pytest.mark.parametrize("name", ["²", "١", "9" * 6000])
def test_redact_of_what_is_no_number_of_an_entry_finds_none(
    registered_lab: LabFolder, workbench: Command, name: str
) -> None:
    said = workbench("redact", name, "--what", "other", "--reason", "r", "-y", lab=registered_lab)
    assert said.code == 9
    assert "no entry is named" in said.err
