"""What the record keeps of a run's work, and how it is told."""

import pytest

from tests.experiments.conftest import LabFolder
from workbench.cli.full_runs import computed_in_words
from workbench.registry.entries import Computed, RunEnded

ONE = {
    "flops_per_token": 6_000_000,
    "flops_per_second": "25000000000.0",
    "peak_memory_bytes": 1_500_000_000,
}


def test_run_that_ended_says_what_its_training_took(finished_lab: LabFolder) -> None:
    bodies: list[RunEnded] = finished_lab.bodies("run_ended")
    assert bodies
    for body in bodies:
        assert body.computed is not None
        assert body.computed.flops_per_token > 0
        rate = body.tokens * body.computed.flops_per_token / float(body.computed.flops_per_second)
        # The attempt's own clock: a little more than the steps' sum in the trace.
        assert rate >= float(body.device_seconds) * 0.5
        assert body.computed.peak_memory_bytes > 50_000_000


def test_run_that_began_says_which_kernels_it_takes(finished_lab: LabFolder) -> None:
    for body in finished_lab.bodies("run_started"):
        assert body.host["kernels"].startswith(("compiled", "portable ("))


def test_entry_of_before_reads_as_it_was() -> None:
    old = {
        "mode": "confirmatory",
        "run": "control/seed-0",
        "attempt": 1,
        "outcome": "completed",
        "last_step": 12,
        "surviving_step": 12,
        "planned_steps": 12,
        "tokens": 384,
        "device_seconds": "1.5",
    }
    body = RunEnded.model_validate(old)
    assert body.computed is None
    assert "computed" not in body.to_json()


@pytest.mark.parametrize(
    ("changes", "peak", "told"),
    [
        ({}, None, "25 GFLOP/s, at most 1.50 GB"),
        ({}, 0.1, "25 GFLOP/s, MFU 25.0% of 0.1 TFLOP/s, at most 1.50 GB"),
        (
            {"skipped_updates": 2, "heads_scaled": 3},
            None,
            "25 GFLOP/s, at most 1.50 GB, 2 updates skipped, QK-Clip scaled 3 heads",
        ),
    ],
)
def test_work_of_an_arm_in_words(changes, peak, told) -> None:
    assert computed_in_words([Computed.model_validate(ONE | changes)], peak) == told
