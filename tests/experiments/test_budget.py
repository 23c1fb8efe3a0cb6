"""The registered cap on device time."""

from collections.abc import Callable

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError
from workbench.experiments import campaign, runs
from workbench.experiments.budget import allowance, require_budget, spent_device_hours
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


def used_up_after(monkeypatch: pytest.MonkeyPatch, proxies: int) -> None:
    """Let the registered cap be reached when a call has run so many proxies."""

    def allowed(*_: object, cap_device_hours: float) -> Callable[[float], None]:
        assert cap_device_hours == 4.0
        told: list[float] = []

        def refuse(since: float) -> None:
            told.append(since)
            assert told == sorted(told)
            assert told[0] == 0
            if len(told) > proxies:
                raise ConflictError("0001 has used 4.1 of its registered 4 device-hours")

        return refuse

    monkeypatch.setattr(campaign, "allowance", allowed)


def test_sweep_that_reaches_the_cap_between_two_trials_stops_on_the_record(
    registered_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        used_up_after(patch, 2)
        with pytest.raises(ConflictError, match="has used"):
            registered_lab.open().sweep("1")
    (end,) = registered_lab.bodies("sweep_ended")
    assert (end.finished, end.counts) == (False, {"completed": 2})
    assert "has used 4.1" in end.reason
    # As after an interruption: where there is time left, the next call does the rest.
    registered_lab.open().sweep("1")
    assert len(registered_lab.bodies("trial")) == 3
    assert registered_lab.open().verify().passed


def test_promotion_that_reaches_the_cap_between_two_runs_stops_and_goes_on(
    swept_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        used_up_after(patch, 3)
        with pytest.raises(ConflictError, match="has used"):
            swept_lab.open().promote("1")
    assert len(swept_lab.bodies("proxy_run")) == 3
    assert swept_lab.bodies("promotion") == []
    swept_lab.open().promote("1")
    assert len(swept_lab.bodies("promotion")) == 1


def test_allowance_counts_what_was_spent_before_and_since(swept_lab: LabFolder) -> None:
    source = swept_lab.open().source()
    spent = spent_device_hours(source, SUBJECT, mode="confirmatory")
    allowed = allowance(source, SUBJECT, cap_device_hours=2 * spent)
    allowed(0.0)
    allowed(spent * 3600 * 0.99)
    with pytest.raises(ConflictError, match="device-hours"):
        allowed(spent * 3600)


def test_exploring_has_no_cap(registered_lab: LabFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    used_up_after(monkeypatch, 0)
    registered_lab.open().sweep("1", exploratory=True)
    assert len(registered_lab.bodies("trial")) == 3


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
