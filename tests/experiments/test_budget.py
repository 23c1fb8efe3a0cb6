"""The registered cap on device time."""

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError
from workbench.experiments import campaign, runs
from workbench.experiments.budget import require_budget, spent_device_hours
from workbench.registry.log import LogSource

pytestmark = pytest.mark.usefixtures("one_thread")


def test_spent_device_hours_counts_every_trial_rerun_and_attempt(finished_lab: LabFolder) -> None:
    spent = sum(
        body.device_seconds
        for kind in ("trial", "proxy_run", "run_ended")
        for body in finished_lab.bodies(kind)
    )
    source = finished_lab.open().source()
    assert spent > 0
    assert spent_device_hours(source, SUBJECT, mode="confirmatory") == pytest.approx(spent / 3600)
    assert spent_device_hours(source, SUBJECT, mode="exploratory") == 0
    assert spent_device_hours(source, "0002-other", mode="confirmatory") == 0


def test_require_budget_refuses_at_the_cap_and_names_both_numbers(swept_lab: LabFolder) -> None:
    source = swept_lab.open().source()
    spent = spent_device_hours(source, SUBJECT, mode="confirmatory")
    require_budget(source, SUBJECT, cap_device_hours=spent * 1.01)
    with pytest.raises(ConflictError, match="device-hours") as refused:
        require_budget(source, SUBJECT, cap_device_hours=spent)
    assert f"{spent:.3g}" in refused.value.message
    assert "workbench chronicle 0001" in refused.value.remedy


def small_cap(monkeypatch: pytest.MonkeyPatch, *modules: object) -> None:
    """Make the registered cap a nanosecond, which no experiment that runs can register."""

    def require(source: LogSource, subject: str, *, cap_device_hours: float) -> None:
        assert cap_device_hours == 4.0
        require_budget(source, subject, cap_device_hours=1e-12)

    for module in modules:
        monkeypatch.setattr(module, "require_budget", require)


def test_promote_over_the_cap_starts_nothing(
    swept_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_cap(monkeypatch, campaign)
    before = len(swept_lab.entries())
    with pytest.raises(ConflictError, match="has used"):
        swept_lab.open().promote("1")
    assert len(swept_lab.entries()) == before


def test_run_that_reaches_the_cap_between_two_runs_starts_no_other(
    promoted_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_cap(monkeypatch, runs)
    before = len(promoted_lab.entries())
    with pytest.raises(ConflictError, match="has used"):
        promoted_lab.open().run("1")
    assert len(promoted_lab.entries()) == before


def test_finished_runs_over_the_cap_are_still_reported(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_cap(monkeypatch, runs)
    assert len(finished_lab.open().run("1").runs) == 6
