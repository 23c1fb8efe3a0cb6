"""Full-scale runs, undisturbed: what each start promises and each end records."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments import campaign
from workbench.experiments.attempts import histories, run_name
from workbench.experiments.plan import registered_plan
from workbench.experiments.promotion import promotion_body, required_promotion
from workbench.registry.log import Entry, LogSource

pytestmark = pytest.mark.usefixtures("one_thread")


def test_run_seeds_are_the_registered_ones_and_the_same_in_both_arms(
    finished_lab: LabFolder,
) -> None:
    seeds = registered_plan(finished_lab.open().source(), SUBJECT).seeds
    started = finished_lab.bodies("run_started")
    for arm in ("control", "treatment"):
        mine = {body.seed_index: int(body.seed) for body in started if body.arm == arm}
        assert mine == dict(enumerate(seeds))


def test_run_goes_seed_by_seed_so_that_an_interrupted_campaign_is_balanced(
    finished_lab: LabFolder,
) -> None:
    order = [body.run for body in finished_lab.bodies("run_started")]
    assert order == [run_name(arm, i) for i in range(3) for arm in ("control", "treatment")]


def test_run_trains_the_promoted_configuration_of_its_arm(finished_lab: LabFolder) -> None:
    (promotion,) = finished_lab.entries("promotion")
    sha256 = promotion_body(promotion).config_sha256
    for entry in finished_lab.entries("run_started"):
        assert entry.body.config_sha256 == sha256[entry.body.arm]
        assert promotion.leaf in entry.refs
    for body in finished_lab.bodies("run_ended"):
        assert (body.outcome, body.last_step, body.planned_steps) == ("completed", 12, 12)
        assert body.checkpoint_sha256
        assert body.curve[-1].step == 12


def test_run_in_mlflow_says_which_run_of_which_registration_it_is(finished_lab: LabFolder) -> None:
    (registration,) = finished_lab.entries("registration")
    tracker = finished_lab.tracker()
    for body in finished_lab.bodies("run_started"):
        tags = tracker.run(body.mlflow_run).tags
        assert tags["workbench.registration"] == registration.leaf
        assert tags["workbench.mode"] == "confirmatory"
        assert (tags["workbench.arm"], tags["workbench.seed_index"]) == (
            body.arm,
            str(body.seed_index),
        )


def test_run_before_a_promotion_is_refused_with_the_command(swept_lab: LabFolder) -> None:
    with pytest.raises(ConflictError, match="no confirmatory promotion") as refused:
        swept_lab.open().run("1")
    assert refused.value.remedy == "workbench promote 0001"


def test_run_of_a_promotion_without_the_arm_is_refused(
    promoted_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halved(source: LogSource, plan: Any) -> Entry:
        entry = required_promotion(source, plan)
        body = promotion_body(entry)
        configs = {"treatment": body.configs["treatment"]}
        return replace(entry, body=body.model_copy(update={"configs": configs}))

    monkeypatch.setattr(campaign, "required_promotion", halved)
    with pytest.raises(IntegrityError, match="no configuration for control"):
        promoted_lab.open().run("1")
    assert promoted_lab.bodies("run_started") == []


def test_run_that_diverged_is_final_and_never_started_again(
    diverged_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    """A9: a divergence is FAILED in MLflow and a result in the ledger, not something to retry."""
    lab = use(diverged_stage)
    size = len(lab.entries())
    report = lab.open().run("1")
    assert len(lab.entries()) == size
    lines = {line.run: line for line in report.runs}
    assert (lines["treatment/seed-1"].outcome, lines["treatment/seed-1"].last_step) == (
        "diverged",
        2,
    )
    assert [line.outcome for line in report.runs].count("completed") == 5
    (ended,) = [b for b in lab.bodies("run_ended") if b.run == "treatment/seed-1"]
    assert "loss was above 0.001" in ended.reason
    assert "divergence" in {body.category for body in lab.bodies("incident")}
    (started,) = [b for b in lab.bodies("run_started") if b.run == "treatment/seed-1"]
    tracked = lab.tracker().run(started.mlflow_run)
    assert (tracked.status, tracked.tags["workbench.outcome"]) == ("FAILED", "diverged")


def test_histories_of_the_other_mode_are_empty(finished_lab: LabFolder) -> None:
    source = finished_lab.open().source()
    assert len(histories(source, SUBJECT, "confirmatory")) == 6
    assert histories(source, SUBJECT, "exploratory") == {}
    assert histories(source, "0002-other", "confirmatory") == {}
