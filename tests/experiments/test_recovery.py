"""Runs that died, were stopped or failed: what the ledger says of them and how they go on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.labs import LabFolder
from workbench.errors import ConflictError, RunFailedError
from workbench.experiments import campaign
from workbench.registry.entries import Incident, RunEnded, RunStarted
from workbench.training.checkpoints import read_checkpoint
from workbench.training.run_folder import exclusive, telemetry_path

pytestmark = pytest.mark.usefixtures("one_thread")

RUN = "treatment/seed-2"  # the last one, so that a test has only this one to train
STEPS = 12
NEARLY = 0  # the stage in which every other run is done


class At:
    """A progress display that does something once, when a run has finished a step."""

    def __init__(self, step: int, action: Callable[[], object], run: str = RUN) -> None:
        self.step = step
        self.action = action
        self.run = run
        self.done = False

    def __call__(
        self, task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if (task, done, self.done) == (self.run, self.step, False):
            self.done = True
            self.action()


@pytest.fixture(scope="session")
def dead_stages(
    promoted_stage: LabFolder, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, LabFolder]:
    """The lab's files as a SIGKILL after a step of the last run would leave them, by step."""
    lab = promoted_stage.copy(tmp_path_factory.mktemp("dying"))
    found: dict[int, LabFolder] = {}

    def watch(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if task == RUN and done in (3, 5, 10):
            found[int(done)] = lab.copy(tmp_path_factory.mktemp(f"dead-{int(done)}"))
        if (task, detail) == ("control/seed-2", "completed"):
            found[NEARLY] = lab.copy(tmp_path_factory.mktemp("nearly"))

    lab.open().run("1", progress=watch)
    return found


@pytest.fixture
def nearly_lab(
    dead_stages: dict[int, LabFolder], use: Callable[[LabFolder], LabFolder]
) -> LabFolder:
    """All runs but the last are done."""
    return use(dead_stages[NEARLY])


def ends(lab: LabFolder, run: str = RUN) -> list[RunEnded]:
    return [body for body in lab.bodies("run_ended") if body.run == run]


def starts(lab: LabFolder, run: str = RUN) -> list[RunStarted]:
    return [body for body in lab.bodies("run_started") if body.run == run]


def incidents(lab: LabFolder) -> list[Incident]:
    return lab.bodies("incident")


def result(lab: LabFolder) -> dict[str, Any]:
    """What the run came to, to the last bit, without the times and files of its attempts."""
    last = ends(lab)[-1]
    checkpoint = lab.runs(RUN) / "checkpoints" / f"step-{STEPS:08d}.ckpt"
    state = read_checkpoint(checkpoint, last.checkpoint_sha256)["state_dict"]
    weights = {name: tensor.numpy().tobytes() for name, tensor in state.items()}
    return {
        "outcome": last.outcome,
        "step": last.last_step,
        "evaluation": last.evaluations[-1],
        "weights": weights,
    }


@pytest.mark.parametrize(("step", "survives"), [(3, 0), (5, 4), (10, 8)])
def test_run_that_died_is_lost_and_continues_to_the_undisturbed_result(
    dead_stages: dict[int, LabFolder],
    finished_stage: LabFolder,
    use: Callable[[LabFolder], LabFolder],
    step: int,
    survives: int,
) -> None:
    """A9: reconciled to lost by the next start, with what that cost."""
    lab = use(dead_stages[step])
    assert len(starts(lab)) == 1
    assert ends(lab) == []
    report = lab.open().run("1")
    assert len(report.recovered) == 1
    assert report.recovered[0].startswith(f"{RUN}: attempt 1 was lost at step {step};")
    lost, completed = ends(lab)
    assert (lost.outcome, lost.last_step, lost.surviving_step) == ("lost", step, survives)
    assert completed.outcome == "completed"
    first, second = starts(lab)
    assert (second.attempt, second.from_step) == (2, survives)
    assert second.parent_checkpoint == lost.checkpoint_sha256
    assert (second.seed, second.config_sha256) == (first.seed, first.config_sha256)
    incident = incidents(lab)[0]
    assert (incident.category, incident.layer) == ("attempt_lost", "operations")
    assert incident.lost_steps == step - survives
    assert incident.lost_tokens == (step - survives) * 32
    assert result(lab) == result(finished_stage)
    assert lab.open().verify().passed


def test_run_that_died_has_one_mlflow_run_with_one_rising_series(
    dead_stages: dict[int, LabFolder], use: Callable[[LabFolder], LabFolder]
) -> None:
    """A5, A6: the same MLflow run, the resumption recorded, no step twice after the resumption."""
    lab = use(dead_stages[10])
    lab.open().run("1")
    first, second = starts(lab)
    assert first.mlflow_run == second.mlflow_run
    tracker = lab.tracker()
    run = tracker.run(first.mlflow_run)
    assert run.status == "FINISHED"
    assert run.tags["workbench.attempt"] == "2"
    assert run.tags["workbench.attempt_2_resumed_from"] == "8"
    kinds = tracker.find_runs({"workbench.kind": "full_run", "workbench.mode": "confirmatory"})
    assert len(kinds) == 6
    # The dead process wrote its waiting values never; the living one begins after its checkpoint.
    steps = [step for step, _ in tracker.series(first.mlflow_run, "loss")]
    assert steps[-4:] == [9, 10, 11, 12]


def test_lost_attempt_is_continued_by_reference(
    dead_stages: dict[int, LabFolder], use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(dead_stages[5])
    lab.open().run("1")
    entries = {entry.leaf: entry for entry in lab.entries()}
    second = [e for e in entries.values() if e.kind == "run_started" and e.body.run == RUN][1]
    kinds = [entries[ref].kind for ref in second.refs]
    assert kinds == ["registration", "promotion", "run_ended"]
    assert entries[second.refs[2]].body.outcome == "lost"


@pytest.mark.parametrize("damage", ["truncated", "flipped", "no digest"])
def test_damaged_newest_checkpoint_is_rejected_and_on_record(
    dead_stages: dict[int, LabFolder],
    finished_stage: LabFolder,
    use: Callable[[LabFolder], LabFolder],
    damage: str,
) -> None:
    """A2: newest rejected by checksum, previous used, both facts in the ledger."""
    lab = use(dead_stages[10])
    newest = lab.runs(RUN) / "checkpoints" / "step-00000008.ckpt"
    content = newest.read_bytes()
    if damage == "truncated":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        newest.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    else:
        newest.with_name(f"{newest.name}.sha256").unlink()
    report = lab.open().run("1")
    assert [s for s in report.recovered if "checkpoint of step 8 rejected" in s]
    found = {incident.category: incident for incident in incidents(lab)}
    corrupt = found["corrupt_checkpoint"]
    assert (corrupt.run, corrupt.began_step, corrupt.lost_steps) == (RUN, 8, 4)
    assert "step-00000008.ckpt" in corrupt.symptom
    assert "continues from step 4" in corrupt.action
    assert starts(lab)[1].from_step == 4
    assert ends(lab)[0].surviving_step == 4
    assert newest.with_name(f"{newest.name}.rejected").is_file()
    assert result(lab) == result(finished_stage)


def test_run_without_any_good_checkpoint_begins_again(
    dead_stages: dict[int, LabFolder],
    finished_stage: LabFolder,
    use: Callable[[LabFolder], LabFolder],
) -> None:
    """A2: nothing left to trust."""
    lab = use(dead_stages[10])
    for file in (lab.runs(RUN) / "checkpoints").glob("*.ckpt"):
        file.write_bytes(b"")
    lab.open().run("1")
    assert starts(lab)[1].from_step == 0
    assert starts(lab)[1].parent_checkpoint == ""
    assert sum(incident.category == "corrupt_checkpoint" for incident in incidents(lab)) == 2
    assert result(lab) == result(finished_stage)


def test_run_that_died_before_its_first_step_is_lost_at_step_nought(
    nearly_lab: LabFolder,
    finished_stage: LabFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Died(BaseException):
        pass

    def die(*arguments: object, **named: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(campaign, "fit", die)
        with pytest.raises(Died):
            nearly_lab.open().run("1")
    report = nearly_lab.open().run("1")
    assert f"{RUN}: attempt 1 was lost at step 0" in report.recovered[0]
    lost, completed = ends(nearly_lab)
    assert (lost.last_step, lost.tokens, lost.device_seconds) == (0, 0, 0)
    assert completed.attempt == 2
    # The number of an attempt is never given twice, even though the first left no step.
    assert telemetry_path(nearly_lab.runs(RUN), 1).read_text() == ""
    assert result(nearly_lab) == result(finished_stage)


def test_run_with_a_living_process_is_refused(
    dead_stages: dict[int, LabFolder], use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(dead_stages[5])
    before = len(lab.entries())
    with exclusive(lab.runs(RUN)), pytest.raises(ConflictError, match="still being trained") as e:
        lab.open().run("1")
    assert RUN in e.value.message
    assert len(lab.entries()) == before


def test_failed_attempt_is_recorded_as_failed_and_continues(
    nearly_lab: LabFolder, finished_stage: LabFolder
) -> None:
    """A9: raise in step 5; FAILED, never FINISHED, and the same run goes on to its end."""

    def fail() -> None:
        raise OSError("no space left on device")

    with pytest.raises(RunFailedError, match="no space left on device") as e:
        nearly_lab.open().run("1", progress=At(5, fail))
    assert "workbench run 0001" in e.value.remedy
    (failed,) = ends(nearly_lab)
    assert (failed.outcome, failed.last_step, failed.surviving_step) == ("failed", 5, 4)
    assert failed.reason == "OSError: no space left on device"
    assert incidents(nearly_lab)[0].category == "attempt_failed"
    tracked = nearly_lab.tracker().run(starts(nearly_lab)[0].mlflow_run)
    assert (tracked.status, tracked.tags["workbench.outcome"]) == ("FAILED", "failed")
    report = nearly_lab.open().run("1")
    (sentence,) = report.recovered
    assert sentence.startswith(f"{RUN}: attempt 2 goes on from step ")
    line = {line.run: line for line in report.runs}[RUN]
    assert (line.attempts, line.outcome, line.last_step) == (2, "completed", STEPS)
    assert result(nearly_lab) == result(finished_stage)
    assert nearly_lab.tracker().run(tracked.run_id).status == "FINISHED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_attempt_is_recorded_as_killed_and_continues(
    nearly_lab: LabFolder, finished_stage: LabFolder, number: signal.Signals
) -> None:
    """A9: SIGTERM; KILLED. The step in progress is finished and saved, so nothing is lost."""
    with pytest.raises(KeyboardInterrupt):
        nearly_lab.open().run("1", progress=At(5, lambda: os.kill(os.getpid(), number)))
    (killed,) = ends(nearly_lab)
    assert (killed.outcome, killed.last_step) == ("killed", killed.surviving_step)
    assert incidents(nearly_lab)[0].lost_steps == 0
    tracked = nearly_lab.tracker().run(starts(nearly_lab)[0].mlflow_run)
    assert (tracked.status, tracked.tags["workbench.outcome"]) == ("KILLED", "killed")
    nearly_lab.open().run("1")
    assert starts(nearly_lab)[1].from_step == killed.surviving_step
    assert result(nearly_lab) == result(finished_stage)


def test_finished_runs_are_never_touched_again(finished_lab: LabFolder) -> None:
    """A9: terminal states are not overwritten."""
    before = len(finished_lab.entries())
    report = finished_lab.open().run("1")
    assert len(finished_lab.entries()) == before
    assert {line.outcome for line in report.runs} == {"completed"}
    statuses = {
        finished_lab.tracker().run(body.mlflow_run).status
        for body in finished_lab.bodies("run_started")
    }
    assert statuses == {"FINISHED"}
