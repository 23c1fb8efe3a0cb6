"""MLflow holds what happened, truthfully, for as many runs and processes as there are."""

import hashlib
import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import mlflow.telemetry
import pytest
from mlflow.exceptions import MlflowException

from workbench.errors import ConflictError, InvalidFileError, NotFoundError, StoreUnavailableError
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.tracking import STATUS_OF_OUTCOME, MlflowRecorder, Tracker


@pytest.fixture(scope="module")
def tracker(tmp_path_factory) -> Tracker:
    folder = tmp_path_factory.mktemp("mlflow store")
    return Tracker(f"sqlite:///{folder}/mlflow.db", folder / "artifacts", "0001-mixture")


def row(step, **more) -> TelemetryRow:
    values = {"time": 1_700_000_000.0 + step, "loss": 2.0, "lr": 0.1, **more}
    return TelemetryRow(step=step, tokens=step * 10, **values)


def start(tracker, name="trial-1", tags=None, params=None, parent=None):
    return tracker.start_run(name, tags or {}, params or {}, parent)


def test_run_keeps_its_tags_parameters_and_parent(tracker):
    parent = start(tracker, "sweep")
    child = start(
        tracker, "trial-3", {"workbench.trial": "3"}, {"lr": 0.1, "mixture.code": 0.25}, parent
    )
    run = tracker.run(child)
    assert (run.name, run.status) == ("trial-3", "RUNNING")
    assert run.tags["workbench.trial"] == "3"
    assert run.tags["mlflow.parentRunId"] == parent
    assert run.params == {"lr": "0.1", "mixture.code": "0.25"}


def test_telemetry_and_evaluations_become_series(tracker):
    run_id = start(tracker)
    recorder = tracker.recorder(run_id)
    for step in (1, 2, 3):
        recorder.telemetry(row(step, loss=3.0 - step))
    recorder.evaluation(3, {"bpb_macro": 1.5, "bpb_code": 1.25})
    recorder.checkpoint(3, Path("checkpoints/step-00000003.ckpt"), "ab" * 32)
    recorder.close()
    assert tracker.series(run_id, "loss") == [(1, 2.0), (2, 1.0), (3, 0.0)]
    assert tracker.series(run_id, "bpb_macro") == [(3, 1.5)]
    assert tracker.series(run_id, "tokens") == [(1, 10.0), (2, 20.0), (3, 30.0)]
    assert tracker.series(run_id, "router_entropy") == []
    assert tracker.run(run_id).tags["workbench.checkpoint_step"] == "3"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_value_that_is_not_finite_is_marked_and_no_number(tracker, value):
    """B2: never ±1.797e308."""
    run_id = start(tracker)
    recorder = tracker.recorder(run_id)
    recorder.telemetry(row(1))
    recorder.telemetry(row(2, loss=value))
    recorder.telemetry(row(3, loss=value))
    recorder.close()
    marks = {math.inf: "non-finite(+inf)", -math.inf: "non-finite(-inf)"}
    assert tracker.series(run_id, "loss") == [(1, 2.0)]
    tag = tracker.run(run_id).tags["workbench.non_finite.loss"]
    assert tag == f"{marks.get(value, 'non-finite(nan)')} at step 2"
    assert len(tracker.series(run_id, "lr")) == 3


def test_long_parameter_becomes_an_artifact_and_nothing_else_is_lost(tracker, tmp_path):
    """B7: 20,000 characters."""
    text = "x" * 20_000
    params = {f"key_{i}": i for i in range(150)}
    run_id = start(tracker, params={"mixture": text, **params}, tags={"note": "y" * 9_000})
    run = tracker.run(run_id)
    digest = hashlib.sha256(text.encode()).hexdigest()
    expected = f"sha256:{digest} (20000 characters in artifact params/mixture.txt)"
    assert run.params["mixture"] == expected
    assert len(run.params) == 151
    assert "tags/note.txt" in run.tags["note"]
    [file] = tracker._artifacts.rglob("params/mixture.txt")
    assert file.read_text() == text


def test_resumed_run_keeps_its_id_and_says_where_it_went_on(tracker):
    """A5 A6."""
    run_id = start(tracker)
    first = tracker.recorder(run_id)
    for step in (1, 2, 3):
        first.telemetry(row(step))
    first.close()
    tracker.resume_run(run_id, attempt=2, from_step=2)
    second = tracker.recorder(run_id)
    for step in (3, 4):
        second.telemetry(row(step, time=1_700_000_100.0 + step))
    second.close()
    run = tracker.run(run_id)
    assert run.run_id == run_id
    assert run.tags["workbench.attempt"] == "2"
    assert run.tags["workbench.attempt_2_resumed_from"] == "2"
    assert [step for step, _ in tracker.series(run_id, "loss")] == [1, 2, 3, 3, 4]


def test_step_that_does_not_rise_is_refused(tracker):
    """A6 A8: strictly increasing within an attempt."""
    recorder = tracker.recorder(start(tracker))
    recorder.telemetry(row(5))
    with pytest.raises(ValueError, match="step 5 was recorded after step 5"):
        recorder.telemetry(row(5))


def test_terminal_status_is_never_overwritten(tracker):
    """A9."""
    run_id = start(tracker)
    assert tracker.finish(run_id, "KILLED", outcome="lost") == "KILLED"
    assert tracker.finish(run_id, "FINISHED", outcome="completed") == "KILLED"
    run = tracker.run(run_id)
    assert run.status == "KILLED"
    assert run.tags["workbench.outcome"] == "lost"
    with pytest.raises(ValueError, match="RUNNING"):
        tracker.finish(run_id, "RUNNING")


def test_killed_run_can_go_on_and_a_finished_one_cannot(tracker):
    run_id = start(tracker)
    tracker.finish(run_id, "KILLED")
    tracker.resume_run(run_id, attempt=2, from_step=0)
    assert tracker.run(run_id).status == "RUNNING"
    tracker.finish(run_id, "FINISHED")
    with pytest.raises(ConflictError, match="has finished"):
        tracker.resume_run(run_id, attempt=3, from_step=0)


def test_every_outcome_has_a_status():
    assert STATUS_OF_OUTCOME["completed"] == "FINISHED"
    assert {STATUS_OF_OUTCOME[o] for o in ("failed", "diverged")} == {"FAILED"}
    assert {STATUS_OF_OUTCOME[o] for o in ("pruned", "killed", "lost")} == {"KILLED"}


def test_runs_are_found_by_tags_and_status(tracker):
    wanted = {"workbench.experiment": "0001-a", "workbench.kind": "trial"}
    first = start(tracker, tags=wanted)
    second = start(tracker, tags=wanted)
    start(tracker, tags={"workbench.experiment": "0001-b", "workbench.kind": "trial"})
    tracker.finish(first, "FINISHED")
    assert [run.run_id for run in tracker.find_runs(wanted)] == [first, second]
    assert [run.run_id for run in tracker.find_runs(wanted, status="RUNNING")] == [second]
    with pytest.raises(ValueError, match="filter"):
        tracker.find_runs({"workbench.kind": "x' or '1'='1"})


@pytest.mark.slow
def test_more_runs_than_a_page_are_all_found(tracker):
    """B6: 1001 trials."""
    for _ in range(1001):
        tracker._client.create_run(tracker._experiment_id, tags={"workbench.kind": "many"})
    assert len(tracker.find_runs({"workbench.kind": "many"})) == 1001


@pytest.mark.parametrize("name", ["../x", "a/../../x", "%2e%2e/x", "x#/../..", "..", ""])
def test_experiment_name_that_leads_outside_is_refused(tmp_path, name):
    """B8."""
    with pytest.raises(InvalidFileError):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["../x", "a/../../x", "x#/../.."])
def test_key_of_a_long_value_that_leads_outside_is_refused(tracker, key):
    """B8."""
    with pytest.raises(InvalidFileError):
        start(tracker, tags={key: "y" * 1000})
    assert not list(tracker._artifacts.parent.parent.rglob("x.txt"))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300])
def test_run_name_that_cannot_be_shown_is_refused(tracker, name):
    with pytest.raises(InvalidFileError):
        start(tracker, name)


def test_run_that_does_not_exist_is_named(tracker):
    with pytest.raises(NotFoundError):
        tracker.run("0" * 32)
    with pytest.raises(NotFoundError):
        tracker.finish("0" * 32, "FINISHED")


def test_values_wait_while_the_store_is_away(tracker, monkeypatch):
    run_id = start(tracker)
    now = [0.0]
    recorder = MlflowRecorder(tracker._client, "sqlite://", run_id, monotonic=lambda: now[0])
    real = tracker._client.log_batch

    def away(*args, **kwargs):
        raise tracking_error

    tracking_error = MlflowException("database is locked")
    monkeypatch.setattr(tracker._client, "log_batch", away)
    for step in (1, 2, 3):
        now[0] += 10
        recorder.telemetry(row(step))
    with pytest.raises(StoreUnavailableError, match="values of MLflow run"):
        recorder.close()
    monkeypatch.setattr(tracker._client, "log_batch", real)
    recorder.close()
    assert [step for step, _ in tracker.series(run_id, "loss")] == [1, 2, 3]


def test_second_tracker_finds_the_same_experiment(tracker):
    again = Tracker(tracker._uri, tracker._artifacts.parent, "0001-mixture")
    assert again._experiment_id == tracker._experiment_id


def test_deleted_experiment_is_named(tracker):
    other = Tracker(tracker._uri, tracker._artifacts.parent, "deleted")
    other._client.delete_experiment(other._experiment_id)
    with pytest.raises(ConflictError, match="was deleted"):
        Tracker(tracker._uri, tracker._artifacts.parent, "deleted")


def test_store_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "mlflow.db").write_bytes(b"this is no database, it only looks like a file" * 100)
    with pytest.raises(StoreUnavailableError, match=r"mlflow\.db"):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", "x")


@pytest.mark.slow
def test_nothing_is_printed_and_usage_is_not_reported(tmp_path, capfd):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", "quiet")
    tracker.finish(start(tracker), "FINISHED")
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert mlflow.telemetry.get_telemetry_client() is None


PARALLEL = """
import os, sys
from pathlib import Path
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.tracking import Tracker
folder = Path(sys.argv[1])
children = []
for worker in range(16):
    pid = os.fork()
    if pid:
        children.append(pid)
        continue
    code = 1
    try:
        tracker = Tracker(f"sqlite:///{folder}/mlflow.db", folder / "artifacts", "parallel")
        run_id = tracker.start_run(f"worker-{worker}", {"workbench.kind": "worker"}, {})
        recorder = tracker.recorder(run_id)
        for step in range(1, 201):
            recorder.telemetry(TelemetryRow(time=1.0 + step, step=step, tokens=step, loss=2.0))
        recorder.close()
        tracker.finish(run_id, "FINISHED")
        code = 0
    finally:
        os._exit(code)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""


@pytest.mark.slow
def test_sixteen_processes_start_and_write_together(tmp_path):
    """B4: 16 × 200 rows into a store that none of them finds; no exception, one schema."""
    done = subprocess.run(
        [sys.executable, "-c", PARALLEL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", "parallel")
    runs = tracker.find_runs({"workbench.kind": "worker"}, status="FINISHED")
    assert len(runs) == 16
    assert sum(len(tracker.series(run.run_id, "loss")) for run in runs) == 3200


def test_store_whose_creation_was_cut_short_is_created_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.training import tracking

    class Killed(BaseException):
        pass

    class HalfMade:
        def __init__(self, tracking_uri: str) -> None:
            with sqlite3.connect(tracking_uri.removeprefix("sqlite:///")) as connection:
                connection.execute("CREATE TABLE registered_models (name TEXT)")
            raise Killed

    place = (f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", "made-anew")
    with monkeypatch.context() as patch:
        patch.setattr(tracking, "MlflowClient", HalfMade)
        with pytest.raises(Killed):
            Tracker(*place)
    run = Tracker(*place).start_run("first", {}, {})
    assert Tracker(*place).run(run).status == "RUNNING"


def test_store_that_cannot_be_opened_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"no database at all, " * 50)
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts", "broken")
