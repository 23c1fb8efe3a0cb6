"""Lost stores and lost keys, as a researcher meets them."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_commands import strict
from tests.experiments.test_amendments import put
from tests.labs import SUBJECT, LabFolder
from workbench.registry.entries import Promotion
from workbench.registry.published import PublishedLog
from workbench.settings import load_settings

NOTHING_PROMOTED = Promotion(
    mode="confirmatory", chosen="none", rule="best mean", candidates=[], changes=[], configs={},
    config_sha256={}, reason="no candidate is feasible",
)  # fmt: skip
ROOT = Path(__file__).parents[2]


def lose_store(lab: LabFolder) -> None:
    for path in (lab.root / ".workbench").glob("ledger.db*"):
        path.unlink()


def lose_keys(lab: LabFolder) -> None:
    shutil.rmtree(lab.home / "keys")


def origin(lab: LabFolder) -> str:
    return load_settings(lab.root / "workbench.toml").origin


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "README.md"
    }


@pytest.fixture
def published_lab(registered_lab: LabFolder, workbench: Command) -> LabFolder:
    assert workbench("publish", lab=registered_lab).code == 0
    return registered_lab


def test_lost_store_is_restored_and_the_lab_goes_on(
    published_lab: LabFolder, workbench: Command
) -> None:
    lose_store(published_lab)
    said = workbench("restore", lab=published_lab)
    assert (said.code, said.err) == (0, "")
    assert "Restored 3 entries" in said.out
    assert workbench("note", "on we go", lab=published_lab).code == 0
    assert workbench("verify", lab=published_lab).code == 0
    again = workbench("restore", lab=published_lab)
    assert again.code == 5
    assert "there is a store" in again.err


def test_restore_from_a_copy_of_the_store_has_what_was_never_published(
    registered_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    """So a lab also moves to another kind of store."""
    before = [entry.leaf for entry in registered_lab.entries()]
    store = registered_lab.root / ".workbench" / "ledger.db"
    store.rename(tmp_path / "old.db")
    lose_store(registered_lab)
    said = workbench("restore", "--from", str(tmp_path / "old.db"), lab=registered_lab)
    assert (said.code, said.err) == (0, "")
    assert [path.name for path in tmp_path.glob("old.db*")] == ["old.db"]
    assert [entry.leaf for entry in registered_lab.entries()] == before
    assert workbench("note", "on we go", lab=registered_lab).code == 0
    assert workbench("verify", lab=registered_lab).code == 0


def test_restore_from_another_folder(
    published_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    shutil.move(published_lab.root / "registry", tmp_path / "copy")
    lose_store(published_lab)
    said = workbench("restore", "--from", str(tmp_path / "copy"), lab=published_lab)
    assert said.code == 0
    assert workbench("publish", lab=published_lab).code == 0
    assert workbench("verify", "--from", "registry", lab=published_lab).code == 0


def test_lost_store_with_newer_entries_offers_a_new_origin(
    published_lab: LabFolder, workbench: Command
) -> None:
    workbench("note", "never published", lab=published_lab)
    lose_store(published_lab)
    said = workbench("restore", lab=published_lab)
    assert said.code == 5
    assert "entry 3 of log" in said.err
    assert "workbench restore --new-origin" in said.err


def test_log_that_is_not_lost_gets_no_successor(
    published_lab: LabFolder, workbench: Command
) -> None:
    before = files(published_lab.root / "registry")
    said = workbench("restore", "--new-origin", "--yes", lab=published_lab)
    assert said.code == 5
    assert "is not lost" in said.err
    assert files(published_lab.root / "registry") == before


def test_successor_is_asked_for_before_anything_is_written(
    published_lab: LabFolder, workbench: Command
) -> None:
    lose_keys(published_lab)
    said = workbench("restore", "--new-origin", lab=published_lab)
    assert said.code == 5
    assert "registered anew" in " ".join(said.out.split())
    assert not (published_lab.root / "registry" / "predecessors").exists()


def test_lost_keys_begin_a_log_that_names_the_old_one(
    published_lab: LabFolder, workbench: Command
) -> None:
    """The store is newer than what was published: its signed entries are published first."""
    old = origin(published_lab)
    workbench("note", "not published yet", lab=published_lab)
    lose_keys(published_lab)
    said = workbench("restore", "--new-origin", "--yes", lab=published_lab)
    assert (said.code, said.err) == (0, "")
    assert f"which continues {old} (4 entries)" in said.out
    assert f"to be registered anew  {SUBJECT}" in said.out
    assert origin(published_lab) != old
    kept = published_lab.root / "registry" / "predecessors" / old.replace("/", "_")
    assert PublishedLog(kept).head().size == 4
    (genesis,) = published_lab.bodies("genesis")
    assert genesis.predecessor.origin == old
    assert genesis.predecessor.head == (kept / "checkpoint").read_text("utf-8")
    # Everything goes on: the old log is verified with the new one, and its experiment shown.
    said = workbench("verify", lab=published_lab)
    assert said.code == 0
    assert f"before    VERIFIED  4 entries of {old}" in said.out
    status = strict(workbench("status", "--json", lab=published_lab).out)
    assert [(line["experiment"], line["stage"]) for line in status] == [(SUBJECT, "filed")]
    assert "register anew" in status[0]["detail"]
    assert workbench("verify", "--from", "registry", lab=published_lab).code == 0
    assert workbench("chronicle", lab=published_lab).code == 0
    # The store with what was never published is kept.
    moved = published_lab.root / ".workbench" / "predecessors" / old.replace("/", "_")
    assert (moved / "ledger.db").is_file()


def test_lost_keys_and_a_clone_lead_to_the_procedure(
    published_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    clone = published_lab.copy(tmp_path / "clone")
    lose_store(clone)
    refused = workbench("note", "x", lab=clone)
    assert refused.code == 9
    assert "workbench restore (docs/operations.md, The store is lost)" in refused.err
    assert "init" not in refused.err
    lose_keys(published_lab)
    for command in (("note", "x"), ("restore",)):
        refused = workbench(*command, lab=published_lab)
        assert refused.code == 9
        assert "workbench restore --new-origin (docs/operations.md, The keys are" in refused.err


@pytest.mark.parametrize("end", ["no candidate", "erased"])
def test_finished_experiment_needs_no_new_registration(
    published_lab: LabFolder, workbench: Command, end: str
) -> None:
    if end == "erased":
        why = ["--what", "legal_order", "--reason", "ordered", "--yes"]
        assert workbench("redact", "#1", *why, lab=published_lab).code == 0
    else:
        put(published_lab, NOTHING_PROMOTED)
    lose_keys(published_lab)
    said = workbench("restore", "--new-origin", "--yes", lab=published_lab)
    assert said.code == 0, said.err
    assert "to be registered anew" not in said.out


def test_experiment_can_be_registered_anew_in_the_successor(
    published_lab: LabFolder, workbench: Command
) -> None:
    lose_keys(published_lab)
    assert workbench("restore", "--new-origin", "--yes", lab=published_lab).code == 0
    published_lab.commit("Begin the log that continues the lost one")
    said = workbench("register", "1", lab=published_lab)
    assert (said.code, said.err) == (0, "")
    said = workbench("chronicle", lab=published_lab)
    assert said.code == 0
    index = (published_lab.root / "reports" / "index.html").read_text("utf-8")
    assert f'href="{SUBJECT}/chronicle.html"' in index
    assert f"{SUBJECT}-of-" in index
    assert workbench("chronicle", "1", "--check", lab=published_lab).code == 0


def test_decided_experiment_keeps_its_chronicle_and_its_verdict(
    decided_lab: LabFolder, workbench: Command
) -> None:
    before = files(decided_lab.root / "reports" / SUBJECT)
    old = origin(decided_lab)
    lose_keys(decided_lab)
    assert workbench("restore", "--new-origin", "--yes", lab=decided_lab).code == 0
    assert workbench("chronicle", lab=decided_lab).code == 0
    assert files(decided_lab.root / "reports" / SUBJECT) == before
    (line,) = strict(workbench("status", "--json", lab=decided_lab).out)
    assert (line["stage"], line["verdict"]) == ("decided", "supported")
    assert old in line["detail"]
    # A second loss: the newest log is continued, and both before it are still verified.
    second = origin(decided_lab)
    lose_keys(decided_lab)
    assert workbench("restore", "--new-origin", "--yes", lab=decided_lab).code == 0
    said = workbench("verify", lab=decided_lab)
    assert said.code == 0
    for earlier in (old, second):
        assert f"of {earlier}" in said.out


def test_predecessor_that_was_tampered_with_or_is_absent_shows(
    published_lab: LabFolder, workbench: Command
) -> None:
    old = origin(published_lab)
    lose_keys(published_lab)
    workbench("restore", "--new-origin", "--yes", lab=published_lab)
    kept = published_lab.root / "registry" / "predecessors" / old.replace("/", "_")
    body = kept / "bodies" / "000.jsonl"
    good = body.read_bytes()
    body.write_bytes(good.replace(b"tiny", b"tony", 1))
    said = workbench("verify", "--from", "registry", lab=published_lab)
    assert said.code == 6
    assert "before    FAILED" in said.out
    body.write_bytes(good)
    assert workbench("verify", "--from", "registry", lab=published_lab).code == 0
    shutil.rmtree(kept)
    said = workbench("verify", "--from", "registry", lab=published_lab)
    assert said.code == 0
    assert f"continues {old}, which is not in predecessors/" in said.out


def test_rolled_back_store_can_be_continued_by_a_new_log_only(
    published_lab: LabFolder, workbench: Command
) -> None:
    store = published_lab.root / ".workbench" / "ledger.db"
    old = store.read_bytes()
    for n in range(2):
        workbench("note", str(n), lab=published_lab)
    workbench("publish", lab=published_lab)
    lose_store(published_lab)
    store.write_bytes(old)
    assert workbench("note", "x", lab=published_lab).code == 6
    said = workbench("restore", "--new-origin", "--yes", lab=published_lab)
    assert (said.code, said.err) == (0, "")
    assert "it was rolled back" in said.out
    assert "(5 entries)" in said.out
    assert workbench("verify", lab=published_lab).code == 0


def test_nothing_published_and_no_store_leaves_nothing_to_continue(
    registered_lab: LabFolder, workbench: Command
) -> None:
    lose_store(registered_lab)
    said = workbench("restore", "--new-origin", "--yes", lab=registered_lab)
    assert said.code == 9
    assert not (registered_lab.root / ".workbench" / "successor.json").exists()


def test_from_and_new_origin_together_are_refused(
    published_lab: LabFolder, workbench: Command
) -> None:
    said = workbench("restore", "--new-origin", "--from", "x", lab=published_lab)
    assert said.code == 3


KILLED = """
import os, signal, sys
from workbench.experiments import succession as module

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def wrapped(*args, **named):
        function(*args, **named)
        die()
    return wrapped

step, when = sys.argv[1].split(":")
setattr(module, step, die if when == "before" else after(getattr(module, step)))
sys.argv = ["workbench", "restore", "--new-origin", "--yes"]
from workbench.cli.main import main
main()
"""
STEPS = [
    "keep_predecessor:before", "keep_predecessor:after", "_move_store:after", "_create:after",
    "_name_in_settings:after", "remove_published:after", "_republish:after",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_successor_killed_at_each_step_is_finished_by_repeating_it(
    published_lab: LabFolder, workbench: Command, step: str
) -> None:
    old = origin(published_lab)
    lose_keys(published_lab)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, step],
        cwd=published_lab.root, capture_output=True, text=True,
        env=os.environ | published_lab.environment | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    said = workbench("restore", "--new-origin", "--yes", lab=published_lab)
    assert (said.code, said.err) == (0, "")
    assert f"continues {old} (3 entries)" in said.out
    assert len(list((published_lab.home / "keys").iterdir())) == 1
    said = workbench("verify", lab=published_lab)
    assert said.code == 0, said.out
    assert f"VERIFIED  3 entries of {old}" in said.out
    assert workbench("note", "on we go", lab=published_lab).code == 0
    assert workbench("publish", lab=published_lab).code == 0
    assert workbench("verify", "--from", "registry", lab=published_lab).code == 0
