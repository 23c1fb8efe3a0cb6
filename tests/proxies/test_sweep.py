"""Sweeps on a real ledger, real Optuna and real MLflow stores; only the training is a stand-in."""

import dataclasses
import math
from pathlib import Path

import pytest

from tests.proxies.conftest import SUBJECT, StubCorpus, StubTraining
from workbench.errors import ConflictError, IntegrityError, NotRegisteredError, RunFailedError
from workbench.proxies.recipe import Recipe
from workbench.proxies.sweep import run_sweep
from workbench.proxies.sweep_plan import SweepRun, SweepSummary
from workbench.registry.ledger import Ledger
from workbench.registry.proposal import Pruning, Sampler
from workbench.training.run_folder import exclusive
from workbench.training.tracking import Tracker


@pytest.fixture
def sweep(ledger: Ledger, tracker: Tracker, train: StubTraining, tmp_path: Path):
    def run(plan: SweepRun, **changes: object) -> SweepSummary:
        return run_sweep(
            dataclasses.replace(plan, **changes),
            ledger=ledger, tracker=tracker, corpus=StubCorpus(), folder=tmp_path / "runs",
            train=train,
        )  # fmt: skip

    return run


def raising(error: BaseException):
    def act() -> None:
        raise error

    return act


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries(subject=SUBJECT)][1:]


def test_sweep_of_five_records_five_trials_beside_each_other(sweep, plan, ledger, tracker) -> None:
    summary = sweep(plan)
    assert summary.finished
    assert (summary.done, summary.counts) == (5, {"completed": 5})
    assert kinds(ledger) == ["sweep_started", *["trial"] * 5, "sweep_ended"]
    entries = list(ledger.entries(kind="trial", subject=SUBJECT))
    assert all(entry.refs[0] == plan.registration for entry in entries)
    parent = tracker.run(summary.mlflow_run)
    assert parent.status == "FINISHED"
    children = tracker.find_runs({"mlflow.parentRunId": summary.mlflow_run})
    assert [child.status for child in children] == ["FINISHED"] * 5
    assert [child.tags["workbench.trial"] for child in children] == list("01234")
    assert {child.tags["workbench.registration"] for child in children} == {plan.registration}
    assert {child.tags["workbench.mode"] for child in children} == {"confirmatory"}
    assert {t.mlflow_run for t in summary.trials} == {child.run_id for child in children}


def test_sweep_records_what_each_trial_drew(sweep, plan, train, ledger) -> None:
    """D5: realised shares and epochs by domain, also of a trial that was cut short."""
    train.script[2] = lambda: "diverged"
    summary = sweep(plan)
    for call, trial in zip(train.calls, summary.trials, strict=True):
        mixture = call["config"].mixture
        shares = StubCorpus().natural_mixture() if mixture == "natural" else mixture
        assert {domain: use.share for domain, use in trial.drawn.items()} == shares
        assert sum(use.tokens for use in trial.drawn.values()) == pytest.approx(trial.tokens, abs=2)
    assert summary.trials[2].tokens == 5 * 16
    entries = ledger.entries(kind="trial", subject=SUBJECT)
    assert [entry.body for entry in entries] == list(summary.trials)


def test_sweep_first_trial_is_the_control_to_the_last_bit(sweep, plan, train) -> None:
    summary = sweep(plan)
    assert train.calls[0]["config"] == plan.recipe.base
    assert summary.trials[0].params["mixture"] == "natural"
    assert train.calls[1]["config"] != plan.recipe.base
    values = [train.calls[i]["config"].mixture["code"] for i in range(1, 5)]
    assert len(set(values)) == 4


def test_sweep_without_registration_is_refused(sweep, plan, ledger) -> None:
    with pytest.raises(NotRegisteredError, match="--exploratory"):
        sweep(plan, registration="")
    assert kinds(ledger) == []


def test_sweep_exploratory_needs_none_and_says_what_it_is(sweep, plan, ledger, tracker) -> None:
    summary = sweep(plan, registration="", mode="exploratory")
    started, *trials, ended = list(ledger.entries(subject=SUBJECT))[1:]
    assert summary.root == started.leaf
    assert {e.body.mode for e in (started, *trials, ended)} == {"exploratory"}
    assert all(entry.refs == (started.leaf,) for entry in trials)
    child = tracker.run(summary.trials[0].mlflow_run)
    assert child.tags["workbench.mode"] == "exploratory"
    assert child.tags["workbench.registration"] == "none"


def test_sweep_that_finished_is_returned_and_not_repeated(sweep, plan, ledger, train) -> None:
    first = sweep(plan)
    before = ledger.head().size
    again = sweep(plan)
    assert ledger.head().size == before
    assert len(train.calls) == 5
    assert again.trials == first.trials
    assert again.mlflow_run == first.mlflow_run


def test_sweep_interrupted_continues_to_the_same_total(sweep, plan, ledger, train, tracker) -> None:
    """C5, C1: budget 5, interrupted in the third; the total is 5 and the lost point is repeated."""
    train.script[2] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sweep(plan)
    entries = list(ledger.entries(subject=SUBJECT))
    assert [e.body.state for e in entries if e.kind == "trial"] == ["completed"] * 2 + ["lost"]
    lost = entries[-2].body
    assert (lost.steps, lost.value) == (5, None)
    assert lost.device_seconds > 0
    assert lost.last_value is not None
    assert entries[-1].body.finished is False
    assert tracker.run(lost.mlflow_run).status == "KILLED"
    assert tracker.run(entries[1].body.mlflow_run).status == "KILLED"
    summary = sweep(plan)
    assert summary.counts == {"completed": 5, "lost": 1}
    assert summary.done == 5
    retry = next(t for t in summary.trials if t.number == 3)
    assert (retry.params, retry.seed) == (lost.params, lost.seed)
    assert tracker.run(summary.mlflow_run).status == "FINISHED"
    children = tracker.find_runs({"mlflow.parentRunId": summary.mlflow_run})
    assert sorted(c.status for c in children) == ["FINISHED"] * 5 + ["KILLED"]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["random", "tpe", "qmc"])
def test_sweep_interrupted_has_the_points_of_one_that_was_not(
    sweep, plan, train, sampler: str
) -> None:
    """C9: a resumed sweep repeats nothing, and a replay gives the same points and seeds."""
    train.script[3] = raising(KeyboardInterrupt())
    plan = dataclasses.replace(plan, sampler=Sampler(name=sampler, seed=3), budget_trials=12)
    with pytest.raises(KeyboardInterrupt):
        sweep(plan)
    resumed = [t for t in sweep(plan).trials if t.state == "completed"]
    straight = sweep(plan, registration="", mode="exploratory").trials
    assert [(t.params, t.seed, t.value) for t in resumed] == [
        (t.params, t.seed, t.value) for t in straight
    ]
    assert len({str(t.params) for t in straight}) == 12


def test_sweep_point_that_is_lost_twice_uses_up_budget(sweep, plan, train) -> None:
    for call in (1, 2):
        train.script[call] = raising(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            sweep(plan)
    summary = sweep(plan)
    assert summary.counts == {"completed": 4, "lost": 2}
    assert summary.done == 5


@pytest.mark.parametrize(("rule", "calls", "completed"), [("count", 5, 4), ("retry_once", 6, 5)])
def test_sweep_failed_trial_follows_the_registered_rule(
    sweep, plan, train, tracker, rule: str, calls: int, completed: int
) -> None:
    train.script[1] = raising(RuntimeError("boom\nin two lines"))
    summary = sweep(plan, failed_trials=rule)
    assert len(train.calls) == calls
    assert summary.counts == {"completed": completed, "failed": 1}
    failed = next(t for t in summary.trials if t.state == "failed")
    assert failed.reason == "RuntimeError: boom in two lines"
    assert failed.value is None
    assert failed.device_seconds > 0
    assert tracker.run(failed.mlflow_run).status == "FAILED"
    if rule == "retry_once":
        assert train.calls[2]["config"] == train.calls[1]["config"]
        assert train.calls[2]["seed"] == train.calls[1]["seed"]
        assert train.calls[2]["folder"] != train.calls[1]["folder"]


def test_sweep_diverged_trial_counts_and_is_never_retried(sweep, plan, train) -> None:
    train.script[1] = lambda: "diverged"
    summary = sweep(plan, failed_trials="retry_once")
    assert summary.counts == {"completed": 4, "diverged": 1}
    assert len(train.calls) == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_sweep_value_that_is_not_finite_never_counts_as_completed(
    sweep, plan, train, monkeypatch, value: float
) -> None:
    """A NaN or infinite result fails by the registered rule, never wins, is shown."""
    monkeypatch.setattr("tests.proxies.conftest.bits", lambda config, seed: value)
    with pytest.raises(RunFailedError, match="no trial"):
        sweep(plan)


def test_sweep_values_that_make_no_configuration_fail_the_trial(sweep, plan, train) -> None:
    values = plan.recipe.model_dump(mode="json")
    # at this scale, 3 heads do not divide the width
    values["space"] = {"model.num_heads": {"kind": "choice", "values": [2, 3]}}
    values["base"]["model"]["num_kv_heads"] = 1
    summary = sweep(plan, recipe=Recipe.model_validate(values), budget_trials=6)
    assert summary.counts["failed"] >= 1
    assert summary.counts["completed"] + summary.counts["failed"] == 6
    failed = next(t for t in summary.trials if t.state == "failed")
    assert "num_heads 3" in failed.reason
    assert len(train.calls) == summary.counts["completed"]


def test_sweep_pruned_trials_are_shown_and_count(sweep, plan, train) -> None:
    pruning = Pruning(rule="median", startup_trials=2, warmup_evaluations=1)
    summary = sweep(plan, pruning=pruning, budget_trials=12)
    assert summary.counts["pruned"] >= 1
    assert sum(summary.counts.values()) == 12
    pruned = [t for t in summary.trials if t.state == "pruned"]
    assert all(t.value is None and t.last_value is not None for t in pruned)
    assert all(4 <= t.steps < 10 for t in pruned)
    assert all(t.tokens == t.steps * 16 for t in pruned)


def test_sweep_without_a_completed_trial_is_a_failure(sweep, plan, train, ledger) -> None:
    train.script = {call: raising(RuntimeError("no GPU")) for call in range(10)}
    with pytest.raises(RunFailedError, match="no GPU"):
        sweep(plan)
    assert kinds(ledger)[-1] == "sweep_ended"
    with pytest.raises(RunFailedError):
        sweep(plan)
    assert len(train.calls) == 5


def test_sweep_under_way_elsewhere_is_refused(sweep, plan, tmp_path) -> None:
    with exclusive(tmp_path / "runs" / plan.identity), pytest.raises(ConflictError):
        sweep(plan)


def test_sweep_whose_search_store_is_gone_is_refused(sweep, plan, train, tmp_path, ledger) -> None:
    train.script[2] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sweep(plan)
    (tmp_path / "optuna.db").unlink()
    with pytest.raises(IntegrityError, match=r"trials \[0, 1, 2\]"):
        sweep(plan)


@pytest.mark.parametrize("method", ["append", "finish", "end"])
def test_sweep_cut_short_while_a_trial_ends_finishes_it_later(
    sweep, plan, train, ledger, tracker, monkeypatch, method: str
) -> None:
    """A process that dies between noting, closing and recording a result loses nothing."""
    target = {
        "append": "workbench.registry.ledger.Ledger.append",
        "finish": "workbench.training.tracking.Tracker.finish",
        "end": "workbench.proxies.search.Search.end",
    }[method]

    def die(*args: object, **kwargs: object) -> None:
        if method != "append" or args[1].kind == "trial":
            raise MemoryError("cut short")

    with monkeypatch.context() as patched:
        original = Ledger.append
        patched.setattr(
            target,
            lambda *args, **kwargs: die(*args, **kwargs) or original(*args, **kwargs),
        )
        with pytest.raises(MemoryError):
            sweep(plan)
    summary = sweep(plan)
    assert summary.recovered == ("trial-00 had ended as completed",)
    assert len(train.calls) == 5
    assert summary.counts == {"completed": 5}
    children = tracker.find_runs({"mlflow.parentRunId": summary.mlflow_run})
    assert [c.status for c in children] == ["FINISHED"] * 5


def test_sweep_progress_tells_where_it_is(plan, ledger, tracker, train, tmp_path) -> None:
    seen = []
    run_sweep(
        plan, ledger=ledger, tracker=tracker, corpus=StubCorpus(), folder=tmp_path / "runs",
        train=train, progress=seen.append,
    )  # fmt: skip
    assert seen[0].name == "trial-00"
    assert (seen[0].done, seen[0].total, seen[0].step, seen[0].steps) == (0, 5, 1, 10)
    assert seen[0].best is None
    assert (seen[-1].done, seen[-1].counts) == (5, {"completed": 5})
    assert seen[-1].best == min(t.value for t in _trials(ledger))


def _trials(ledger: Ledger) -> list:
    return [entry.body for entry in ledger.entries(kind="trial")]


def test_sweep_larger_exploration_continues_the_smaller(sweep, plan, train) -> None:
    exploring = dataclasses.replace(plan, registration="", mode="exploratory", budget_trials=2)
    small = sweep(exploring)
    large = sweep(exploring, budget_trials=4)
    assert large.root == small.root
    assert large.trials[:2] == small.trials
    assert len(train.calls) == 4
