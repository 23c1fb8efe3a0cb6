"""``workbench verdict --from-csv`` judges others' runs anywhere, and says what they are not."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.labs import LabFolder

RULE = "superior(0.002) welch_t group(3,5) alpha 0.05"
RUNS = """arm,seed,value
control,40,3.2801
control,41,3.2790
control,42,3.2812
control,43,3.2795
treatment,40,3.2771
treatment,41,3.2768
treatment,42,3.2780
treatment,43,3.2775
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(RUNS, "utf-8")
    return path


def test_verdict_from_csv_needs_no_lab_and_is_labelled(workbench: Command, runs: Path) -> None:
    said = workbench(
        "verdict", "--from-csv", str(runs), "--rule", RULE, "--direction", "minimize",
        "--metric", "loss", lab=runs.parent,
    )  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"SUPPORTED, UNREGISTERED  {RULE}\n")
    assert "Claimed was that the treatment's loss is better than the control's" in said.out
    assert "1 further seeds an arm were not looked at." in said.out
    assert "no claim may rest on it" in said.out
    assert list(runs.parent.iterdir()) == [runs]


def test_verdict_from_csv_says_that_the_rule_goes_on(workbench: Command, runs: Path) -> None:
    rule = "superior_by(0.0027) welch_t group(4,8) alpha 0.05"
    said = workbench(
        "verdict", "--from-csv", str(runs), "--rule", rule, "--direction", "minimize",
        lab=runs.parent,
    )  # fmt: skip
    assert "INCONCLUSIVE, UNREGISTERED" in said.out
    assert "it looks again at 8 seeds an arm." in said.out


def test_verdict_from_csv_of_a_void_comparison_shows_no_bounds(
    workbench: Command, runs: Path
) -> None:
    runs.write_text(RUNS.replace("3.2771", "nan"), "utf-8")
    said = workbench(
        "verdict", "--from-csv", str(runs), "--rule", RULE, "--direction", "minimize",
        lab=runs.parent,
    )  # fmt: skip
    assert said.code == 0
    assert said.out.startswith("VOID, UNREGISTERED")


def test_verdict_from_csv_prints_strict_json(workbench: Command, runs: Path) -> None:
    said = workbench(
        "verdict", "--from-csv", str(runs), "--rule", RULE, "--direction", "minimize", "--json",
        "--exclude-diverged", "--same-data", lab=runs.parent,
    )  # fmt: skip
    found = json.loads(said.out)
    assert found["registered"] is False
    assert (found["outcome"], found["rule"], found["n_control"]) == ("supported", RULE, 3)
    assert found["looks"][0]["num_seeds"] == 3
    assert set(found["explanation"]) == {"claimed", "seen", "otherwise"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name an experiment"),
        (["1", "--from-csv", "runs.csv"], "judge others"),
        (["--from-csv", "runs.csv", "--incomplete"], "judge others"),
        (["--from-csv", "runs.csv", "--direction", "minimize"], "needs --rule"),
        (["--from-csv", "runs.csv", "--rule", RULE], "neither minimize"),
        (["1", "--rule", RULE], "go with --from-csv"),
        (["1", "--arm-tag", "arm"], "go with --from-csv"),
        (["--from-csv", "runs.csv", "--arm-tag", "arm"], "go with --from-mlflow"),
    ],
)
def test_verdict_options_that_do_not_go_together_are_refused(
    workbench: Command, runs: Path, arguments: list[str], complaint: str
) -> None:
    said = workbench("verdict", *arguments, lab=runs.parent)
    assert said.code == 2
    assert complaint in " ".join(said.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("better(0.002) welch_t fixed(5) alpha 0.05", "claim 'better(0.002)'"),
        ("superior(0.002) perm_exact group(3,5) alpha 0.05", "smallest p is 0.05"),
    ],
)
def test_verdict_from_csv_refuses_a_rule_that_cannot_be(
    workbench: Command, runs: Path, rule: str, complaint: str
) -> None:
    said = workbench(
        "verdict", "--from-csv", str(runs), "--rule", rule, "--direction", "minimize",
        lab=runs.parent,
    )  # fmt: skip
    assert said.code == 3
    assert complaint in said.err
    assert "-> state another --rule" in said.err


def test_verdict_from_csv_of_no_file_is_refused(workbench: Command, tmp_path: Path) -> None:
    said = workbench(
        "verdict", "--from-csv", "none.csv", "--rule", RULE, "--direction", "minimize",
        lab=tmp_path,
    )  # fmt: skip
    assert said.code == 3
    assert "none.csv cannot be read" in said.err


@pytest.fixture(scope="session")
def tracked_stage(registered_stage: LabFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's MLflow store, made from the tables of a lab's, whose creation takes seconds."""
    from mlflow.tracking import MlflowClient

    store = tmp_path_factory.mktemp("tracked") / "mlflow.db"
    shutil.copy(registered_stage.root / ".workbench" / "mlflow.db", store)
    client = MlflowClient(tracking_uri=f"sqlite:///{store}")
    made = client.create_experiment("theirs", artifact_location="x")
    for at, line in enumerate(RUNS.splitlines()[1:], start=1):
        arm, seed, value = line.split(",")
        run = client.create_run(made, run_name=f"{arm}-{seed}", tags={"arm": arm}, start_time=at)
        client.log_param(run.info.run_id, "seed", seed)
        client.log_metric(run.info.run_id, "loss", float(value))
        client.set_terminated(run.info.run_id)
    client.create_run(made, run_name="stray")
    return store


def test_verdict_from_mlflow_is_that_of_the_same_csv(
    workbench: Command, runs: Path, tracked_stage: Path
) -> None:
    rule = ["--rule", RULE, "--direction", "minimize", "--metric", "loss"]
    where = ["--from-mlflow", f"sqlite:///{tracked_stage}", "--experiment", "theirs"]
    table = workbench("verdict", "--from-csv", str(runs), *rule, lab=runs.parent)
    said = workbench("verdict", *where, "--seed-param", "seed", *rule, lab=runs.parent)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{table.out}1 run (stray) left out: no tag or parameter 'arm'.\n"
    assert list(runs.parent.iterdir()) == [runs]
    found = json.loads(
        workbench("verdict", *where, "--seed-param", "seed", *rule, "--json", lab=runs.parent).out
    )
    assert (found["registered"], found["outcome"]) == (False, "supported")
    told = found["mlflow"]
    assert told["experiment"] == "theirs"
    assert [(run["name"], run["value"]) for run in told["runs"][:2]] == [
        ("control-40", 3.2801), ("control-41", 3.279),
    ]  # fmt: skip
    assert len({run["run_id"] for run in told["runs"]}) == 8
    assert told["remarks"] == ["1 run (stray) left out: no tag or parameter 'arm'."]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--metric", "loss"], 2, "needs --experiment NAME"),
        (["--experiment", "theirs"], 2, "needs --metric NAME"),
        (["--experiment", "mine", "--metric", "loss"], 9, "has no experiment 'mine'"),
        (["--experiment", "theirs", "--metric", "bpb"], 3, "they logged loss"),
        (
            ["--experiment", "theirs", "--metric", "loss", "--control", "base"],
            3,
            "is 'base': it is 'control' (4 runs), 'treatment' (4 runs)",
        ),
    ],
)
def test_verdict_from_mlflow_of_what_is_not_there_is_refused(
    workbench: Command, tracked_stage: Path, tmp_path: Path, arguments: list[str], code: int,
    complaint: str,
) -> None:  # fmt: skip
    said = workbench(
        "verdict", "--from-mlflow", f"sqlite:///{tracked_stage}", "--rule", RULE,
        "--direction", "minimize", *arguments, lab=tmp_path,
    )  # fmt: skip
    assert said.code == code
    assert complaint in " ".join(said.err.replace("│", " ").split())
