"""Commands that died between two writes, and commands given twice at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError
from workbench.registry.ledger import Ledger
from workbench.training.run_folder import exclusive
from workbench.training.tracking import Tracker

pytestmark = pytest.mark.usefixtures("one_thread")


class Killed(BaseException):
    """Like SIGKILL, caught by nothing that would tidy up."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a command die right after it appended an entry of a kind."""

    def arrange(kind: str, command: Callable[[], object]) -> None:
        append = Ledger.append

        def append_and_die(self: Ledger, body: Any, **named: Any) -> Any:
            entry = append(self, body, **named)
            if body.kind == kind:
                raise Killed
            return entry

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "append", append_and_die)
            with pytest.raises(Killed):
                command()

    return arrange


def statuses(lab: LabFolder, kind: str) -> list[str]:
    return [run.status for run in lab.tracker().find_runs({"workbench.kind": kind})]


def test_promote_killed_after_one_forecast_makes_the_others(
    swept_lab: LabFolder, dying: Callable[..., None]
) -> None:
    dying("forecast", lambda: swept_lab.open().promote("1"))
    assert len(swept_lab.bodies("forecast")) == 1
    swept_lab.open().promote("1")
    targets = [body.target for body in swept_lab.bodies("forecast")]
    assert targets == ["control", "treatment", "improvement"]


def test_promote_killed_before_its_deviation_records_it(
    swept_lab: LabFolder, dying: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.experiments import promotion

    def without_rules(proxy: Any, full: Any, rules: Any) -> Any:
        return keep(proxy, full, ())

    keep = promotion.key_changes
    monkeypatch.setattr(promotion, "key_changes", without_rules)
    dying("promotion", lambda: swept_lab.open().promote("1"))
    assert swept_lab.bodies("deviation") == []
    for _ in range(2):
        swept_lab.open().promote("1")
        (body,) = swept_lab.bodies("promotion")
        unexplained = [change for change in body.changes if change.deviation]
        assert len(unexplained) == len(swept_lab.bodies("deviation")) > 0


def test_sweep_killed_after_its_last_entry_is_finished_in_mlflow_too(
    registered_lab: LabFolder, dying: Callable[..., None]
) -> None:
    dying("sweep_ended", lambda: registered_lab.open().sweep("1"))
    assert statuses(registered_lab, "sweep") == ["RUNNING"]
    registered_lab.open().sweep("1")
    assert statuses(registered_lab, "sweep") == ["FINISHED"]


def test_sweep_of_a_deleted_mlflow_store_goes_on_in_a_new_one(
    registered_lab: LabFolder, dying: Callable[..., None]
) -> None:
    dying("trial", lambda: registered_lab.open().sweep("1"))
    for file in (registered_lab.root / ".workbench").glob("mlflow.db*"):
        file.unlink()
    report = registered_lab.open().sweep("1")
    assert report.counts == {"completed": 3}
    assert statuses(registered_lab, "sweep") == ["FINISHED"]


def test_sweep_whose_control_was_lost_still_reports_it(
    registered_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.experiments import campaign

    def stop(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(campaign, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            registered_lab.open().sweep("1")
    report = registered_lab.open().sweep("1")
    assert report.counts == {"completed": 3, "lost": 1}
    assert report.control_value is not None


def test_run_killed_after_its_end_was_recorded_is_finished_in_mlflow_too(
    promoted_lab: LabFolder, dying: Callable[..., None]
) -> None:
    dying("run_ended", lambda: promoted_lab.open().run("1"))
    assert statuses(promoted_lab, "full_run") == ["RUNNING"]
    stop_before_the_next_run(promoted_lab)
    assert statuses(promoted_lab, "full_run")[0] == "FINISHED"


def test_run_killed_before_the_ledger_heard_of_it_keeps_its_mlflow_run(
    promoted_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Tracker.start_run

    def start_and_die(self: Tracker, *arguments: Any, **named: Any) -> str:
        start(self, *arguments, **named)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "start_run", start_and_die)
        with pytest.raises(Killed):
            promoted_lab.open().run("1")
    (orphan,) = promoted_lab.tracker().find_runs({"workbench.kind": "full_run"})
    stop_before_the_next_run(promoted_lab)
    assert promoted_lab.bodies("run_started")[0].mlflow_run == orphan.run_id


def stop_before_the_next_run(lab: LabFolder) -> None:
    """Repeat the command, up to the start of the run that it would begin with."""
    ends = len(lab.bodies("run_ended"))

    def watch(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if done == 1 and "/" in task:
            raise Killed

    with pytest.raises(Killed):
        lab.open().run("1", progress=watch)
    assert len(lab.bodies("run_ended")) >= ends


@pytest.mark.parametrize("command", ["sweep", "promote", "run", "verdict"])
def test_command_beside_another_of_the_same_experiment_is_refused(
    finished_lab: LabFolder, command: str
) -> None:
    size = len(finished_lab.entries())
    folder: Path = finished_lab.root / ".workbench" / "runs" / SUBJECT / "confirmatory"
    with exclusive(folder), pytest.raises(ConflictError, match="another process is at work"):
        getattr(finished_lab.open(), command)("1")
    assert len(finished_lab.entries()) == size
