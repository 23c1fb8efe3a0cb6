"""Kill -9 in the middle of real training, then the same command again."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proxies import real_sweep
from tests.proxies.conftest import SUBJECT
from workbench.registry.entries import SweepEnded, Trial
from workbench.training.attempts import attempt_trace
from workbench.training.tracking import Tracker


def run(folder: Path, when: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, real_sweep.__file__, str(folder), when],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin",
             "GOMP_SPINCOUNT": "1000",
             "HOME": str(folder)},
        cwd=folder, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_sweep_and_ladder_killed_continue_to_the_same_total(tmp_path: Path) -> None:
    """C1, C5, A5, A9: killed in a trial, then in a re-run; nothing is counted twice or lost."""
    for when in ("trial-02:7", "control-m-seed-1:12"):
        assert run(tmp_path, when).returncode == -signal.SIGKILL
    last = run(tmp_path, "-")
    assert last.returncode == 0, last.stderr
    summary = json.loads(last.stdout)
    assert (summary["sweep_counts"], summary["done"]) == ({"completed": 4, "lost": 1}, 4)
    assert summary["ladder_counts"] == {"completed": 8}
    assert summary["continued"] == ["control-m-seed-1 was continued after step 10"]
    with real_sweep.open_ledger(tmp_path) as ledger:
        trials = [e.body for e in ledger.entries(kind="trial") if isinstance(e.body, Trial)]
        ends = [e.body for e in ledger.entries(kind="sweep_ended")]
        assert len(list(ledger.entries(kind="proxy_run"))) == 8
    lost = trials[2]
    retry = trials[3]
    assert (lost.number, lost.state, lost.steps) == (2, "lost", 7)
    assert lost.device_seconds > 0
    assert (retry.number, retry.params, retry.seed) == (3, lost.params, lost.seed)
    assert [end.finished for end in ends if isinstance(end, SweepEnded)] == [True]
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", SUBJECT)
    status = {run.name: run.status for run in tracker.find_runs({"workbench.mode": "confirmatory"})}
    assert status.pop("trial-02") == "KILLED"
    assert set(status.values()) == {"FINISHED"}
    assert len(status) == 2 + 4 + 8
    # One MLflow run. What its recorder held back when it was killed (at most two seconds) is in the
    # telemetry file only; everything since the checkpoint is in both.
    again = tracker.find_runs({"workbench.run": "control-m-seed-1"})
    assert len(again) == 1
    steps = [step for step, _ in tracker.series(again[0].run_id, "bpb_macro")]
    assert steps == sorted(set(steps))
    assert steps[-2:] == [15, 20]
    folder = next((tmp_path / "ladder").iterdir()) / "control-m-seed-1"
    assert attempt_trace(folder, 1).last_step == 12
    assert attempt_trace(folder, 2).first_step == 11
