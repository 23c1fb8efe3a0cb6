"""The whole loop on real text, as `make demo` runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.scaffold.demo import ANSWERS, answered, with_lines
from workbench.scaffold.forms import blank_form, proposal_text

ROOT = Path(__file__).parents[1]


def test_answered_form_owes_nothing() -> None:
    form = proposal_text(blank_form())
    assert "FILL IN" in form
    done = answered(form)
    asked = [line for line in done.splitlines() if not line.strip().startswith("#")]
    assert not any("FILL IN" in line for line in asked)
    assert str(ANSWERS["statement"]) in done


def test_answered_form_with_an_unknown_question_is_refused() -> None:
    with pytest.raises(KeyError, match="brand_new"):
        answered("---\nbrand_new: FILL IN\n---\n")


def test_with_lines_keeps_indentation_and_refuses_what_is_not_there() -> None:
    assert with_lines("a:\n  b: 1\n", {"b: 1": "b: 2"}) == "a:\n  b: 2\n"
    with pytest.raises(ValueError, match="c: 1"):
        with_lines("a:\n  b: 1\n", {"c: 1": "c: 2"})


@pytest.mark.slow
def test_quick_demo_runs_the_loop_to_a_verified_chronicle(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "WORKBENCH_KEYS_DIR": str(tmp_path / "keys"),
        "COLUMNS": "80",
    }

    def workbench(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *arguments],
            capture_output=True, text=True, check=False, cwd=folder, env=environment,
        )  # fmt: skip

    demo = workbench("demo", "--quick", "--dir", "lab", folder=tmp_path)
    assert demo.returncode == 0, demo.stderr
    assert "Traceback" not in demo.stdout + demo.stderr
    assert "refused: experiment 0001-" in demo.stdout
    lab = tmp_path / "lab"
    (page,) = lab.glob("reports/0001-*/chronicle.html")
    assert str(page) in demo.stdout
    assert page.with_name("chronicle.md").is_file()
    verified = workbench("verify", folder=lab)
    assert verified.returncode == 0, verified.stdout
    stranger = workbench("verify", "--from", str(lab / "registry"), folder=tmp_path)
    assert stranger.returncode == 0, stranger.stdout
    assert workbench("chronicle", "--check", folder=lab).returncode == 0
    (status,) = json.loads(workbench("status", "--json", folder=lab).stdout)
    assert status["stage"] == "decided"
    assert "\nSUPPORTED  H1: superior(0.02)\n" in demo.stdout
    check_mlflow(lab)


def check_mlflow(lab: Path) -> None:
    """The sweep is one parent run with a child a trial, none of them left running."""
    from workbench.training.tracking import Tracker

    (experiment,) = (folder.name for folder in lab.glob("experiments/0001-*"))
    name = f"demonstration-{experiment}"
    tracker = Tracker(f"sqlite:///{lab}/.workbench/mlflow.db", lab / ".workbench/mlartifacts", name)
    runs = tracker.find_runs({"workbench.experiment": experiment})
    assert {run.status for run in runs} <= {"FINISHED", "KILLED", "FAILED"}
    (parent,) = (run.run_id for run in runs if run.tags["workbench.kind"] == "sweep")
    children = [run for run in runs if run.tags.get("mlflow.parentRunId") == parent]
    assert [run.tags["workbench.kind"] for run in children] == ["trial"] * 6
