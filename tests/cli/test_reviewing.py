"""Approve and schema as their users meet them, and what check tells."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.registry.approvals import approval_note
from workbench.registry.entries import Approval, Registration
from workbench.registry.notes import SigningKey
from workbench.registry.personal_keys import create_personal_key


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / "reviewers" / f"{name}.key" for name in ("first", "second")}
    for name, path in found.items():
        create_personal_key(path, f"reviews.example.org/{name}", "review")
    return found


@pytest.fixture
def reviewed_lab(filed_lab: LabFolder, keys: dict[str, Path], workbench: Command) -> LabFolder:
    """A lab that requires two approvals, with one registered experiment."""
    settings = filed_lab.root / "workbench.toml"
    vkeys = {n: str(SigningKey.parse(p.read_text("utf-8")).verifier) for n, p in keys.items()}
    named = "\n".join(f'{name} = "{vkey}"' for name, vkey in vkeys.items())
    text = settings.read_text("utf-8")
    settings.write_text(f"{text}\napprovals_required = 2\n\n[reviewers]\n{named}\n", "utf-8")
    filed_lab.commit("Name the reviewers")
    said = workbench("register", "1", lab=filed_lab)
    assert said.code == 0, said.err
    assert "approvals  2 needed, of first, second" in said.out
    assert "workbench approve 1 --key FILE" in said.out
    return filed_lab


def test_register_freezes_the_rule_and_everything_confirmatory_waits(
    reviewed_lab: LabFolder, workbench: Command
) -> None:
    (body,) = reviewed_lab.bodies("registration")
    assert isinstance(body, Registration)
    assert body.approvals is not None
    assert body.approvals.required == 2
    before = len(reviewed_lab.entries())
    for command in ("sweep", "promote", "run", "verdict"):
        said = workbench(command, "1", lab=reviewed_lab)
        assert said.code == 4
        assert f"{SUBJECT} waits for its reviewers" in said.err
        assert "0 of 2 approvals, none by first or second" in said.err
        assert "workbench approve 0001 --key FILE" in said.err
    assert len(reviewed_lab.entries()) == before
    # Settings that change afterwards change nothing of what is registered.
    settings = reviewed_lab.root / "workbench.toml"
    text = settings.read_text("utf-8").replace("approvals_required = 2", "approvals_required = 0")
    settings.write_text(text, "utf-8")
    assert workbench("sweep", "1", lab=reviewed_lab).code == 4


def test_approve_records_each_reviewer_once_and_then_it_runs(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    said = workbench("approve", "1", "--key", str(keys["first"]), "--yes", lab=reviewed_lab)
    assert said.code == 0, said.err
    (registered,) = reviewed_lab.entries("registration")
    for part in (registered.leaf, "Does code help", "superior(0.02) on bpb_macro", "1 of 2"):
        assert part in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    again = workbench("approve", "1", "--key", str(keys["first"]), "--yes", lab=reviewed_lab)
    assert "Nothing to record" in again.out
    assert "none by second" in workbench("sweep", "1", lab=reviewed_lab).err
    said = workbench("approve", "1", "--key", str(keys["second"]), "--yes", lab=reviewed_lab)
    assert "Approved. Next: workbench sweep 0001" in said.out
    bodies = reviewed_lab.bodies("approval")
    assert [body.reviewer for body in bodies] == ["first", "second"]
    assert [entry.refs for entry in reviewed_lab.entries("approval")] == [(registered.leaf,)] * 2
    reviewed_lab.open()._plan("1", exploratory=False)  # the gate of every confirmatory command


def test_approve_elsewhere_travels_as_a_note(
    reviewed_lab: LabFolder,
    keys: dict[str, Path],
    workbench: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reviewer has a clone with the published ledger, and none of the lab's keys."""
    workbench("publish", lab=reviewed_lab)
    clone = reviewed_lab.copy(tmp_path / "clone")
    (clone.root / ".workbench" / "ledger.db").unlink()
    note = tmp_path / "approval.txt"
    with monkeypatch.context() as patch:
        patch.setenv("WORKBENCH_KEYS_DIR", str(tmp_path / "nowhere"))
        arguments = ("--key", str(keys["first"]), "--out", str(note), "--yes")
        said = workbench("approve", "1", *arguments, lab=clone)
    assert said.code == 0, said.err
    assert "workbench approve 1 --note" in said.out
    assert note.read_text("utf-8").startswith("workbench approval v1\n")
    twice = workbench("approve", "1", *arguments, lab=clone)
    assert (twice.code, "exists already" in twice.err) == (5, True)
    # Appended to one file by two mails, it is still one approval.
    text = note.read_text("utf-8")
    note.write_text(text + text, "utf-8")
    said = workbench("approve", "1", "--note", str(note), lab=reviewed_lab)
    assert said.code == 0, said.err
    assert "first approves the registration" in said.out
    (body,) = reviewed_lab.bodies("approval")
    assert body == Approval(reviewer="first", note=text)


def test_approve_after_a_withdrawal_is_refused(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command, tmp_path: Path
) -> None:
    note = tmp_path / "second.txt"
    second = ("approve", "1", "--key", str(keys["second"]), "--yes")
    assert workbench(*second, "--out", str(note), lab=reviewed_lab).code == 0
    workbench("approve", "1", "--key", str(keys["first"]), "--yes", lab=reviewed_lab)
    workbench("withdraw", "1", "--reason", "no budget", "--yes", lab=reviewed_lab)
    for arguments in (second, ("approve", "1", "--note", str(note))):
        said = workbench(*arguments, lab=reviewed_lab)
        assert (said.code, "was withdrawn" in said.err) == (5, True)
    assert len(reviewed_lab.entries("approval")) == 1


def test_approved_and_withdrawn_names_nothing_to_run(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    for path in keys.values():
        workbench("approve", "1", "--key", str(path), "--yes", lab=reviewed_lab)
    workbench("withdraw", "1", "--reason", "no budget", "--yes", lab=reviewed_lab)
    said = workbench("approve", "1", lab=reviewed_lab)
    assert "Approved. Nothing of it is to run." in said.out


def test_approve_far_from_the_lab_with_the_published_files_alone(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command, tmp_path: Path
) -> None:
    workbench("publish", lab=reviewed_lab)
    published = (reviewed_lab.root / "registry").rename(tmp_path / "published")
    proposal = (reviewed_lab.root / "experiments" / SUBJECT / "proposal.md").read_text("utf-8")
    there = ("approve", "1", "--from", str(published))
    shown = workbench(*there, "--text", lab=tmp_path)
    assert shown.code == 0, shown.err
    assert proposal in shown.out
    assert f"==> experiments/{SUBJECT}/full.yaml" in shown.out
    sign = ("--key", str(keys["first"]))
    assert "--out FILE" in workbench(*there, *sign, lab=tmp_path).err
    note = tmp_path / "a.txt"
    said = workbench(*there, *sign, "--out", str(note), "--yes", lab=tmp_path)
    assert said.code == 0, said.err
    assert workbench("approve", "9", "--from", str(published), "--text", lab=tmp_path).code == 4
    assert workbench("approve", "1", "--note", str(note), lab=reviewed_lab).code == 0
    assert [body.reviewer for body in reviewed_lab.bodies("approval")] == ["first"]


def test_approve_beside_a_changed_proposal_warns_and_shows_the_registered_one(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    path = reviewed_lab.root / "experiments" / SUBJECT / "proposal.md"
    registered = path.read_text("utf-8")
    arguments = ("approve", "1", "--key", str(keys["first"]))
    assert "NOT what you sign" not in workbench(*arguments, lab=reviewed_lab).out
    path.write_text(registered.replace("alpha: 0.05", "alpha: 0.5"), "utf-8")
    said = workbench(*arguments, lab=reviewed_lab)
    assert f"the file here is NOT what you sign: experiments/{SUBJECT}/proposal.md" in said.out
    assert said.out.count("NOT what you sign") == 1
    assert "workbench approve 0001 --text" in said.out
    assert registered in workbench("approve", "1", "--text", lab=reviewed_lab).out


def test_approve_without_a_person_signs_nothing(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    said = workbench("approve", "1", "--key", str(keys["first"]), lab=reviewed_lab)
    assert (said.code, "add --yes" in said.err) == (5, True)
    assert reviewed_lab.bodies("approval") == []


def test_approve_by_a_stranger_or_of_another_leaf_is_refused(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.key"
    create_personal_key(stranger, "reviews.example.org/first", "review")
    said = workbench("approve", "1", "--key", str(stranger), "--yes", lab=reviewed_lab)
    assert (said.code, "names first, second" in said.err) == (5, True)
    (registered,) = reviewed_lab.entries("registration")
    origin = reviewed_lab.open().settings.origin
    key = SigningKey.parse(keys["first"].read_text("utf-8"))
    wrong = SigningKey.parse(stranger.read_text("utf-8"))
    for note, words in (
        (approval_note(key, origin, "0" * 64), "nothing that 0001-does-code-help promised"),
        (approval_note(wrong, origin, registered.leaf), "no reviewer of this registration"),
    ):
        file = tmp_path / "note.txt"
        file.write_text(note, "utf-8")
        said = workbench("approve", "1", "--note", str(file), lab=reviewed_lab)
        assert (said.code, words in " ".join(said.err.split())) == (6, True), said.err
    assert reviewed_lab.bodies("approval") == []


def test_approve_alone_shows_who_is_missing(reviewed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("approve", "1", lab=reviewed_lab)
    assert said.code == 0
    assert "0 of 2" in said.out
    (line,) = json.loads(workbench("approve", "1", "--json", lab=reviewed_lab).out)
    assert (line["approved"], line["missing"]) == (False, ["first", "second"])


def test_approve_what_needs_none_or_is_not_registered_is_refused(
    filed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    said = workbench("approve", "1", "--key", str(keys["first"]), lab=filed_lab)
    assert (said.code, "nothing to approve" in said.err) == (4, True)
    clash = workbench("approve", "1", "--key", "a", "--note", "b", lab=filed_lab)
    assert clash.code == 5
    assert workbench("approve", "1", "--out", "b", lab=filed_lab).code == 5


def test_settings_that_nobody_can_satisfy_are_refused_at_check(
    filed_lab: LabFolder, workbench: Command
) -> None:
    settings = filed_lab.root / "workbench.toml"
    settings.write_text(settings.read_text("utf-8") + "\napprovals_required = 1\n", "utf-8")
    said = workbench("check", "1", lab=filed_lab)
    assert (said.code, "0 reviewers are named" in said.err) == (3, True)


def test_schema_is_printed_or_written(workbench: Command, tmp_path: Path) -> None:
    said = workbench("schema", "proposal", lab=tmp_path)
    assert json.loads(said.out)["title"] == "Proposal"
    file = tmp_path / "trial.json"
    said = workbench("schema", "entry", "trial", "--out", str(file), lab=tmp_path)
    assert said.code == 0
    assert json.loads(file.read_text("utf-8"))["title"] == "Trial"
    assert workbench("schema", "entry", lab=tmp_path).code == 5
    assert workbench("schema", "nothing", lab=tmp_path).code == 9
    listed = workbench("schema", lab=tmp_path)
    assert "workbench schema entry KIND" in listed.out
    assert max(map(len, listed.out.splitlines())) <= 80


def test_schema_for_editors_is_refreshed(filed_lab: LabFolder, workbench: Command) -> None:
    file = filed_lab.root / "experiments" / ".schema" / "proposal.json"
    assert json.loads(file.read_text("utf-8"))["title"] == "Proposal"
    file.write_text("{}", "utf-8")
    said = workbench("schema", "--editor", lab=filed_lab)
    assert said.out == "Wrote experiments/.schema/proposal.json\n"
    assert "are those of this version" in workbench("schema", "--editor", lab=filed_lab).out


def test_propose_and_check_tell_what_was_asked_before(
    decided_lab: LabFolder, workbench: Command
) -> None:
    said = workbench(
        "propose", "Does much more code help", "--recipe", RECIPE_PATH, lab=decided_lab
    )
    assert said.code == 0
    (verdict,) = decided_lab.bodies("verdict")
    assert f"overlaps 0001, {verdict.outcome}, d16, 3 seeds" in said.out
    assert "  Does code help\n" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    found = json.loads(workbench("check", "2", "--json", lab=decided_lab).out)
    (overlap,) = found["overlaps"]
    assert (overlap["experiment"], overlap["state"]) == (SUBJECT, verdict.outcome)


def test_check_tells_each_outcome_with_its_chance(filed_lab: LabFolder, workbench: Command) -> None:
    unknown = workbench("check", "1", lab=filed_lab)
    assert "Noise between seeds unknown" in unknown.out
    file = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    text = file.read_text("utf-8")
    noise = "  alpha: 0.05\n  noise: {sd: 0.004, source: a pilot}"
    file.write_text(text.replace("  alpha: 0.05", noise), "utf-8")
    said = workbench("check", "1", lab=filed_lab)
    assert said.code == 0
    for part in ("L > 0 and U >= 0.02", "U < 0.02", "otherwise", "a seed missing or diverged"):
        assert part in said.out
    assert "Power 0.9" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    found = json.loads(workbench("check", "1", "--json", lab=filed_lab).out)
    assert found["rule"]["noise"]["sd"] == 0.004
    assert found["faults"] == []
    assert found["plan"]["trials"] == 3


def test_check_says_what_comes_next(filed_lab: LabFolder, workbench: Command) -> None:
    assert workbench("check", "1", lab=filed_lab).out.splitlines()[-1] == (
        f"{SUBJECT}: no faults. Next: workbench register 1"
    )
    (filed_lab.root / "notes.txt").touch()
    last = workbench("check", "1", lab=filed_lab).out.splitlines()[-2:]
    assert last == [
        f'{SUBJECT}: no faults. Next: git add -A && git commit -m "File 0001"',
        "then workbench register 1",
    ]
    filed_lab.commit("Add notes")
    assert workbench("register", "1", lab=filed_lab).code == 0
    told = workbench("check", "1", lab=filed_lab).out
    assert "It is registered (entry 1):\nthese files change nothing of it" in told
    assert "workbench amend 1 --dry-run" in told
    assert "register 1" not in told


def test_check_with_faults_as_json_has_the_exit_code_of_a_refusal(
    filed_lab: LabFolder, workbench: Command
) -> None:
    file = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    file.write_text(file.read_text("utf-8").replace("alpha: 0.05", "alpha: 7"), "utf-8")
    said = workbench("check", "1", "--json", lab=filed_lab)
    assert said.code == 3
    assert json.loads(said.out)["faults"]


def test_register_freezes_the_power_and_refuses_another_evaluation_set(
    filed_lab: LabFolder, workbench: Command
) -> None:
    file = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    text = file.read_text("utf-8")
    noise = "  alpha: 0.05\n  noise: {sd: 0.004, source: a pilot}"
    text = text.replace("  alpha: 0.05", noise)
    wrong = 'evaluation_set_hash: "sha256:' + "0" * 64 + '"'
    file.write_text(text.replace('evaluation_set_hash: ""', wrong), "utf-8")
    filed_lab.commit()
    said = workbench("register", "1", lab=filed_lab)
    assert (said.code, "must be decided on the sealed_test set" in said.err) == (5, True)
    found = filed_lab.corpus().evaluation_sets()["sealed_test"]
    assert found in said.err
    right = f'evaluation_set_hash: "{found}"'
    file.write_text(text.replace('evaluation_set_hash: ""', right), "utf-8")
    filed_lab.commit()
    assert workbench("register", "1", lab=filed_lab).code == 0
    (body,) = filed_lab.bodies("registration")
    assert body.data.evaluation_sets["sealed_test"] == found
    assert body.power.noise_source == "assumed: a pilot"
    assert 0.8 < body.power.chances["supported"] < 1


def test_status_and_chronicle_say_who_approved(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    (line,) = json.loads(workbench("status", "--json", lab=reviewed_lab).out)
    assert line["awaits_approval"] is True
    assert line["next_command"] == "workbench approve 0001"
    assert "0 of 2 approvals of the registration" in line["detail"]
    for path in keys.values():
        workbench("approve", "1", "--key", str(path), "--yes", lab=reviewed_lab)
    (line,) = json.loads(workbench("status", "--json", lab=reviewed_lab).out)
    assert (line["awaits_approval"], line["next_command"]) == (False, "workbench sweep 0001")
    workbench("chronicle", "1", lab=reviewed_lab)
    text = (reviewed_lab.root / "reports" / SUBJECT / "chronicle.md").read_text("utf-8")
    assert "2 required, given by first and second." in text
    assert "Approved by the reviewer first." in text


def test_amendment_waits_for_the_reviewers_again(
    reviewed_lab: LabFolder, keys: dict[str, Path], workbench: Command
) -> None:
    for path in keys.values():
        workbench("approve", "1", "--key", str(path), "--yes", lab=reviewed_lab)
    file = reviewed_lab.root / "experiments" / SUBJECT / "proposal.md"
    text = file.read_text("utf-8").replace("alpha: 0.05", "alpha: 0.04")
    file.write_text(text, "utf-8")
    reviewed_lab.commit("Be stricter")
    reason = ("--reason-class", "error", "--reason", "0.05 was a slip", "--yes")
    said = workbench("amend", "1", *reason, lab=reviewed_lab)
    assert said.code == 0, said.err
    said = workbench("sweep", "1", lab=reviewed_lab)
    assert said.code == 4
    assert "the amendment" in said.err
    assert "the registration" not in said.err
    said = workbench("approve", "1", "--key", str(keys["first"]), "--yes", lab=reviewed_lab)
    assert "changes  proposal decision.alpha: 0.05 -> 0.04" in said.out
    assert "before any run; 0.05 was a slip" in said.out
    workbench("approve", "1", "--key", str(keys["second"]), "--yes", lab=reviewed_lab)
    reviewed_lab.open()._plan("1", exploratory=False)
    assert workbench("verify", lab=reviewed_lab).code == 0


def test_embargoed_registration_cannot_be_approved_unread(
    filed_lab: LabFolder, keys: dict[str, Path], workbench: Command, tmp_path: Path
) -> None:
    settings = filed_lab.root / "workbench.toml"
    vkey = SigningKey.parse(keys["first"].read_text("utf-8")).verifier
    text = settings.read_text("utf-8")
    settings.write_text(f'{text}\napprovals_required = 1\n[reviewers]\nfirst = "{vkey}"\n', "utf-8")
    filed_lab.commit()
    embargo = ("--embargo-until", "2099-12-31", "--embargo-reason", "under review")
    assert workbench("register", "1", *embargo, lab=filed_lab).code == 0
    workbench("publish", lab=filed_lab)
    clone = filed_lab.copy(tmp_path / "clone")
    (clone.root / ".workbench" / "ledger.db").unlink()
    for arguments in ((), ("--key", str(keys["first"]), "--yes")):
        said = workbench("approve", "1", *arguments, lab=clone)
        assert (said.code, "what they cannot read" in " ".join(said.err.split())) == (5, True)
    assert workbench("approve", "1", "--key", str(keys["first"]), "--yes", lab=filed_lab).code == 0
    assert len(filed_lab.bodies("approval")) == 1
