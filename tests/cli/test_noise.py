"""``workbench noise`` as a user meets it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.experiments.test_repeats import Training
from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.training import fit as fitting

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from contextlib import contextmanager
from workbench.cli import main, noise

@contextmanager
def waiting():
    repeats = 0
    def progress(task, done, total, detail="", *, ended=False):
        nonlocal repeats
        repeats = done if task == "repeats" else repeats
        if (task, repeats, done) == ("steps", 1, 6):
            print("now", flush=True)
            sys.stdin.readline()
    yield progress

noise.live_progress = waiting
main.app(["noise", sys.argv[1], "--runs", "3"])
"""


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Training:
    """Takes the place of training."""
    stand_in = Training()
    monkeypatch.setattr(fitting, "fit", stand_in)
    return stand_in


def test_noise_of_a_recipe_prints_the_spreads(
    registered_lab: LabFolder, workbench: Command, train: Training
) -> None:
    said = workbench("noise", RECIPE_PATH, "--scale", "s1", lab=registered_lab)
    assert said.code == 0
    told = [line.split("  ")[:2] for line in said.err.splitlines()]
    assert told == [[f"repeats {i + 1}/10", f"seed-{i} completed"] for i in range(10)]
    (entry,) = registered_lab.entries("noise_floor")
    assert entry.subject == "recipe:tiny@1"
    lines = said.out.splitlines()
    assert lines[0] == "Will run 10 repeats of tiny@1 at s1: 0.00192 M tokens."
    assert lines[1] == "noise floor of tiny@1, s1, 10 repeats"
    assert [line.split()[0] for line in lines[2:5]] == ["metric", "bpb_macro", "bpb_code"]
    assert lines[-1] == f"entry {entry.sequence}"
    assert "takes a floor of the experiment's control at full scale" in " ".join(lines)
    assert max(map(len, lines)) <= 80
    assert len(train.calls) == 10


def test_noise_again_runs_nothing_and_names_the_same_entry(
    registered_lab: LabFolder, workbench: Command, train: Training
) -> None:
    workbench("noise", RECIPE_PATH, "--runs", "2", lab=registered_lab)
    said = workbench("noise", RECIPE_PATH, "--runs", "2", "--json", lab=registered_lab)
    assert len(train.calls) == 2
    assert " ".join(said.err.split()) == (
        "Will run 2 repeats of tiny@1 at s2 (2 are done): 0 M tokens, about 0.0 s on one device."
    )
    found = json.loads(said.out)
    (entry,) = registered_lab.entries("noise_floor")
    assert (found["leaf"], found["new"], found["scale"]) == (entry.leaf, False, "s2")
    assert (found["num_runs"], found["fits_calibrated_t"]) == (2, False)
    assert set(found["spreads"]["bpb_macro"]) == {"sd", "interval_90", "margin_at_least"}


def test_noise_of_an_experiment_is_of_its_control_at_full_scale(
    registered_lab: LabFolder, workbench: Command, train: Training
) -> None:
    """What is in force counts, not the file as it is now."""
    full = registered_lab.root / "experiments" / SUBJECT / "full.yaml"
    before = full.read_text("utf-8")
    full.write_text("none of it", "utf-8")
    said = workbench("noise", "1", "--runs", "3", lab=registered_lab)
    full.write_text(before, "utf-8")
    assert said.code == 0, said.err
    assert "noise floor of tiny@1, 0001 at full scale, 3 repeats" in said.out
    assert "3 are too few for calibrated_t, which takes 10" in said.out
    assert "noise_floor:" not in said.out
    (entry,) = registered_lab.entries("noise_floor")
    registration, *_ = registered_lab.entries("registration")
    assert (entry.subject, entry.refs) == (SUBJECT, (registration.leaf,))
    seeds = {run.seed for run in entry.body.repeats}  # type: ignore[attr-defined]
    assert len(seeds) == 3
    longer = workbench("noise", "1", lab=registered_lab)
    entry = registered_lab.entries("noise_floor")[-1]
    assert longer.out.splitlines()[-1] == f"  noise_floor: {entry.leaf}"
    assert max(map(len, longer.out.splitlines())) <= 80
    assert len(train.calls) == 10
    assert registered_lab.open().verify().passed
    assert workbench("chronicle", "1", lab=registered_lab).code == 0
    assert workbench("status", lab=registered_lab).code == 0


def test_noise_is_of_the_configuration_that_was_promoted_as_the_control(
    promoted_lab: LabFolder, workbench: Command, train: Training
) -> None:
    assert workbench("noise", "1", "--runs", "2", lab=promoted_lab).code == 0
    (floor,), (promotion,) = (promoted_lab.bodies(k) for k in ("noise_floor", "promotion"))
    assert floor.config_sha256 == promotion.config_sha256["control"]


def test_noise_of_a_draft_needs_no_registration(
    filed_lab: LabFolder, registered_stage: LabFolder, workbench: Command, train: Training
) -> None:
    # MLflow's tables take seconds to create.
    store = Path(".workbench") / "mlflow.db"
    shutil.copy(registered_stage.root / store, filed_lab.root / store)
    assert workbench("noise", "1", "--runs", "2", lab=filed_lab).code == 0
    assert filed_lab.entries("noise_floor")[0].refs == ()
    said = workbench("check", "1", lab=filed_lab)
    assert said.code == 0


def test_noise_without_two_completed_repeats_is_a_failure_on_record(
    registered_lab: LabFolder, workbench: Command, train: Training
) -> None:
    train.script[0] = lambda: "diverged"
    said = workbench("noise", RECIPE_PATH, "--runs", "2", lab=registered_lab)
    assert said.code == 8
    assert "1 of 2 repeats diverged and are recorded, not in the spread" in said.out
    assert "1 of 2 repeats completed: there is no spread" in said.err
    assert len(registered_lab.entries("noise_floor")) == 1


def test_noise_import_records_the_files_hash(registered_lab: LabFolder, workbench: Command) -> None:
    rows = "".join(f"{seed},{2 + seed / 1000}\n" for seed in range(10))
    (registered_lab.root / "runs.csv").write_text(f"seed,value\n{rows}", "utf-8")
    arguments = ["noise", "1", "--import", "runs.csv", "--metric", "bpb_macro"]
    said = workbench(*arguments, lab=registered_lab)
    assert said.code == 0, said.err
    assert "Will run" not in said.out
    assert "  noise_floor: " in said.out
    again = workbench(*arguments, lab=registered_lab)
    assert again.code == 5
    assert "are on record" in again.err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["1", "--scale", "s1"], 2, "--scale goes with a recipe"),
        ([RECIPE_PATH, "--metric", "bpb_macro"], 2, "--metric goes with --import"),
        ([RECIPE_PATH, "--runs", "1"], 2, "should be greater than or equal to 2"),
        ([RECIPE_PATH, "--scale", "s9"], 9, "has no scale 's9' (it has s1, s2)"),
        (["proxies/none.yaml"], 9, "does not exist (known: "),
        (["7"], 9, "experiment '7' does not exist"),
        ([RECIPE_PATH, "--import", "none.csv"], 3, "none.csv cannot be read"),
    ],
)
def test_noise_of_nothing_is_refused(
    filed_lab: LabFolder, workbench: Command, arguments: list[str], code: int, complaint: str
) -> None:
    said = workbench("noise", *arguments, lab=filed_lab)
    assert said.code == code
    assert complaint in " ".join(said.err.replace("│", " ").split())
    assert filed_lab.entries("noise_floor") == []


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_noise_killed_in_a_repeat_continues_to_the_same_floor(
    registered_stage: LabFolder, use: Callable[[LabFolder], LabFolder], tmp_path: Path
) -> None:
    """C1, A5: kill -9 loses at most the repeat at work, and that goes on from its checkpoint."""
    whole = registered_stage.copy(tmp_path / "whole")
    lab = use(registered_stage)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, RECIPE_PATH],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=lab.root,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(2)]
    assert said == ["Will run 3 repeats of tiny@1 at s2: 0.000768 M tokens.\n", "now\n"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert lab.entries("noise_floor") == []
    folder = next((lab.root / ".workbench" / "runs" / "noise").iterdir())
    assert [file.name for file in folder.glob("*.json")] == ["repeat-00.json"]

    def floor(of: LabFolder) -> list[tuple[str, dict[str, float]]]:
        entry, is_new = of.open().measure_noise(RECIPE_PATH, runs=3, announce=lambda cost: None)
        assert is_new
        return [(run.seed, run.values) for run in entry.body.repeats]  # type: ignore[attr-defined]

    assert floor(lab) == floor(whole)
    assert sorted(path.name for path in (folder / "repeat-01").glob("telemetry*")) == [
        "telemetry-attempt-0001.jsonl", "telemetry-attempt-0002.jsonl",
    ]  # fmt: skip
    assert lab.open().verify().passed
