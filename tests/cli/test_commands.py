"""Every command on a tiny lab: what it prints, and that it does what it says."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from tests.registry.test_places import files
from workbench import __version__
from workbench.registry.entries import Decision, Note


def strict(text: str) -> Any:
    """Parse JSON as a strict reader does: no NaN, no key twice."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


def test_init_makes_a_lab_and_says_where_the_keys_are(
    tmp_path: Path, workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_KEYS_DIR", str(tmp_path / "keys"))
    said = workbench("init", str(tmp_path / "lab"), "--name", "My lab")
    assert (said.code, said.err) == (0, "")
    assert "My lab" in said.out
    assert str(tmp_path / "keys") in said.out
    assert (tmp_path / "lab" / "workbench.toml").is_file()
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "keys").rglob("*.key")} == {0o600}
    assert workbench("verify", lab=tmp_path / "lab").code == 0


def test_init_of_a_lab_is_refused_and_changes_nothing(
    filed_lab: LabFolder, workbench: Command
) -> None:
    before = (filed_lab.root / "workbench.toml").read_bytes()
    said = workbench("init", str(filed_lab.root))
    assert said.code == 5
    assert "is already a lab" in said.err
    assert (filed_lab.root / "workbench.toml").read_bytes() == before


def test_propose_files_the_next_number(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("propose", "What about docs", "--recipe", RECIPE_PATH, lab=filed_lab)
    assert said.code == 0
    assert "experiments/0002-what-about-docs/proposal.md" in said.out
    assert "workbench check 0002" in said.out
    assert (filed_lab.root / "experiments" / "0002-what-about-docs" / "full.yaml").is_file()


def test_propose_hostile_title_stays_inside_the_lab(
    filed_lab: LabFolder, workbench: Command
) -> None:
    """B8."""
    said = workbench("propose", "../../<script>x", "--recipe", RECIPE_PATH, lab=filed_lab)
    assert said.code == 0
    assert (filed_lab.root / "experiments" / "0002-script-x" / "proposal.md").is_file()


def test_check_sound_proposal_says_what_will_run(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("check", "1", lab=filed_lab)
    assert said.code == 0
    assert "3 trials, 8 re-runs and 6 full-scale runs" in said.out
    assert "no faults. Next: workbench register" in said.out


def test_check_prints_every_fault_with_its_line(filed_lab: LabFolder, workbench: Command) -> None:
    proposal = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    text = proposal.read_text("utf-8").replace("alpha: 0.05", "alpha: 7\n  alphax: 1")
    proposal.write_text(text.replace("budget_trials: 3", "budget_trials: 0"), "utf-8")
    said = workbench("check", "1", lab=filed_lab)
    assert said.code == 3
    places = re.findall(r"proposal\.md:(\d+): ", said.err)
    lines = text.splitlines()
    named = [lines[int(place) - 1] for place in places]
    assert len(places) >= 3
    assert any("alphax" in line for line in named)
    assert any("budget_trials" in line for line in named)
    assert filed_lab.bodies("registration") == []


def test_register_prints_a_receipt(registered_lab: LabFolder, workbench: Command) -> None:
    workbench("propose", "Again", "--recipe", RECIPE_PATH, lab=registered_lab)
    first = (registered_lab.root / "experiments" / SUBJECT / "proposal.md").read_text("utf-8")
    again = registered_lab.root / "experiments" / "0002-again"
    (again / "proposal.md").write_text(first, "utf-8")
    registered_lab.commit("File another")
    said = workbench("register", "2", lab=registered_lab)
    assert said.code == 0
    entry = registered_lab.entries("registration")[-1]
    assert entry.subject == "0002-again"
    for part in (entry.id, entry.leaf, "tree head", "seeds", "workbench sweep 2"):
        assert part in said.out


def test_note_is_an_entry_of_the_lab_or_of_an_experiment(
    filed_lab: LabFolder, workbench: Command
) -> None:
    assert workbench("note", "the disk is full", lab=filed_lab).code == 0
    assert workbench("note", "odd curve", "-e", "1", lab=filed_lab).code == 0
    notes = filed_lab.entries("note")
    assert [(e.subject, e.body) for e in notes] == [
        ("lab", Note(text="the disk is full")),
        (SUBJECT, Note(text="odd curve")),
    ]


def test_decide_records_options_evidence_and_the_way_back(
    filed_lab: LabFolder, workbench: Command
) -> None:
    said = workbench(
        "decide", "1", "--question", "Which width?", "--option", "64", "--option", "96",
        "--chosen", "96", "--because", "memory allows it", "--because", "entry 3",
        "--would-reverse", "an out-of-memory", "--rollback", "the 64 recipe", "--owner", "lead",
        lab=filed_lab,
    )  # fmt: skip
    assert said.code == 0
    (body,) = filed_lab.bodies("decision")
    assert body == Decision(
        question="Which width?", options=["64", "96"], chosen="96", basis="judgement",
        evidence=["memory allows it", "entry 3"], owner="lead", reversible=True,
        rollback="the 64 recipe", would_reverse="an out-of-memory",
    )  # fmt: skip


def test_decide_for_what_was_not_considered_is_refused(
    filed_lab: LabFolder, workbench: Command
) -> None:
    said = workbench(
        "decide", "1", "--question", "?", "--option", "64", "--chosen", "96",
        "--because", "x", "--would-reverse", "y", lab=filed_lab,
    )  # fmt: skip
    assert said.code == 3
    assert "'96' is not one of the options ['64']" in said.err
    assert filed_lab.bodies("decision") == []


STAGES = [
    ("filed_stage", "filed", "workbench check 0001"),
    ("registered_stage", "registered", "workbench sweep 0001"),
    ("swept_stage", "swept", "workbench promote 0001"),
    ("promoted_stage", "promoted", "workbench run 0001"),
    ("finished_stage", "run", "workbench verdict 0001"),
    ("decided_stage", "decided", "workbench chronicle 0001"),
]


@pytest.fixture
def staged(request: pytest.FixtureRequest, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(request.getfixturevalue(request.param))


@pytest.mark.parametrize(("staged", "name", "following"), STAGES, indirect=["staged"])
def test_status_says_where_it_stands_and_what_comes_next(
    staged: LabFolder, workbench: Command, name: str, following: str
) -> None:
    lab = staged
    said = workbench("status", lab=lab)
    assert said.code == 0
    first, second, *_ = said.out.splitlines()
    assert first == SUBJECT
    assert second.startswith(f"  {name} ")
    if following:
        assert f"\n  next       {following}\n" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    (line,) = strict(workbench("status", "--json", lab=lab).out)
    assert (line["stage"], line["next_command"]) == (name, following)


def test_status_of_an_empty_lab_says_how_to_begin(
    tmp_path: Path, workbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_KEYS_DIR", str(tmp_path / "keys"))
    workbench("init", str(tmp_path / "lab"))
    assert "workbench propose" in workbench("status", lab=tmp_path / "lab").out
    assert strict(workbench("status", "--json", lab=tmp_path / "lab").out) == []


def test_verify_json_is_strict_and_has_every_check(
    decided_lab: LabFolder, workbench: Command
) -> None:
    """B10."""
    report = strict(workbench("verify", "--json", lab=decided_lab).out)
    assert [check["passed"] for check in report["log"]["checks"]] == [True] * 17
    assert [claim["passed"] for claim in report["claims"]] == [True] * 10


def test_verify_published_files_needs_no_lab(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    published = (decided_lab.root / "registry").rename(tmp_path / "stranger")
    said = workbench("verify", "--from", str(published), lab=tmp_path)
    assert said.code == 0
    assert "VERIFIED" in said.out


def test_verify_where_no_lab_is_names_the_way_without_one(
    registered_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    registered_lab.open().publish()
    published = (registered_lab.root / "registry").rename(tmp_path / "stranger")
    for folder, remedy in ((tmp_path, "--from DIR|URL"), (published, "--from .")):
        refused = workbench("verify", lab=folder)
        assert refused.code == 9
        assert refused.err.rstrip().endswith(f"workbench verify {remedy}")
    typed = [line.split("#")[0].split() for line in (published / "README.md").read_text("utf-8")
             .splitlines() if line.startswith("    workbench verify --from")]  # fmt: skip
    assert len(typed) == 1
    assert workbench(*typed[0][1:], lab=published).code == 0


def test_verify_published_files_over_the_web(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    with files(decided_lab.root) as url:
        said = workbench("verify", "--json", "--from", f"{url}/registry", lab=tmp_path)
        missing = workbench("verify", "--from", url, lab=tmp_path)
    assert (said.code, strict(said.out)["log"]["size"] > 0) == (0, True)
    assert missing.code == 9
    assert "holds no published log" in missing.err


def test_verify_against_another_key_fails(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path, filed_stage: LabFolder
) -> None:
    (genesis,) = filed_stage.copy(tmp_path / "other").entries("genesis")
    key = genesis.body.log_key.replace("A", "B")
    said = workbench(
        "verify", "--from", str(decided_lab.root / "registry"), "--key", key, lab=tmp_path
    )
    assert said.code != 0


def test_verify_a_store_against_a_key_takes_the_readers(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path, filed_stage: LabFolder
) -> None:
    """A key that is given is what is trusted, whatever lies in the lab."""
    (own,), (other,) = (
        lab.entries("genesis") for lab in (decided_lab, filed_stage.copy(tmp_path / "other"))
    )
    assert workbench("verify", "--key", own.body.log_key, lab=decided_lab).code == 0
    foreign = own.body.author_key.replace("/author+", "+")
    assert other.body.log_key == own.body.log_key  # a copy of the same lab
    assert workbench("verify", "--key", foreign, lab=decided_lab).code == 6
    assert workbench("verify", "--key", "x", lab=decided_lab).code == 6


def test_verify_from_nowhere_is_refused(decided_lab: LabFolder, workbench: Command) -> None:
    """As of a shell's variable that is not set: the lab itself is not what was meant."""
    said = workbench("verify", "--from", "", lab=decided_lab)
    assert said.code == 3
    assert "VERIFIED" not in said.out
    assert "--from names no place" in said.err


def test_verify_against_a_kept_head_of_another_history_fails(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path, use: Callable[..., LabFolder]
) -> None:
    head = tmp_path / "kept"
    text = (decided_lab.root / "registry" / "checkpoint").read_text("utf-8")
    head.write_text(text, "utf-8")
    assert workbench("verify", "--head", str(head), lab=decided_lab).code == 0
    lines = text.split("\n")
    lines[1] = str(int(lines[1]) + 1)
    head.write_text("\n".join(lines), "utf-8")
    assert workbench("verify", "--head", str(head), lab=decided_lab).code == 6


def test_publish_says_what_is_new(decided_lab: LabFolder, workbench: Command) -> None:
    workbench("note", "one more", lab=decided_lab)
    assert ", 1 of them new" in workbench("publish", lab=decided_lab).out
    assert ", 0 of them new" in workbench("publish", lab=decided_lab).out


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "sweep",
            ["3 trials declared: 3 completed", "trials drew  code ", "Next: workbench promote 1"],
        ),
        ("promote", ["Chosen: trial-", "forecast  improvement", "Next: workbench run 1"]),
        (
            "run",
            [
                "treatment/seed-2",
                "12/12",
                "control drew  code ",
                "treatment drew  code ",
                "epochs)",
                "Next: workbench verdict 1",
            ],
        ),
    ],
)
def test_finished_stage_is_told_again_and_not_run_again(
    finished_lab: LabFolder, workbench: Command, command: str, told: list[str]
) -> None:
    trained = len(finished_lab.entries("run_started") + finished_lab.entries("trial"))
    said = workbench(command, "1", lab=finished_lab)
    assert said.code == 0
    for part in told:
        assert part in said.out
    assert len(finished_lab.entries("run_started") + finished_lab.entries("trial")) == trained


@pytest.mark.usefixtures("one_thread")
def test_sweep_without_a_terminal_tells_each_trial_as_it_ends(
    registered_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("sweep", "1", lab=registered_lab)
    lines = [line for line in said.err.splitlines() if line.startswith("trials ")]
    assert [line.split("  ")[0] for line in lines] == ["trials 1/3", "trials 2/3", "trials 3/3"]
    assert [line.split("  ")[1][:8] for line in lines] == ["trial-00", "trial-01", "trial-02"]


@pytest.mark.usefixtures("one_thread")
def test_verdict_prints_rule_estimate_interval_and_n(
    finished_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("verdict", "1", lab=finished_lab)
    assert said.code == 0
    assert said.out.startswith("SUPPORTED  H1: superior(0.02)\n")
    assert re.search(r"improvement in bpb_macro  \+\d\.\d{4} \[[+-]", said.out)
    assert "control n=3, treatment n=3" in said.out
    assert "welch_t fixed(3), two one-sided bounds at alpha 0.05" in said.out
    assert "registered action" in said.out
    told = [line for line in said.out.splitlines() if line.startswith(("Claimed", "Seen", "With"))]
    assert [line.split()[0] for line in told] == ["Claimed", "Seen", "With"]


def test_chronicle_is_the_same_bytes_again(decided_lab: LabFolder, workbench: Command) -> None:
    reports = decided_lab.root / "reports"
    before = {path: path.read_bytes() for path in reports.rglob("*") if path.is_file()}
    assert len(before) > 3
    assert workbench("chronicle", "--check", lab=decided_lab).code == 0
    assert workbench("chronicle", lab=decided_lab).code == 0
    assert {path: path.read_bytes() for path in reports.rglob("*") if path.is_file()} == before


def test_chronicle_from_published_files_is_the_same_bytes(
    decided_lab: LabFolder, workbench: Command
) -> None:
    reports = decided_lab.root / "reports"
    before = {path: path.read_bytes() for path in reports.rglob("*.*") if path.is_file()}
    for store in (decided_lab.root / ".workbench").glob("ledger.db*"):
        store.unlink()
    assert workbench("chronicle", lab=decided_lab).code == 0
    assert {path: path.read_bytes() for path in before} == before


def test_chronicle_of_published_files_needs_no_lab(
    decided_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    reports, registry = decided_lab.root / "reports", decided_lab.root / "registry"
    pages = [p for p in (reports / SUBJECT).iterdir() if p.name != "full-scale.yaml"]
    wanted = {p.name: p.read_bytes() for p in pages}
    out = tmp_path / "read"
    said = workbench("chronicle", "1", "--from", str(registry), "--out", str(out), lab=tmp_path)
    assert said.code == 0, said.err
    assert str(out / SUBJECT / "chronicle.html") in said.out
    assert {p.name: p.read_bytes() for p in (out / SUBJECT).iterdir()} == wanted
    said = workbench("chronicle", "--from", str(registry), "--out", str(out), lab=tmp_path)
    assert str(out / "index.html") in said.out
    said = workbench("chronicle", "7", "--from", str(registry), "--out", str(out), lab=tmp_path)
    assert (said.code, "says nothing of experiment 7" in said.err) == (9, True)
    assert workbench("chronicle", "1", "--from", str(registry), lab=tmp_path).code == 2
    for body in (p for p in (registry / "tile" / "entries").rglob("*") if p.is_file()):
        body.write_bytes(body.read_bytes().replace(b"trial", b"trail"))
    said = workbench("chronicle", "1", "--from", str(registry), "--out", str(out), lab=tmp_path)
    assert (said.code, "does not verify" in said.err) == (6, True)


def test_chronicle_check_names_the_stale_file_and_writes_nothing(
    decided_lab: LabFolder, workbench: Command
) -> None:
    page = decided_lab.root / "reports" / SUBJECT / "chronicle.md"
    page.write_text(page.read_text("utf-8") + "and it worked!\n", "utf-8")
    changed = page.read_bytes()
    said = workbench("chronicle", "1", "--check", lab=decided_lab)
    assert said.code == 6
    assert f"{SUBJECT}/chronicle.md" in said.err
    assert "chronicle.html" not in said.err
    assert page.read_bytes() == changed


def test_version_is_the_package_version(workbench: Command) -> None:
    said = workbench("--version")
    assert (said.code, said.out) == (0, f"workbench {__version__}\n")
