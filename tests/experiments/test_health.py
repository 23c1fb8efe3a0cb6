"""How full-scale runs are doing, and that nothing in it compares the arms."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from tests.experiments.conftest import Interrupted
from tests.labs import SUBJECT, LabFolder
from workbench.errors import IntegrityError, NotFoundError, NotRegisteredError
from workbench.experiments.health import RunHealth
from workbench.sentinel.telemetry import TelemetryRow, read_rows, to_line
from workbench.training.run_folder import telemetry_path

pytestmark = pytest.mark.usefixtures("one_thread")

STOPPED = "control/seed-1"


def runs(lab: LabFolder) -> dict[str, RunHealth]:
    return {run.run: run for run in lab.open().health("1").runs}


def test_run_at_work_in_another_process_is_told_from_its_telemetry(
    interrupted_stage: Interrupted,
) -> None:
    report = interrupted_stage.during
    assert (report.experiment, report.mode, report.planned_runs) == (SUBJECT, "confirmatory", 6)
    assert [run.run for run in report.runs] == ["control/seed-0", "treatment/seed-0", STOPPED]
    assert [run.condition for run in report.runs] == ["completed", "completed", "training"]
    run = report.runs[-1]
    assert (run.attempt, run.step, run.planned_steps) == (1, 5, 12)
    assert run.signals.seconds_per_step is not None
    assert run.seconds_left == pytest.approx(7 * run.signals.seconds_per_step)
    assert run.telemetry_age is not None
    assert 0 <= run.telemetry_age < 60
    assert run.device_seconds > 0
    signals = run.signals
    for value in (signals.tokens_per_second, signals.grad_norm, signals.lr, signals.router_entropy):
        assert value is not None
        assert value > 0


def test_finished_run_has_no_age_and_nothing_left(interrupted_stage: Interrupted) -> None:
    run = interrupted_stage.during.runs[0]
    assert (run.step, run.planned_steps) == (12, 12)
    assert (run.telemetry_age, run.seconds_left) == (None, None)


def test_run_whose_process_died_is_told_as_stopped(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    size = len(lab.entries())
    run = runs(lab)[STOPPED]
    assert (run.condition, run.step, run.seconds_left) == ("stopped", 5, None)
    assert run.telemetry_age is not None
    assert len(lab.entries()) == size, "looking records nothing"


def test_interrupted_run_is_told_with_its_recorded_incident(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    run = runs(use(interrupted_stage.killed))[STOPPED]
    assert (run.condition, run.step, run.telemetry_age) == ("killed", 5, None)
    (incident,) = run.incidents
    assert (incident.category, incident.recorded, incident.step) == ("attempt_killed", True, 5)


def test_run_of_another_machine_is_told_from_the_ledger_alone(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    (lab.root / ".workbench" / "runs").rename(lab.home / "away")
    run = runs(lab)[STOPPED]
    assert (run.condition, run.step, run.planned_steps) == ("elsewhere", 0, 12)
    assert run.signals.tokens_per_second is None
    assert runs(lab)["control/seed-0"].step == 12


def test_torn_last_line_is_not_read_and_a_damaged_one_is_named(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    path = telemetry_path(lab.runs(STOPPED), 1)
    whole = path.read_text()
    path.write_text(whole + '{"time":1')
    assert runs(lab)[STOPPED].step == 5
    path.write_text(whole + '{"time":\n')
    with pytest.raises(IntegrityError, match=r"telemetry-attempt-0001\.jsonl:6"):
        runs(lab)


def test_signature_in_the_telemetry_shows_before_the_attempt_ends(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    path = telemetry_path(lab.runs(STOPPED), 1)
    *before, last = read_rows(path)
    path.write_text("".join(map(to_line, [*before, replace(last, loss=math.nan)])))
    run = runs(lab)[STOPPED]
    assert run.signals.loss_trend == "not finite"
    assert [(i.category, i.recorded) for i in run.incidents] == [("non_finite_loss", False)]


def numbers(value: Any) -> set[float]:
    if isinstance(value, dict):
        return {n for item in value.values() for n in numbers(item)}
    if isinstance(value, list):
        return {n for item in value for n in numbers(item)}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {float(value)} if is_number else set()


def test_health_holds_no_validation_value_and_no_level_of_the_loss(
    finished_lab: LabFolder,
) -> None:
    """Blind: nothing in the report is a number that compares the arms."""
    report = finished_lab.open().health("1")
    told = numbers(json.loads(json.dumps(asdict(report))))
    ends = finished_lab.bodies("run_ended")
    values = {v for end in ends for point in end.evaluations for v in point.values.values()}
    losses = {
        row.loss
        for end in ends
        for row in read_rows(telemetry_path(finished_lab.runs(end.run), 1))
        if row.loss is not None
    }
    assert len(values) > 20
    assert len(losses) > 20
    assert not told & (values | losses)


def test_health_is_the_same_for_arms_that_differ_by_the_level_of_their_loss(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    path = telemetry_path(lab.runs(STOPPED), 1)
    rows = list(read_rows(path))
    reports = []
    for factor in (1.0, 0.8):
        path.write_text("".join(to_line(_scaled(row, factor)) for row in _longer(rows)))
        reports.append(replace(runs(lab)[STOPPED], telemetry_age=None))
    assert reports[0].signals.loss_trend == "falling"
    assert reports[0] == reports[1]


def _longer(rows: list[TelemetryRow]) -> list[TelemetryRow]:
    last = rows[-1]
    return [
        replace(last, step=step, tokens=32 * step, time=last.time + step, loss=4 - step / 64)
        for step in range(1, 65)
    ]


def _scaled(row: TelemetryRow, factor: float) -> TelemetryRow:
    return replace(row, loss=factor * (row.loss or 0))


def test_health_before_the_first_run_and_without_a_registration(
    promoted_lab: LabFolder, filed_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    report = promoted_lab.open().health("1")
    assert (report.runs, report.planned_runs) == ((), 6)
    assert report.device_hours > 0
    assert report.cap_device_hours is not None
    with pytest.raises(NotFoundError, match="no exploratory full-scale run"):
        promoted_lab.open().health("1", exploratory=True)


def test_health_of_what_is_not_registered_is_refused(filed_lab: LabFolder) -> None:
    with pytest.raises(NotRegisteredError):
        filed_lab.open().health("1")


def test_health_of_exploratory_runs(
    explored_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    report = use(explored_stage).open().health("1", exploratory=True)
    assert (report.mode, report.planned_runs, len(report.runs)) == ("exploratory", 6, 6)
    assert {run.condition for run in report.runs} == {"completed"}


def test_diverged_run_is_told_with_its_incidents(
    diverged_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    run = runs(use(diverged_stage))["treatment/seed-1"]
    assert (run.condition, run.step) == ("diverged", 2)
    assert ("divergence", True) in {(i.category, i.recorded) for i in run.incidents}
