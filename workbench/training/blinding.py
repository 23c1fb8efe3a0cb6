"""Validation metrics that stay out of MLflow until they may be seen.

Everybody with a browser reads MLflow. What compares the arms of a confirmatory run therefore gets
there after the verdict; the training curves, which operating a run needs, get there at once.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.recorder import Recorder
from workbench.training.tracking import Tracker

VALIDATION_TAG = "workbench.validation"
"""Says in MLflow where a full-scale run's validation metrics are."""
HELD_BACK = "held back until the verdict; workbench outcomes opens them on the record"
PUBLISHED = "published after the verdict"


class BlindRecorder:
    """Hands everything on to another recorder but the validation metrics."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def telemetry(self, row: TelemetryRow) -> None:
        """Hand the step on."""
        self._recorder.telemetry(row)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the metrics back: the run's own folder and the ledger have them."""

    def checkpoint(self, step: int, path: Path, sha256: str) -> None:
        """Hand the checkpoint on."""
        self._recorder.checkpoint(step, path, sha256)

    def close(self) -> None:
        """Close the other recorder."""
        self._recorder.close()


def publish_evaluations(
    tracker: Tracker,
    run_id: str,
    evaluations: Iterable[tuple[int, Mapping[str, float]]],
    *,
    time: float,
) -> None:
    """Write the metrics that were held back, unless that was done.

    Args:
        tracker: The store.
        run_id: The MLflow run.
        evaluations: (step, validation metrics).
        time: Seconds since 1970 that the values are dated to.

    Raises:
        NotFoundError: there is no such run.
        StoreUnavailableError: the store cannot be written; a later call does it.
    """
    if tracker.run(run_id).tags.get(VALIDATION_TAG) == PUBLISHED:
        return
    recorder = tracker.recorder(run_id, time=time)
    for step, values in evaluations:
        recorder.evaluation(step, values)
    recorder.close()
    tracker.tag(run_id, {VALIDATION_TAG: PUBLISHED})
