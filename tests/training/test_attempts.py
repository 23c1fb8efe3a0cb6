"""What a run's folder tells about its attempts, also after a process that died unheard."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.attempts import (
    Curve,
    attempt_trace,
    checkpoint_folder,
    resume_point,
)
from workbench.training.checkpoints import checkpoint_path, write_checkpoint
from workbench.training.recorder import FileRecorder
from workbench.training.run_folder import (
    evaluations_path,
    exclusive,
    last_attempt,
    telemetry_path,
)


def record(folder, attempt, steps, *, evaluations=()):
    files = FileRecorder(telemetry_path(folder, attempt), evaluations_path(folder, attempt))
    for step in steps:
        files.telemetry(
            TelemetryRow(
                time=100.0 + step, step=step, tokens=64 * step, loss=1.0 / step, step_seconds=0.5
            )
        )
    for step, values in evaluations:
        files.evaluation(step, values)
    files.close()
    return files


def test_trace_tells_what_the_attempt_did(tmp_path):
    written = [(8, {"bpb_macro": 1.25}), (10, {"bpb_macro": math.inf})]
    files = record(tmp_path, 2, range(5, 11), evaluations=written)
    trace = attempt_trace(tmp_path, 2)
    assert (trace.first_step, trace.last_step) == (5, 10)
    assert trace.tokens == 6 * 64
    assert trace.device_seconds == 5.5
    assert trace.curve[0] == (5, 0.2)
    assert trace.evaluations == tuple(written)
    assert trace.telemetry_sha256 == files.telemetry_sha256


def test_line_that_a_kill_tore_is_left_out(tmp_path):
    record(tmp_path, 1, range(1, 4), evaluations=[(2, {"bpb_macro": 1.0})])
    for path in (telemetry_path(tmp_path, 1), evaluations_path(tmp_path, 1)):
        with path.open("a") as file:
            file.write('{"time":104.0,"st')
    trace = attempt_trace(tmp_path, 1)
    assert trace.last_step == 3
    assert trace.evaluations == ((2, {"bpb_macro": 1.0}),)


def test_attempt_that_did_no_step_is_empty(tmp_path):
    record(tmp_path, 1, [])
    trace = attempt_trace(tmp_path, 1)
    assert (trace.first_step, trace.last_step, trace.tokens, trace.curve) == (0, 0, 0, ())
    evaluations_path(tmp_path, 1).unlink()
    assert attempt_trace(tmp_path, 1).evaluations == ()


def test_damage_before_the_last_line_is_no_torn_line(tmp_path):
    record(tmp_path, 1, range(1, 4))
    path = telemetry_path(tmp_path, 1)
    path.write_text(path.read_text().replace('"step":2', '"step":x'))
    with pytest.raises(IntegrityError, match=":2"):
        attempt_trace(tmp_path, 1)


def test_attempt_that_never_was_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="attempt 3"):
        attempt_trace(tmp_path, 3)


def test_attempt_is_recorded_once(tmp_path):
    record(tmp_path, 1, [1])
    with pytest.raises(FileExistsError):
        record(tmp_path, 1, [1])


def test_resume_point_of_a_fresh_folder_and_of_a_run(tmp_path):
    fresh = resume_point(tmp_path / "run")
    assert (fresh.attempt, fresh.from_step, fresh.parent_checkpoint) == (1, 0, "")
    assert not (tmp_path / "run").exists()
    assert last_attempt(tmp_path) == 0
    record(tmp_path, 1, [1])
    saved = write_checkpoint({"step": 40}, checkpoint_path(checkpoint_folder(tmp_path), 40))
    point = resume_point(tmp_path)
    assert (point.attempt, point.from_step) == (2, 40)
    assert point.parent_checkpoint == saved.sha256


def test_folder_is_held_by_one_at_a_time(tmp_path):
    folder = tmp_path / "run"
    refused = pytest.raises(ConflictError, match="another process")
    with exclusive(folder), refused, exclusive(folder):
        pass
    with exclusive(folder):
        pass


@given(first=st.integers(1, 500), count=st.integers(0, 3000), most=st.integers(2, 200))
def test_curve_stays_small_and_keeps_its_last_point(first, count, most):
    curve = Curve(most)
    for step in range(first, first + count):
        curve.add(step, float(step))
    points = curve.points()
    assert len(points) <= most
    assert [step for step, _ in points] == sorted({step for step, _ in points})
    assert all(loss == step for step, loss in points)
    if count:
        assert points[-1][0] == first + count - 1
    if 0 < count < most:
        assert len(points) == count
