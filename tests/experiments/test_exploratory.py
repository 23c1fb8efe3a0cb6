"""Exploratory work always runs, is marked for ever, and never supports a verdict."""

from typing import Any

import pytest

from tests.experiments.conftest import OWNED_UP, rewrite
from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError, InvalidFileError, NotRegisteredError
from workbench.experiments.summaries import SweepReport

pytestmark = pytest.mark.usefixtures("one_thread")


def test_explored_entries_all_say_so_and_rest_on_no_registration(explored_lab: LabFolder) -> None:
    kinds = set()
    for entry in explored_lab.entries():
        if entry.kind == "genesis":
            continue
        kinds.add(entry.kind)
        assert entry.body.mode == "exploratory"
        assert entry.subject == SUBJECT
    assert kinds == {
        "sweep_started", "trial", "sweep_ended", "proxy_run", "promotion", "forecast",
        "run_started", "run_ended",
    }  # fmt: skip
    assert explored_lab.open().verify().passed


def test_explored_mlflow_runs_all_say_so(explored_lab: LabFolder) -> None:
    tracker = explored_lab.tracker()
    runs = tracker.find_runs({"workbench.experiment": SUBJECT})
    assert len(runs) > 6
    assert {run.tags["workbench.mode"] for run in runs} == {"exploratory"}
    assert {run.tags["workbench.registration"] for run in runs} == {"none"}


def test_explored_experiment_stays_filed_and_its_cost_is_counted(explored_lab: LabFolder) -> None:
    (status,) = explored_lab.open().status()
    assert (status.stage, status.verdict) == ("filed", "")
    assert status.exploratory_entries > 0
    assert status.device_seconds > 0


def test_explored_experiment_has_no_verdict_neither_before_nor_after_a_registration(
    explored_lab: LabFolder,
) -> None:
    lab = explored_lab.open()
    with pytest.raises(NotRegisteredError) as refused:
        lab.verdict("1")
    assert refused.value.exit_code == 4
    lab.register("1")
    with pytest.raises(ConflictError, match="no confirmatory promotion"):
        lab.verdict("1")
    with pytest.raises(ConflictError, match=r"confirmatory sweep of .* is not finished"):
        lab.promote("1")
    assert explored_lab.bodies("exposure") == []
    (status,) = lab.status()
    assert status.stage == "registered"


@pytest.mark.parametrize(
    ("field", "remedy"),
    [("foreknowledge", "these_outcomes"), ("pilots_seen", "exploratory runs, entries 2 to ")],
)
def test_explored_experiment_that_claims_to_know_nothing_is_refused(
    explored_lab: LabFolder, field: str, remedy: str
) -> None:
    before = {new: old for old, new in OWNED_UP.items()}
    line = next(new for new in before if new.startswith(field) == (field == "foreknowledge"))
    rewrite(explored_lab, {line: before[line]})
    (fault,) = explored_lab.open().check("1").faults
    assert fault.message.startswith(f"{field} ")
    assert "this lab's log holds 19 outcomes of this very experiment (entries 2 to " in (
        fault.message
    )
    assert "6 at full scale" in fault.message
    assert remedy in fault.remedy
    size = len(explored_lab.entries())
    with pytest.raises(InvalidFileError, match="1 fault"):
        explored_lab.open().register("1")
    assert len(explored_lab.entries()) == size


def test_explored_experiment_that_owns_up_is_sound_and_stays_so_when_registered(
    explored_lab: LabFolder,
) -> None:
    lab = explored_lab.open()
    assert lab.check("1").faults == ()
    lab.register("1")
    assert lab.check("1").faults == ()


def test_explored_folders_are_apart_from_the_confirmatory_ones(explored_lab: LabFolder) -> None:
    assert explored_lab.runs("control/seed-0", mode="exploratory").is_dir()
    assert not explored_lab.runs("control/seed-0").exists()


def test_explored_chronicle_carries_the_watermark(explored_lab: LabFolder) -> None:
    for path in explored_lab.open().chronicle("1"):
        assert "exploratory" in path.read_text("utf-8").lower()


def test_explored_chronicle_tells_what_trials_and_runs_drew(explored_lab: LabFolder) -> None:
    """D5: realised shares and epochs by domain, also of what was never registered."""
    for path in explored_lab.open().chronicle("1"):
        text = path.read_text("utf-8")
        assert "completed trials drew code " in text
        for arm in ("control", "treatment"):
            assert f"Runs of {arm} drew code " in text


def test_sweep_explores_the_draft_as_it_is_now(
    explored_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating an exploration that is complete trains nothing again."""
    size = len(explored_lab.entries())
    report: Any = explored_lab.open().sweep("1", exploratory=True)
    assert isinstance(report, SweepReport)
    assert report.counts == {"completed": 3}
    new = explored_lab.entries()[size:]
    assert [entry.kind for entry in new if entry.kind == "trial"] == []


def test_explored_run_without_a_promotion_names_the_exploratory_command(
    registered_lab: LabFolder,
) -> None:
    with pytest.raises(ConflictError) as refused:
        registered_lab.open().run("1", exploratory=True)
    assert refused.value.remedy == "workbench promote 0001 --exploratory"


def test_exploring_after_a_verdict_leaves_it_standing(decided_lab: LabFolder) -> None:
    """Runs of the same names in the other mode are no evidence, neither for it nor against it."""
    lab = decided_lab.open()
    lab.sweep("1", exploratory=True)
    lab.promote("1", exploratory=True)
    lab.run("1", exploratory=True)
    modes = {body.mode for body in decided_lab.bodies("run_started")}
    assert modes == {"confirmatory", "exploratory"}
    assert lab.verify().passed


def test_exploring_before_a_registration_leaves_its_verdict_standing(
    explored_lab: LabFolder,
) -> None:
    lab = explored_lab.open()
    lab.register("1")
    lab.sweep("1")
    lab.promote("1")
    lab.run("1")
    lab.verdict("1")
    modes = {body.mode for body in explored_lab.bodies("run_started")}
    assert modes == {"confirmatory", "exploratory"}
    assert lab.verify().passed
