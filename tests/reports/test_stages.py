"""Where an experiment stands, from the ledger alone."""

from tests.labs import SUBJECT, LabFolder
from workbench.lab import utc_now
from workbench.reports.stages import ExperimentStatus, experiment_statuses


def status(lab: LabFolder) -> ExperimentStatus:
    (found,) = experiment_statuses(lab.open().source(), [SUBJECT], utc_now())
    return found


def test_filed_experiment_has_cost_nothing(filed_lab: LabFolder) -> None:
    found = status(filed_lab)
    assert (found.stage, found.detail, found.title) == ("filed", "not registered", "")
    assert found.device_seconds == found.wasted_device_seconds == 0


def test_registered_experiment_has_its_title_and_seeds(registered_lab: LabFolder) -> None:
    found = status(registered_lab)
    assert (found.stage, found.detail) == ("registered", "3 seeds an arm")
    assert found.title == "Does code help"


def test_swept_experiment_counts_its_trials(swept_lab: LabFolder) -> None:
    found = status(swept_lab)
    assert (found.stage, found.detail) == ("swept", "3 completed")
    assert found.device_seconds > 0


def test_promoted_experiment_names_what_was_chosen(promoted_lab: LabFolder) -> None:
    (promotion,) = promoted_lab.bodies("promotion")
    assert status(promoted_lab).detail == f"chose {promotion.chosen}"


def test_experiment_at_full_scale_counts_finished_runs(finished_lab: LabFolder) -> None:
    assert (status(finished_lab).stage, status(finished_lab).detail) == ("run", "6 of 6 runs")


def test_decided_experiment_says_the_verdict(decided_lab: LabFolder) -> None:
    found = status(decided_lab)
    assert (found.stage, found.detail, found.verdict) == ("decided", "supported", "supported")


def test_statuses_are_sorted_and_cover_filed_and_recorded_experiments(
    decided_lab: LabFolder,
) -> None:
    decided_lab.open().note("lab-wide remark")
    found = experiment_statuses(
        decided_lab.open().source(), ["0003-third", "0002-second"], utc_now()
    )
    assert [line.experiment for line in found] == [SUBJECT, "0002-second", "0003-third"]
    assert [line.stage for line in found] == ["decided", "filed", "filed"]
