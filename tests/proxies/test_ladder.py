"""Ladders on a real ledger and a real MLflow store; only the training is a stand-in."""

import dataclasses

import pytest

from tests.proxies.conftest import SUBJECT, StubCorpus
from tests.proxies.test_selection import trial
from tests.proxies.test_sweep import raising
from workbench.errors import NotRegisteredError
from workbench.planner.counts import total_parameters
from workbench.proxies.ladder import LadderRun, LadderSummary, run_ladder
from workbench.proxies.seeds import rerun_seed, trial_seed
from workbench.training.results import DivergenceRule


@pytest.fixture
def ladder(ledger, tracker, train, tmp_path):
    def run(plan: LadderRun, **changes: object) -> LadderSummary:
        return run_ladder(
            dataclasses.replace(plan, **changes),
            ledger=ledger, tracker=tracker, corpus=StubCorpus(), folder=tmp_path / "ladder",
            train=train,
        )  # fmt: skip

    return run


@pytest.fixture
def plan(recipe, registration, ledger) -> LadderRun:
    best = trial(4, 2.0, params={"balance": {"weight": 0.003}})
    ledger.append(best, subject=SUBJECT, refs=[registration])
    return LadderRun(
        subject=SUBJECT,
        mode="confirmatory",
        root=registration,
        recipe=recipe,
        trials=(best,),
        scales=("s", "m"),
        fresh_seeds=2,
        failed_trials="count",
        metric="bpb_macro",
        direction="minimize",
        divergence=DivergenceRule(loss_above=20.0, patience=3),
    )


def test_ladder_runs_control_and_candidates_at_every_scale(
    ladder, plan, ledger, tracker, train
) -> None:
    summary = ladder(plan)
    assert summary.counts == {"completed": 8}
    found = [(r.scale, r.candidate, r.seed_index) for r in summary.runs]
    assert found == [
        (scale, candidate, index)
        for scale in ("s", "m")
        for candidate in ("control", "trial-04")
        for index in (0, 1)
    ]
    sizes = {scale: total_parameters(plan.recipe.at_scale(scale).model) for scale in ("s", "m")}
    assert all(r.parameters == sizes[r.scale] for r in summary.runs)
    assert [r.tokens for r in summary.runs] == [160] * 4 + [320] * 4
    assert train.calls[6]["config"].model.d_model == 16
    assert train.calls[6]["config"].balance.weight == 0.003
    entries = list(ledger.entries(kind="proxy_run"))
    evidence = next(iter(ledger.entries(kind="trial"))).leaf
    assert entries[0].refs == (plan.root,)
    assert entries[2].refs == (plan.root, evidence)
    children = tracker.find_runs({"mlflow.parentRunId": summary.mlflow_run})
    assert [c.status for c in children] == ["FINISHED"] * 8
    assert tracker.run(summary.mlflow_run).status == "FINISHED"


def test_ladder_seeds_are_paired_fresh_and_differ_by_scale(ladder, plan) -> None:
    runs = ladder(plan).runs
    seeds = {(r.candidate, r.scale, r.seed_index): r.seed for r in runs}
    assert seeds["control", "s", 0] == seeds["trial-04", "s", 0]
    assert len(set(seeds.values())) == 4
    swept = {str(trial_seed(seed, draw)) for seed in range(3) for draw in range(200)}
    assert swept.isdisjoint(seeds.values())
    assert rerun_seed("a" * 64, "s", 0) != rerun_seed("b" * 64, "s", 0)


def test_ladder_interrupted_continues_with_the_same_mlflow_runs(
    ladder, plan, ledger, tracker, train
) -> None:
    """A5: a run that is continued keeps its MLflow run id."""
    train.script[5] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ladder(plan)
    assert len(list(ledger.entries(kind="proxy_run"))) == 5
    killed = tracker.find_runs({"workbench.kind": "rerun"}, status="KILLED")
    assert [run.name for run in killed] == ["control-m-seed-1"]
    summary = ladder(plan)
    assert summary.counts == {"completed": 8}
    assert summary.recovered == ("control-m-seed-1 was continued after step 0",)
    assert summary.runs[5].mlflow_run == killed[0].run_id
    # what the lost attempt cost is told
    assert summary.runs[5].device_seconds > summary.runs[4].device_seconds
    assert tracker.run(killed[0].run_id).status == "FINISHED"
    assert len(tracker.find_runs({"workbench.kind": "ladder"})) == 1
    assert ladder(plan).runs == summary.runs
    assert len(train.calls) == 9


@pytest.mark.parametrize(("rule", "state"), [("count", "failed"), ("retry_once", "completed")])
def test_ladder_failed_run_follows_the_registered_rule(
    ladder, plan, ledger, train, rule: str, state: str
) -> None:
    train.script[1] = raising(RuntimeError("boom"))
    summary = ladder(plan, failed_trials=rule)
    assert summary.runs[1].state == state
    entries = [e.body for e in ledger.entries(kind="proxy_run")]
    assert [e.state for e in entries].count("failed") == 1
    assert len(entries) == (8 if rule == "count" else 9)


def test_ladder_values_that_make_no_configuration_fail_the_run(ladder, plan, train) -> None:
    odd = plan.trials[0].model_copy(update={"params": {"model": {"num_heads": 3}}})
    summary = ladder(plan, trials=(odd,))
    assert summary.counts == {"completed": 4, "failed": 4}
    assert "num_heads 3" in summary.runs[2].reason
    assert len(train.calls) == 4


def test_ladder_without_a_root_is_refused(ladder, plan) -> None:
    with pytest.raises(NotRegisteredError, match="neither a registration"):
        ladder(plan, root="")


def test_ladder_progress_counts_every_run(plan, ledger, tracker, train, tmp_path) -> None:
    seen = []
    run_ladder(
        plan, ledger=ledger, tracker=tracker, corpus=StubCorpus(), folder=tmp_path / "ladder",
        train=train, progress=seen.append,
    )  # fmt: skip
    assert (seen[0].name, seen[0].done, seen[0].total) == ("control-s-seed-0", 0, 8)
    assert (seen[-1].done, seen[-1].counts) == (8, {"completed": 8})
