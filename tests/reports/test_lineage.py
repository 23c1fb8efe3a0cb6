import pytest

from tests.reports.sample import EXPERIMENT, STEPS, MemoryLog, sample_log
from workbench.registry.entries import RunEnded, RunStarted
from workbench.reports.facts import experiment_facts
from workbench.reports.lineage import RunLineage, run_lineages

RUN = "treatment/seed-1"


def lineage_of(log: MemoryLog, run: str = RUN) -> RunLineage:
    found = run_lineages(experiment_facts(log, EXPERIMENT))
    return next(lineage for lineage in found if lineage.run == run)


def test_lineage_orders_runs_by_arm_and_seed() -> None:
    runs = [run.run for run in run_lineages(experiment_facts(sample_log(), EXPERIMENT))]
    assert runs == [f"{arm}/seed-{i}" for arm in ("control", "treatment") for i in range(3)]


def test_killed_run_keeps_the_steps_up_to_its_checkpoint_and_discards_the_rest() -> None:
    run = lineage_of(sample_log())
    assert [attempt.outcome for attempt in run.attempts] == ["lost", "completed"]
    assert [attempt.discarded_steps for attempt in run.attempts] == [12, 0]
    assert run.state == "completed"


def test_canonical_curve_has_every_step_once() -> None:
    run = lineage_of(sample_log())
    kept = [p.step for segment in run.segments if segment.kept for p in segment.points]
    assert kept == list(range(4, STEPS + 1, 4))
    lost = [p.step for segment in run.segments if not segment.kept for p in segment.points]
    assert lost == [400, 404, 408, 412]


def test_later_attempt_that_goes_further_back_takes_steps_from_every_earlier_one() -> None:
    """A2: the newest checkpoint was rejected, so the run goes on from the one before."""
    log = sample_log()
    log.found = [
        entry
        for entry in log.found
        if not (isinstance(entry.body, RunStarted | RunEnded) and entry.body.run == RUN)
    ]
    template = next(e.body for e in sample_log().found if isinstance(e.body, RunStarted))
    end = next(e.body for e in sample_log().found if isinstance(e.body, RunEnded))
    for attempt, first, last, kept in ((1, 0, 300, 300), (2, 300, 500, 400), (3, 200, 600, 600)):
        changes = {"run": RUN, "arm": "treatment", "attempt": attempt}
        log.append(template.model_copy(update={**changes, "from_step": first}))
        done = {"run": RUN, "attempt": attempt, "last_step": last, "surviving_step": kept}
        log.append(end.model_copy(update=done))
    run = lineage_of(log)
    assert [attempt.survives_to for attempt in run.attempts] == [200, 200, 600]
    assert [attempt.discarded_steps for attempt in run.attempts] == [100, 200, 0]


def test_attempt_without_an_end_is_open_and_keeps_nothing() -> None:
    log = sample_log()
    log.found = [
        entry
        for entry in log.found
        if not (isinstance(entry.body, RunEnded) and entry.body.run == "control/seed-2")
    ]
    run = lineage_of(log, "control/seed-2")
    assert run.state == "open"
    assert run.segments == ()
    assert run.attempts[0].discarded_steps == 0


@pytest.mark.parametrize("kept", [True, False])
def test_segments_say_which_attempt_they_belong_to(kept: bool) -> None:
    run = lineage_of(sample_log())
    attempts = {segment.attempt for segment in run.segments if segment.kept is kept}
    assert attempts == ({1, 2} if kept else {1})
