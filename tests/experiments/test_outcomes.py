"""Validation values before the verdict: hidden everywhere, or opened on the record."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.experiments.conftest import Interrupted
from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError, InvalidFileError, NotFoundError, StoreUnavailableError
from workbench.experiments import outcomes, published_outcomes
from workbench.experiments.outcomes import open_outcomes, opened_outcomes
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.training.blinding import HELD_BACK, PUBLISHED, VALIDATION_TAG

pytestmark = pytest.mark.usefixtures("one_thread")


def recorded(lab: LabFolder) -> list[tuple[str, int, dict[str, float]]]:
    return [
        (end.run, point.step, point.values)
        for end in lab.bodies("run_ended")
        for point in end.evaluations
        if point.step <= end.surviving_step
    ]


def values(lab: LabFolder) -> set[float]:
    return {value for _, _, found in recorded(lab) for value in found.values()}


def test_opening_is_logged_with_who_why_and_which_runs(finished_lab: LabFolder) -> None:
    lab = finished_lab.open()
    found = lab.outcomes("1", by="the lead", why="the seeds look far apart")
    (entry,) = finished_lab.entries("exposure")
    (registration,) = finished_lab.entries("registration")
    body = entry.body
    assert (body.what, body.by) == ("validation_outcomes", "the lead")
    assert body.purpose == "the seeds look far apart"
    assert body.runs == list(dict.fromkeys(end.run for end in finished_lab.bodies("run_ended")))
    assert entry.refs == (registration.leaf,)
    assert found.exposure is not None
    assert found.exposure.leaf == entry.leaf
    assert [(p.run, p.step, p.values) for p in found.points] == recorded(finished_lab)
    assert {(p.arm, p.seed_index) for p in found.points} == {
        (arm, index) for arm in ("control", "treatment") for index in range(3)
    }
    assert lab.verify().passed


def test_opening_without_a_name_is_by_the_labs_actor(finished_lab: LabFolder) -> None:
    lab = finished_lab.open()
    lab.outcomes("1", why="curiosity")
    assert finished_lab.bodies("exposure")[0].by == lab.settings.actor


def test_every_opening_is_logged(finished_lab: LabFolder) -> None:
    for count in (1, 2):
        finished_lab.open().outcomes("1", why="curiosity")
        assert len(finished_lab.entries("exposure")) == count
    assert finished_lab.open().curtain("1").exposures == 2


def test_opening_without_a_reason_is_refused_and_shows_nothing(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "canonical_points", _never)
    for why in ("", "  "):
        with pytest.raises(InvalidFileError, match="says why") as refused:
            finished_lab.open().outcomes("1", why=why)
    assert "--why" in refused.value.remedy
    assert finished_lab.entries("exposure") == []


def _never(*arguments: object) -> Iterator[Any]:
    raise AssertionError("a value was read")


def test_nothing_is_read_unless_the_exposure_is_in_the_ledger(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Ledger, body: Any, **named: Any) -> Entry:
        raise StoreUnavailableError("the disk is full")

    monkeypatch.setattr(Ledger, "append", refuse)
    monkeypatch.setattr(outcomes, "canonical_points", _never)
    with pytest.raises(StoreUnavailableError):
        finished_lab.open().outcomes("1", why="curiosity")


def test_curtain_reads_no_value(finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "canonical_points", _never)
    curtain = finished_lab.open().curtain("1")
    assert (curtain.access, len(curtain.runs), curtain.exposures) == ("hidden", 6, 0)
    assert curtain.known.timing == "outcomes_seen"
    assert curtain.known.rests_on[0].kind == "promotion"
    with pytest.raises(ConflictError, match="hidden until its verdict"):
        opened_outcomes(
            finished_lab.open().source(), finished_lab.open().layout, SUBJECT, mode="confirmatory"
        )


def test_there_is_nothing_to_open_before_the_first_evaluation(promoted_lab: LabFolder) -> None:
    with pytest.raises(NotFoundError, match="nothing to open") as refused:
        promoted_lab.open().outcomes("1", why="curiosity")
    assert refused.value.remedy == "workbench run 0001"
    assert promoted_lab.entries("exposure") == []


def test_decided_experiment_needs_no_exposure(decided_lab: LabFolder) -> None:
    size = len(decided_lab.entries())
    found = decided_lab.open().outcomes("1")
    assert (found.exposure, found.curtain.access) == (None, "decided")
    assert len(found.points) == len(recorded(decided_lab))
    assert len(decided_lab.entries()) == size


def test_experiment_that_is_decided_meanwhile_needs_no_exposure(decided_lab: LabFolder) -> None:
    lab = decided_lab.open()
    size = len(decided_lab.entries())
    with lab.ledger() as ledger:
        found = open_outcomes(ledger, lab.layout, SUBJECT, by="lead", why="curiosity")
    assert found.exposure is None
    assert len(decided_lab.entries()) == size


def test_exploratory_runs_need_no_exposure(
    explored_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(explored_stage)
    found = lab.open().outcomes("1", exploratory=True)
    assert (found.exposure, found.curtain.access) == (None, "exploratory")
    assert [(p.run, p.step, p.values) for p in found.points] == recorded(lab)
    assert lab.entries("exposure") == []
    assert lab.tracker().find_runs({"workbench.kind": "full_run"}) != []


def test_withdrawn_experiment_is_opened_on_the_record_all_the_same(
    finished_lab: LabFolder,
) -> None:
    """Who gives up may not look unseen and then propose anew."""
    lab = finished_lab.open()
    lab.withdraw("1", reason="no budget")
    assert lab.curtain("1").access == "hidden"
    lab.outcomes("1", why="to learn for the next")
    assert len(finished_lab.entries("exposure")) == 1
    assert lab.verify().passed


def test_values_of_a_run_at_work_are_read_from_its_file(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    found = lab.open().outcomes("1", why="curiosity")
    assert found.curtain.runs == ("control/seed-0", "treatment/seed-0", "control/seed-1")
    assert {p.run for p in found.points} == set(found.curtain.runs)
    at_work = [p for p in found.points if p.run == "control/seed-1"]
    assert all(p.step <= 5 and math.isfinite(p.values["bpb_macro"]) for p in at_work)
    before = [(p.run, p.step, p.values) for p in found.points if p.run != "control/seed-1"]
    assert before == recorded(lab)


def test_steps_that_were_thrown_away_are_not_shown(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(interrupted_stage.dead)
    lab.open().run("1")
    found = lab.open().outcomes("1", why="curiosity")
    steps = [(p.attempt, p.step) for p in found.points if p.run == "control/seed-1"]
    assert steps == sorted(set(steps))
    assert len({step for _, step in steps}) == len(steps)


def test_run_tells_no_validation_value_before_the_verdict(
    finished_lab: LabFolder,
) -> None:
    lab = finished_lab.open()
    assert {line.value for line in lab.run("1").runs} == {None}
    lab.verdict("1")
    assert {line.value for line in lab.run("1").runs} <= values(finished_lab)


def test_run_at_work_shows_the_trend_of_its_loss_and_not_its_level(
    interrupted_stage: Interrupted, use: Callable[[LabFolder], LabFolder]
) -> None:
    told: list[str] = []

    def hear(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if task.startswith(("control/", "treatment/")):
            told.append(detail)

    use(interrupted_stage.killed).open().run("1", progress=hear)
    assert len(told) > 30
    beside = {"completed", "looking through what was served"}
    assert set(told) - beside <= {"loss falling", "loss flat", "loss rising", "loss too short"}


def test_exploratory_run_shows_its_values(
    explored_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(explored_stage)
    assert {line.value for line in lab.open().run("1", exploratory=True).runs} <= values(lab)


def tracked(lab: LabFolder, run: str) -> tuple[str, list[tuple[int, float]]]:
    (started, *_) = [body for body in lab.bodies("run_started") if body.run == run]
    tracker = lab.tracker()
    tag = tracker.run(started.mlflow_run).tags.get(VALIDATION_TAG, "")
    return tag, tracker.series(started.mlflow_run, "bpb_macro")


def test_mlflow_gets_the_validation_metrics_after_the_verdict_and_not_before(
    finished_lab: LabFolder,
) -> None:
    run = "treatment/seed-1"
    assert tracked(finished_lab, run) == (HELD_BACK, [])
    finished_lab.open().outcomes("1", why="one who looks does not look for all")
    assert tracked(finished_lab, run) == (HELD_BACK, [])
    finished_lab.open().verdict("1")
    found = [(step, v["bpb_macro"]) for name, step, v in recorded(finished_lab) if name == run]
    assert tracked(finished_lab, run) == (PUBLISHED, found)
    with pytest.raises(ConflictError, match="already has its verdict"):
        finished_lab.open().verdict("1")
    assert tracked(finished_lab, run) == (PUBLISHED, found), "once"


def test_training_curves_are_in_mlflow_before_the_verdict(finished_lab: LabFolder) -> None:
    started = finished_lab.bodies("run_started")[0]
    tracker = finished_lab.tracker()
    assert len(tracker.series(started.mlflow_run, "loss")) == 12
    assert len(tracker.series(started.mlflow_run, "grad_norm")) == 12


def test_mlflow_that_is_away_does_not_hold_up_the_verdict_and_gets_its_metrics_later(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*arguments: object, **named: object) -> None:
        raise StoreUnavailableError("the MLflow store refused")

    with monkeypatch.context() as patch:
        patch.setattr(published_outcomes, "publish_evaluations", away)
        finished_lab.open().verdict("1")
    assert tracked(finished_lab, "control/seed-0") == (HELD_BACK, [])
    with pytest.raises(ConflictError, match="already has its verdict"):
        finished_lab.open().verdict("1")
    assert tracked(finished_lab, "control/seed-0")[0] == PUBLISHED


def test_exploratory_runs_are_in_mlflow_at_once(
    explored_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    tag, series = tracked(use(explored_stage), "control/seed-0")
    assert tag == ""
    assert len(series) > 1


def test_amendment_after_the_opening_is_late_and_rests_on_it(finished_lab: LabFolder) -> None:
    lab = finished_lab.open()
    lab.outcomes("1", why="curiosity")
    proposal = finished_lab.root / "experiments" / SUBJECT / "proposal.md"
    proposal.write_text(proposal.read_text("utf-8").replace("alpha: 0.05", "alpha: 0.01"), "utf-8")
    draft = lab.draft_amendment("1")
    assert draft.known.timing == "outcomes_seen"
    assert [entry.kind for entry in draft.known.rests_on] == ["promotion", "exposure"]
    lab.amend(draft, reason_class="new_information", reason="the spread is smaller")
    body = lab.verdict("1").body
    assert (getattr(body, "mode", ""), getattr(body, "outcome", "")) == ("exploratory", "void")
    assert lab.verify().passed


def test_verdict_after_an_opening_stays_confirmatory(finished_lab: LabFolder) -> None:
    finished_lab.open().outcomes("1", why="curiosity")
    body = finished_lab.open().verdict("1").body
    assert (getattr(body, "mode", ""), getattr(body, "outcome", "")) == (
        "confirmatory",
        "supported",
    )
    assert finished_lab.open().verify().passed
