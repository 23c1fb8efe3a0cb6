"""What a blind recorder hands on, and what MLflow gets afterwards."""

from pathlib import Path

import pytest

from tests.training.test_tracking import row, start
from workbench.errors import NotFoundError
from workbench.training.blinding import (
    PUBLISHED,
    VALIDATION_TAG,
    BlindRecorder,
    publish_evaluations,
)
from workbench.training.tracking import Tracker

POINTS = [(3, {"bpb_macro": 1.5}), (6, {"bpb_macro": 1.25})]


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    folder = tmp_path_factory.mktemp("mlflow")
    return Tracker(f"sqlite:///{folder}/mlflow.db", folder / "artifacts", "0001-blind")


def recorded(tracker: Tracker) -> str:
    run_id = start(tracker)
    recorder = BlindRecorder(tracker.recorder(run_id))
    recorder.telemetry(row(1, loss=2.5))
    recorder.evaluation(1, {"bpb_macro": 1.5, "bpb_code": float("nan")})
    recorder.checkpoint(1, Path("step-00000001.ckpt"), "ab" * 32)
    recorder.close()
    return run_id


def test_blind_recorder_hands_on_everything_but_validation_metrics(tracker: Tracker) -> None:
    run_id = recorded(tracker)
    assert tracker.series(run_id, "loss") == [(1, 2.5)]
    assert tracker.series(run_id, "bpb_macro") == []
    tags = tracker.run(run_id).tags
    assert tags["workbench.checkpoint_step"] == "1"
    assert not [tag for tag in tags if "bpb" in tag], "not even that one was not finite"


def test_held_back_metrics_are_published_once_and_dated(tracker: Tracker) -> None:
    run_id = recorded(tracker)
    tracker.finish(run_id, "FINISHED")
    for _ in range(2):
        publish_evaluations(tracker, run_id, POINTS, time=1_700_000_000.5)
    assert tracker.series(run_id, "bpb_macro") == [(3, 1.5), (6, 1.25)]
    assert tracker.run(run_id).tags[VALIDATION_TAG] == PUBLISHED
    found = tracker._client.get_metric_history(run_id, "bpb_macro")
    assert {metric.timestamp for metric in found} == {1_700_000_000_500}


def test_publishing_to_a_run_that_is_gone_says_so(tracker: Tracker) -> None:
    with pytest.raises(NotFoundError):
        publish_evaluations(tracker, "0" * 32, POINTS, time=0)
