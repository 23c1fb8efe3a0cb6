"""Others' MLflow runs become the rows that a rule judges, with every run accounted for."""

import math
from typing import Any

import pytest

from workbench.errors import InvalidFileError
from workbench.experiments.outside_runs import Row, outside_verdict
from workbench.experiments.outside_tracking import Assignment, TrackedRows, tracked_rows
from workbench.training.tracked_elsewhere import ElsewhereExperiment, ElsewhereRun

BY = Assignment(metric="loss", arm_key="arm", control="", treatment="", seed_param="seed")


def run(arm: str, seed: str, value: float | None = None, at: int = 0, **changes: Any) -> Any:
    found: dict[str, Any] = {
        "run_id": f"{arm}-{seed}-{at}",
        "name": f"{arm}{seed}",
        "status": "FINISHED",
        "started_ms": at,
        "tags": {"arm": arm} if arm else {},
        "params": {"seed": seed} if seed else {},
        "metrics": {} if value is None else {"loss": value},
    }
    return ElsewhereRun(**(found | changes))


RUNS = [
    run("control", "1", 3.2801, 1),
    run("treatment", "1", 3.2771, 2),
    run("control", "2", 3.2790, 3),
    run("treatment", "2", 3.2768, 4),
    run("control", "3", 3.2812, 5),
    run("treatment", "3", 3.2780, 6),
]


def rows(runs: list[Any], **changes: Any) -> TrackedRows:
    deleted = changes.pop("deleted", 0)
    found = ElsewhereExperiment(name="x", runs=tuple(runs), num_deleted=deleted)
    return tracked_rows(found, Assignment(**(vars(BY) | changes)))


def outcome(read: TrackedRows, rule: str = "superior(0.001) welch_t fixed(3) alpha 0.05") -> Any:
    return outside_verdict(
        read.rows, rule, direction="minimize", metric="loss", divergence="exclude", data_arms=None
    ).judgement


def test_runs_become_rows_in_the_order_of_their_start() -> None:
    read = rows(RUNS)
    assert read.rows[:2] == (
        Row(arm="control", seed="1", value=3.2801),
        Row(arm="treatment", seed="1", value=3.2771),
    )
    assert [found.run_id for found in read.runs] == [found.run_id for found in RUNS]
    assert read.remarks == ()
    assert outcome(read).outcome == "supported"


def test_arms_and_seeds_are_found_in_tags_or_parameters_under_other_names() -> None:
    changed = [
        run("", "", found.metrics["loss"], found.started_ms,
            params={"data": {"control": "web", "treatment": "code"}[found.tags["arm"]]},
            tags={"s": found.params["seed"]})
        for found in RUNS
    ]  # fmt: skip
    read = rows(changed, arm_key="data", control="web", treatment="code", seed_param="s")
    assert read.rows == rows(RUNS).rows


def test_seeds_without_a_name_are_the_order_of_start() -> None:
    read = rows(RUNS, seed_param="")
    assert [row.seed for row in read.rows] == ["#1", "#1", "#2", "#2", "#3", "#3"]


@pytest.mark.parametrize("status", ["FAILED", "KILLED", "RUNNING"])
def test_run_that_did_not_finish_keeps_its_place_and_voids(status: str) -> None:
    """Its seed is missing: the fourth never takes its place, whatever it logged."""
    gone = run("treatment", "2", 3.1, 4, status=status)
    runs = [
        *RUNS[:3],
        gone,
        *RUNS[4:],
        run("control", "4", 3.28, 7),
        run("treatment", "4", 3.27, 8),
    ]
    read = rows(runs)
    assert read.remarks == (f"1 run (treatment2) {status}: their seeds are missing.",)
    assert (read.rows[3].value, read.rows[3].ended) == (None, False)
    judged = outcome(read)
    assert judged.outcome == "void"
    assert judged.reason == "treatment is without its seed 2"


def test_run_that_logged_a_nan_voids_and_never_wins() -> None:
    read = rows([*RUNS[:5], run("treatment", "3", math.nan, 6)])
    assert read.remarks == (
        "1 run (treatment3) logged a last loss that is not finite, which voids.",
    )
    assert outcome(read).outcome == "void"


def test_run_without_the_metric_is_missing() -> None:
    read = rows([*RUNS[:5], run("treatment", "3", None, 6)])
    assert read.remarks == ("1 run (treatment3) finished without loss: their seeds are missing.",)
    assert outcome(read).outcome == "void"


def test_run_that_was_tried_again_counts_once_and_is_told() -> None:
    read = rows([run("control", "1", 9.0, 0, status="FAILED"), *RUNS])
    assert read.rows == rows(RUNS).rows
    assert read.remarks == ("control seed 1 was begun 2 times; left out: control1 FAILED.",)


def test_other_arms_are_left_out_only_when_two_are_named() -> None:
    runs = [*RUNS, run("other", "1", 3.2, 9), run("", "1", 3.2, 10, name="stray")]
    with pytest.raises(InvalidFileError, match=r"'control' \(3 runs\), .*'other' \(1 runs\)"):
        rows(runs)
    read = rows(runs, control="control", treatment="treatment", deleted=2)
    assert len(read.rows) == 6
    assert read.remarks == (
        "1 run (other1) of arm 'other' left out: neither of the two arms.",
        "1 run (stray) left out: no tag or parameter 'arm'.",
        "2 runs were deleted in MLflow and were not looked at.",
    )


def test_runs_of_the_arm_noise_give_the_floor() -> None:
    repeats = [run("noise", f"n{i}", 3.28 + i / 1e4, 20 + i) for i in range(10)]
    read = rows([*RUNS, *repeats])
    verdict = outside_verdict(
        read.rows, "superior(0.001) calibrated_t fixed(3) alpha 0.05", direction="minimize",
        metric="loss", divergence="arm_void", data_arms=False,
    )  # fmt: skip
    assert verdict.rule.noise_floor is not None
    assert verdict.rule.noise_floor.num_runs == 10


@pytest.mark.parametrize(
    ("runs", "changes", "complaint"),
    [
        (RUNS, {"arm_key": "none"}, "is 'control' or 'treatment': it is on no run"),
        (RUNS, {"control": "base"}, "is 'base': it is 'control' (3 runs), 'treatment' (3 runs)"),
        (RUNS, {"control": "treatment"}, "must be two values"),
        (RUNS, {"metric": "bpb"}, "no run logged the metric 'bpb' (they logged loss)"),
        ([*RUNS, run("control", "", 3.2, 9)], {}, "without a parameter or tag 'seed'"),
        ([*RUNS, run("control", "1", 3.2, 9)], {}, "finished runs of control seed 1: control-1-1"),
        (
            [*RUNS, run("control", "9", 3.2, 9, params={"seed": "9", "arm": "treatment"})],
            {},
            "has 'arm' twice: tag 'control', parameter 'treatment'",
        ),
    ],
)
def test_ambiguous_runs_are_refused_with_what_was_found(
    runs: list[Any], changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidFileError) as refused:
        rows(runs, **changes)
    assert complaint in str(refused.value)
