"""A ladder: the control and the best points of a sweep, run again at rising scale on fresh seeds.

A run's ledger entry is appended after its MLflow run was closed. A process that dies before leaves
no entry; the next call continues the run from its newest checkpoint, under the same MLflow run.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.analysis.claims import Direction
from workbench.canonical import Json
from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, NotRegisteredError
from workbench.planner.counts import total_parameters
from workbench.proxies.proxy import (
    ProxyEnd,
    ProxyTask,
    TrainFunction,
    finish_tracked,
    refused_end,
    tracked_params,
    train_proxy,
)
from workbench.proxies.recipe import Recipe
from workbench.proxies.record import recorded_runs, trial_leaves
from workbench.proxies.seeds import rerun_seed
from workbench.proxies.selection import CONTROL, candidate_name
from workbench.proxies.watch import Allowed, Progress, ProxyProgress, without_limit
from workbench.registry.entries import Mode, ProxyRun, Trial
from workbench.registry.ledger import Ledger
from workbench.registry.proposal import Proposal
from workbench.training.attempts import resume_point
from workbench.training.recorder import Recorder
from workbench.training.results import DivergenceRule
from workbench.training.run_folder import exclusive
from workbench.training.tracking import Tracker


@dataclass(frozen=True, kw_only=True)
class LadderRun:
    """A ladder as it was registered, or as it is explored."""

    subject: str
    mode: Mode
    root: str
    """Leaf that every entry refers to first: the registration; exploring, the sweep's root."""
    recipe: Recipe
    trials: tuple[Trial, ...]
    """The sweep's best, in its ranking."""
    scales: tuple[str, ...]
    """Rungs, rising."""
    fresh_seeds: int
    failed_trials: Literal["count", "retry_once"]
    metric: str
    direction: Direction
    divergence: DivergenceRule

    @classmethod
    def of(
        cls,
        proposal: Proposal,
        recipe: Recipe,
        *,
        subject: str,
        mode: Mode,
        root: str,
        trials: tuple[Trial, ...],
    ) -> "LadderRun":
        """Return the ladder that a proposal declares for these trials."""
        return cls(
            subject=subject,
            mode=mode,
            root=root,
            recipe=recipe,
            trials=trials,
            scales=proposal.design.scales,
            fresh_seeds=proposal.sweep.rerun.fresh_seeds,
            failed_trials=proposal.sweep.failed_trials,
            metric=proposal.measures.primary.metric,
            direction=proposal.measures.primary.direction,
            divergence=DivergenceRule(
                loss_above=proposal.divergence.loss_above, patience=proposal.divergence.patience
            ),
        )


@dataclass(frozen=True, kw_only=True)
class LadderSummary:
    """What a ladder has done so far."""

    declared: int
    runs: tuple[ProxyRun, ...]
    """The last end of each run, in the ladder's order."""
    counts: dict[str, int]
    mlflow_run: str
    recovered: tuple[str, ...]
    """Runs that an earlier process left unfinished and that were continued."""


@dataclass(frozen=True, kw_only=True)
class _Rerun:
    candidate: str
    params: Mapping[str, Json]
    scale: str
    index: int
    evidence: tuple[str, ...]
    """Leaf of the trial that it repeats."""

    @property
    def name(self) -> str:
        return f"{self.candidate}-{self.scale}-seed-{self.index}"

    def is_of(self, run: ProxyRun) -> bool:
        mine = (self.candidate, self.scale, self.index)
        return (run.candidate, run.scale, run.seed_index) == mine


def run_ladder(
    plan: LadderRun,
    *,
    ledger: Ledger,
    tracker: Tracker,
    corpus: Corpus,
    folder: Path,
    train: TrainFunction,
    progress: Progress | None = None,
    allowed: Allowed = without_limit,
) -> LadderSummary:
    """Run what the ledger does not hold yet, and return the whole ladder.

    The seeds derive from the root, the scale and an index, the same for the control and every
    candidate; no trial of the sweep had them. Before each run, ``allowed`` may end the call.

    Raises:
        NotRegisteredError: there is no root to refer to.
        ConflictError: another process runs this ladder, or ``allowed`` refused a run.
    """
    if not plan.root:
        raise NotRegisteredError(
            f"{plan.subject} has neither a registration nor a sweep to promote from",
            remedy="workbench register NNNN, then workbench sweep NNNN",
        )
    place = folder / plan.root[:16]
    with exclusive(place):
        return _Ladder(plan, ledger, tracker, corpus, place, train, progress, allowed).run()


class _Ladder:
    def __init__(
        self,
        plan: LadderRun,
        ledger: Ledger,
        tracker: Tracker,
        corpus: Corpus,
        folder: Path,
        train: TrainFunction,
        progress: Progress | None,
        allowed: Allowed,
    ) -> None:
        self._allowed = allowed
        self._spent = 0.0
        """Device-seconds of the runs that this call recorded."""
        self._plan = plan
        self._ledger = ledger
        self._tracker = tracker
        self._corpus = corpus
        self._folder = folder
        self._train = train
        self._progress = progress
        self._runs = recorded_runs(ledger, subject=plan.subject, root=plan.root)
        self._reruns = _reruns(plan, trial_leaves(ledger, subject=plan.subject, root=plan.root))
        self._recovered: list[str] = []
        self._parent = ""

    def run(self) -> LadderSummary:
        open_reruns = [rerun for rerun in self._reruns if not self._is_done(rerun)]
        self._parent = self._parent_run(begin=bool(open_reruns))
        try:
            for rerun in open_reruns:
                while not self._is_done(rerun):
                    self._allowed(self._spent)
                    self._rerun(rerun)
        except (KeyboardInterrupt, SystemExit, ConflictError):
            self._close_running()
            self._tracker.finish(self._parent, "KILLED", outcome="killed")
            raise
        if self._parent:
            self._tracker.finish(self._parent, "FINISHED", outcome="completed")
        last = [[run for run in self._runs if rerun.is_of(run)][-1] for rerun in self._reruns]
        return LadderSummary(
            declared=len(self._reruns),
            runs=tuple(last),
            counts=dict(sorted(Counter(run.state for run in last).items())),
            mlflow_run=self._parent,
            recovered=tuple(self._recovered),
        )

    def _rerun(self, rerun: _Rerun) -> None:
        seed = rerun_seed(self._plan.root, rerun.scale, rerun.index)
        try:
            config = self._plan.recipe.at_scale(rerun.scale, rerun.params)
        except ValueError as error:
            self._append(rerun, seed, 0, "", refused_end(error))
            return
        task = ProxyTask(
            config=config,
            seed=seed,
            folder=self._folder / rerun.name,
            metric=self._plan.metric,
            divergence=self._plan.divergence,
        )
        run_id = self._tracked(rerun, task)
        recorders: list[Recorder] = [self._tracker.recorder(run_id)]
        end = train_proxy(
            self._train,
            task,
            self._corpus,
            recorders,
            lambda step, steps, loss: self._show(rerun.name, step, steps, loss),
        )
        finish_tracked(self._tracker, run_id, end.state)
        self._append(rerun, seed, total_parameters(config.model), run_id, end)
        self._show(rerun.name, end.steps, task.config.steps, None)

    def _append(
        self, rerun: _Rerun, seed: int, parameters: int, run_id: str, end: ProxyEnd
    ) -> None:
        # The folder's seconds hold those of an earlier end of the same run, which has its entry.
        told = math.fsum(run.device_seconds for run in self._runs if rerun.is_of(run))
        body = ProxyRun(
            mode=self._plan.mode,
            candidate=rerun.candidate,
            scale=rerun.scale,
            parameters=parameters,
            seed_index=rerun.index,
            seed=str(seed),
            params=dict(rerun.params),
            state=end.state,
            metric=self._plan.metric,
            value=end.value,
            steps=end.steps,
            tokens=end.tokens,
            device_seconds=max(0.0, end.device_seconds - told),
            mlflow_run=run_id,
            reason=end.reason,
        )
        refs = (self._plan.root, *rerun.evidence)
        self._ledger.append(body, subject=self._plan.subject, refs=refs)
        self._spent += body.device_seconds
        self._runs.append(ProxyRun.model_validate(body.to_json()))

    def _is_done(self, rerun: _Rerun) -> bool:
        ends = [run for run in self._runs if rerun.is_of(run)]
        if not ends:
            return False
        again = self._plan.failed_trials == "retry_once" and len(ends) == 1
        return not (again and ends[0].state == "failed")

    # -- MLflow

    def _tracked(self, rerun: _Rerun, task: ProxyTask) -> str:
        """Return the run's MLflow id: its own from before if it was begun, otherwise a new one."""
        mine = self._tags("rerun") | {"workbench.run": rerun.name}
        start = resume_point(task.folder)
        found = self._tracker.find_runs(mine)
        if found and found[-1].status != "FINISHED":
            run_id = found[-1].run_id
            self._tracker.resume_run(run_id, attempt=start.attempt, from_step=start.from_step)
            self._recovered.append(f"{rerun.name} was continued after step {start.from_step}")
            return run_id
        params = tracked_params(rerun.params)
        params |= {"seed": str(task.seed), "scale": rerun.scale, "candidate": rerun.candidate}
        tags = mine | {"workbench.attempt": str(start.attempt)}
        return self._tracker.start_run(rerun.name, tags, params, parent=self._parent)

    def _parent_run(self, *, begin: bool) -> str:
        """Return the parent's id, begun or continued where there is something to run."""
        tags = self._tags("ladder")
        found = self._tracker.find_runs(tags)
        if not begin:
            return found[-1].run_id if found else ""
        if not found:
            return self._tracker.start_run(
                f"ladder {self._plan.subject}",
                tags | {"workbench.attempt": "1"},
                {"scales": " ".join(self._plan.scales), "fresh_seeds": self._plan.fresh_seeds},
            )
        parent = found[-1]
        attempt = int(parent.tags.get("workbench.attempt", "1")) + 1
        self._tracker.resume_run(parent.run_id, attempt=attempt, from_step=len(self._runs))
        self._close_running(parent.run_id)
        return parent.run_id

    def _close_running(self, parent: str = "") -> None:
        """Close the runs of dead processes: only the holder of the lock calls it."""
        tags = {"mlflow.parentRunId": parent or self._parent}
        for run in self._tracker.find_runs(tags, status="RUNNING"):
            self._tracker.finish(run.run_id, "KILLED", outcome="lost" if parent else "killed")

    def _tags(self, kind: str) -> dict[str, str]:
        confirmatory = self._plan.mode == "confirmatory"
        return {
            "workbench.experiment": self._plan.subject,
            "workbench.registration": self._plan.root if confirmatory else "none",
            "workbench.root": self._plan.root,
            "workbench.kind": kind,
            "workbench.mode": self._plan.mode,
        }

    def _show(self, name: str, step: int, steps: int, loss: float | None) -> None:
        if self._progress is None:
            return
        values = [run.value for run in self._runs if run.value is not None]
        pick = min if self._plan.direction == "minimize" else max
        self._progress(
            ProxyProgress(
                name=name,
                done=sum(self._is_done(rerun) for rerun in self._reruns),
                total=len(self._reruns),
                step=step,
                steps=steps,
                loss=loss,
                counts=dict(Counter(run.state for run in self._runs)),
                best=pick(values) if values else None,
            )
        )


def _reruns(plan: LadderRun, leaves: Mapping[int, str]) -> list[_Rerun]:
    """Return every run of the ladder, the smallest scale first, the control first in each."""
    candidates: list[tuple[str, Mapping[str, Json], tuple[str, ...]]] = [
        (CONTROL, plan.recipe.control(), ())
    ]
    for trial in plan.trials:
        leaf = leaves.get(trial.number)
        candidates.append((candidate_name(trial.number), trial.params, (leaf,) if leaf else ()))
    return [
        _Rerun(candidate=name, params=params, scale=scale, index=index, evidence=evidence)
        for scale in plan.scales
        for name, params, evidence in candidates
        for index in range(plan.fresh_seeds)
    ]
