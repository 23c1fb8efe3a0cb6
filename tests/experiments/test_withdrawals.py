"""Giving an experiment up: nothing confirmatory runs any more, and everything stays readable."""

from typing import Any

import pytest

from tests.experiments.test_amendments import ALPHA, edit, put
from tests.labs import SUBJECT, LabFolder
from tests.registry.test_amended import promotion, verdict, work
from workbench.errors import ConflictError, InvalidFileError, NotRegisteredError
from workbench.experiments.locks import stage_lock
from workbench.experiments.plan import refuse_outdated, registered_plan
from workbench.registry.entries import Body, Withdrawal


@pytest.mark.parametrize(
    ("before", "timing", "rests_on"),
    [
        ([], "before_any_run", "registration"),
        ([work()], "outcomes_unseen", "sweep_started"),
        ([work(), promotion()], "outcomes_seen", "promotion"),
    ],
)
def test_withdraw_records_what_was_known(
    registered_lab: LabFolder, before: list[Body], timing: str, rests_on: str
) -> None:
    """Giving up after a look is another thing than before one, and stays visible for ever."""
    put(registered_lab, *before)
    entry = registered_lab.open().withdraw("1", reason=" no budget ")
    body = entry.body
    assert isinstance(body, Withdrawal)
    assert (body.reason, body.timing) == ("no budget", timing)
    (shown,) = [e for e in registered_lab.entries() if e.id in body.rests_on]
    assert shown.kind == rests_on
    (registration,) = registered_lab.entries("registration")
    assert entry.refs == (registration.leaf,)
    assert registered_lab.open().verify().passed


@pytest.mark.parametrize("command", ["sweep", "promote", "run", "verdict"])
def test_nothing_confirmatory_runs_after_a_withdrawal(
    registered_lab: LabFolder, command: str
) -> None:
    registered_lab.open().withdraw("1", reason="no budget")
    with pytest.raises(ConflictError, match=r"was withdrawn on .*: no budget") as refused:
        getattr(registered_lab.open(), command)("1")
    assert refused.value.exit_code == 5
    assert "workbench propose" in refused.value.remedy
    assert registered_lab.bodies("sweep_started") == []


@pytest.mark.usefixtures("one_thread")
def test_exploring_still_works_after_a_withdrawal(registered_lab: LabFolder) -> None:
    registered_lab.open().withdraw("1", reason="no budget")
    registered_lab.open().sweep("1", exploratory=True)
    assert {body.mode for body in registered_lab.bodies("trial")} == {"exploratory"}
    assert registered_lab.open().verify().passed


def test_stage_that_started_before_the_withdrawal_is_refused(registered_lab: LabFolder) -> None:
    opened = registered_lab.open()
    plan = registered_plan(opened.source(), SUBJECT)
    opened.withdraw("1", reason="no budget")
    with pytest.raises(ConflictError, match="was withdrawn"):
        refuse_outdated(opened.source(), plan)


def test_withdrawn_experiment_is_not_registered_amended_or_withdrawn_again(
    registered_lab: LabFolder,
) -> None:
    registered_lab.open().withdraw("1", reason="no budget")
    edit(registered_lab, ALPHA)
    for again in (
        lambda lab: lab.register("1"),
        lambda lab: lab.draft_amendment("1"),
        lambda lab: lab.withdraw("1", reason="really"),
    ):
        with pytest.raises(ConflictError):
            again(registered_lab.open())
    assert len(registered_lab.entries("withdrawal")) == 1
    assert registered_lab.entries("amendment") == []


def test_unregistered_experiment_cannot_be_withdrawn(filed_lab: LabFolder) -> None:
    with pytest.raises(NotRegisteredError):
        filed_lab.open().withdraw("1", reason="no budget")


def test_judged_experiment_cannot_be_withdrawn(registered_lab: LabFolder) -> None:
    put(registered_lab, verdict())
    with pytest.raises(ConflictError, match="has its verdict"):
        registered_lab.open().withdraw("1", reason="it was refuted")


def test_withdrawal_owes_a_reason(registered_lab: LabFolder) -> None:
    with pytest.raises(InvalidFileError, match="without a reason"):
        registered_lab.open().withdraw("1", reason=" ")


@pytest.mark.parametrize("mode", ["confirmatory", "exploratory"])
def test_experiment_at_work_is_not_withdrawn(registered_lab: LabFolder, mode: Any) -> None:
    with (
        registered_lab.open().ledger() as ledger,
        stage_lock(registered_lab.open().layout, ledger, SUBJECT, mode),
        pytest.raises(ConflictError, match="at work"),
    ):
        registered_lab.open().withdraw("1", reason="no budget")


@pytest.mark.parametrize("command", ["withdraw", "sweep"])
def test_experiment_at_work_in_another_copy_of_the_lab_is_left_alone(
    registered_lab: LabFolder, command: str
) -> None:
    """A team's clones share the store only; a file's lock in one of them binds no other."""
    options = {"reason": "no budget"} if command == "withdraw" else {}
    with (
        registered_lab.open().ledger() as there,
        there.reserved(f"{SUBJECT} confirmatory"),
        pytest.raises(ConflictError, match="in another copy of this lab"),
    ):
        getattr(registered_lab.open(), command)("1", **options)
    assert registered_lab.bodies("withdrawal") == registered_lab.bodies("sweep_started") == []
