"""Full-scale runs: every arm on every registered seed, each attempt in the ledger."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.canonical import Json
from workbench.data.corpus import Corpus
from workbench.errors import IntegrityError, NotFoundError, RunFailedError, WorkbenchError
from workbench.experiments.attempts import Attempt, RunHistory, histories, run_name
from workbench.experiments.budget import require_budget
from workbench.experiments.computed import computed
from workbench.experiments.deviations import (
    Watch,
    config_deviations,
    seed_deviations,
)
from workbench.experiments.looks import LookBook, look_line
from workbench.experiments.outcomes import values_are_open
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress
from workbench.experiments.promotion import promotion_body
from workbench.experiments.recovery import (
    Ending,
    close_lost_attempts,
    record_end,
    record_findings,
    record_rejected_checkpoints,
)
from workbench.experiments.registered import registered
from workbench.experiments.served_text import measured_overlap
from workbench.experiments.summaries import RunLine, RunsReport
from workbench.proxies.proxy import StepProgress, TrainFunction
from workbench.registry.entries import Deviation, RunStarted
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.sentinel.trend import OwnTrend
from workbench.training.attempts import ResumePoint, resume_point
from workbench.training.blinding import HELD_BACK, VALIDATION_TAG, BlindRecorder
from workbench.training.config import RunConfig
from workbench.training.kernels import kernels_of
from workbench.training.recorder import Recorder
from workbench.training.results import DivergenceRule, RunResult
from workbench.training.tracking import STATUS_OF_OUTCOME, Tracker


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Everything that the full-scale runs of one promotion need."""

    plan: ExperimentPlan
    promotion: Entry
    ledger: Ledger
    tracker: Tracker
    corpus: Corpus
    folder: Path
    """Holds one folder a run."""
    watch: Watch
    train: TrainFunction
    progress: Progress
    looks: LookBook | None
    """The registered looks; None when exploring, which never opens the sealed split."""

    def run_all(self) -> RunsReport:
        """Run what is left, look where the rule does, and return how every run stands.

        Raises:
            RunFailedError: an attempt failed; what is done stands, and the command may be repeated.
            ConflictError: another process is at work on one of the runs.
        """
        recovered = close_lost_attempts(self.ledger, self.plan, self.folder)
        deviations: list[Deviation] = []
        self._settle_tracking()
        if self.looks is None:
            recovered += self._run_seeds(self.plan.proposal.design.seeds, deviations)
        else:
            recovered += self._run_by_looks(self.looks, deviations)
        return RunsReport(
            deviations=tuple(dict.fromkeys(f"{d.what}: {d.effect}" for d in deviations)),
            metric=self.plan.proposal.measures.primary.metric,
            recovered=tuple(recovered),
            runs=tuple(self._line(history) for history in self._histories().values()),
            looks=tuple(look_line(entry) for entry in self.looks.past()) if self.looks else (),
        )

    def _run_by_looks(self, looks: LookBook, deviations: list[Deviation]) -> list[str]:
        """Run as many seeds as the next registered look needs, look, and go on as it says.

        Where there is only one look, it is the verdict's.
        """
        said: list[str] = []
        while (due := looks.due()) is not None:
            said += self._run_seeds(due, deviations)
            if not looks.is_sequential:
                break
            self.progress("look", looks.decision.looks().index(due), len(looks.decision.looks()))
            looks.take(due)
        return said

    def _run_seeds(self, num_seeds: int, deviations: list[Deviation]) -> list[str]:
        """Run what is left of both arms' first seeds."""
        said: list[str] = []
        # Both arms of a seed before the next seed: an interrupted campaign stays balanced.
        for index in range(num_seeds):
            for arm in ("control", "treatment"):
                run = run_name(arm, index)
                history = self._histories().get(run, RunHistory(run=run, attempts=()))
                if history.final is None:
                    self._require_budget()
                    said += self._attempt(run, arm, index, history, deviations)
        return said

    def _settle_tracking(self) -> None:
        """Give MLflow the ends that the ledger has and a process did not live to tell it."""
        for history in self._histories().values():
            if history.last is not None and history.last.ended is not None:
                outcome = history.last.ended.outcome
                with contextlib.suppress(NotFoundError):
                    self.tracker.finish(
                        history.last.started.mlflow_run, STATUS_OF_OUTCOME[outcome], outcome=outcome
                    )

    def _require_budget(self) -> None:
        if self.plan.mode == "confirmatory":
            cap = self.plan.proposal.budget_cap_device_hours
            require_budget(self.ledger, self.plan.subject, cap_device_hours=cap)

    def _histories(self) -> dict[str, RunHistory]:
        return histories(self.ledger, self.plan.subject, self.plan.mode)

    def _attempt(
        self, run: str, arm: str, index: int, history: RunHistory, deviations: list[Deviation]
    ) -> list[str]:
        config, sha256 = self._config(arm)
        folder = self.folder / run
        point = resume_point(folder)
        at = f"run {run} attempt {point.attempt}"
        deviations += self._compared(at, arm, index, config, history)
        said = record_rejected_checkpoints(self.ledger, self.plan, run, point.attempt, folder)
        last_end = history.last.ended if history.last else None
        # A lost attempt was told of when it was found.
        if last_end is not None and last_end.outcome != "lost":
            said.append(f"{run}: attempt {point.attempt} goes on from step {point.from_step}")
        mlflow_run = self._tracked(run, arm, index, history, point)
        started = RunStarted(
            mode=self.plan.mode,
            run=run,
            arm=arm,
            seed_index=index,
            seed=str(self.plan.seeds[index]),
            attempt=point.attempt,
            from_step=point.from_step,
            parent_checkpoint=point.parent_checkpoint,
            config_sha256=sha256,
            code=self.watch.code,
            host={**self.watch.host, "kernels": str(kernels_of(config))},
            mlflow_run=mlflow_run,
        )
        last = history.last
        previous = (last.end_entry.leaf,) if last and last.end_entry else ()
        refs = (*self.plan.refs, self.promotion.leaf, *previous)
        entry = self.ledger.append(started, subject=self.plan.subject, refs=refs)
        attempt = Attempt(start_entry=entry, started=started, end_entry=None, ended=None)
        self._train(attempt, config, folder)
        return said

    def _compared(
        self, at: str, arm: str, index: int, config: RunConfig, history: RunHistory
    ) -> list[Deviation]:
        """Record what differs from what is in force; refuse another seed or configuration."""
        if self.plan.mode == "exploratory":
            return []
        promotion = promotion_body(self.promotion)
        own = [
            *seed_deviations(
                run_name(arm, index),
                registered=registered(self.ledger, self.plan.subject).seeds[index],
                about_to_use=self.plan.seeds[index],
                earlier=[attempt.started.seed for attempt in history.attempts],
            ),
            *config_deviations(promotion.configs[arm], config),
        ]
        return self.watch.begin(at, own)

    def _train(self, attempt: Attempt, config: RunConfig, folder: Path) -> None:
        started = attempt.started
        recorder = self._recorder(started.mlflow_run)
        try:
            result = self.train(
                config,
                self.corpus,
                seed=int(started.seed),
                folder=folder,
                recorders=[recorder],
                divergence=DivergenceRule(
                    loss_above=self.plan.proposal.divergence.loss_above,
                    patience=self.plan.proposal.divergence.patience,
                ),
                progress=self._step_progress(started.run),
            )
        except KeyboardInterrupt:
            self._end(attempt, config, folder, "killed", "stopped by a signal or Ctrl-C")
            self.tracker.finish(started.mlflow_run, "KILLED", outcome="killed")
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:2000]
            self._end(attempt, config, folder, "failed", reason)
            self.tracker.finish(started.mlflow_run, "FAILED", outcome="failed")
            if isinstance(error, WorkbenchError):
                raise
            raise RunFailedError(
                f"run {started.run} failed: {reason}",
                remedy=f"mend the cause, then workbench run {self.plan.subject[:4]} continues it",
            ) from error
        self._finish(attempt, config, folder, result)

    def _recorder(self, mlflow_run: str) -> Recorder:
        """Return what MLflow hears of a run: of a confirmatory one no validation metrics."""
        recorder = self.tracker.recorder(mlflow_run)
        return recorder if self.plan.mode == "exploratory" else BlindRecorder(recorder)

    def _step_progress(self, run: str) -> StepProgress:
        """Return what the screen hears of a step: of a confirmatory run not the loss's level."""
        trend = OwnTrend()

        def show(done: int, total: int, loss: float) -> None:
            trend.add(loss)
            told = f"{loss:.3f}" if self.plan.mode == "exploratory" else trend.direction
            self.progress(run, done, total, f"loss {told}")

        return show

    def _finish(self, attempt: Attempt, config: RunConfig, folder: Path, result: RunResult) -> None:
        run = attempt.started.run
        outcome: Literal["completed", "diverged"] = (
            "completed" if result.outcome == "completed" else "diverged"
        )
        record_findings(self.ledger, self.plan, attempt, result.findings)
        served, unmeasured = None, ""
        if outcome == "completed":
            self.progress(run, config.steps, config.steps, "looking through what was served")
            served, unmeasured = measured_overlap(self.corpus, config, attempt.started, result)
        ending = Ending(
            outcome=outcome,
            reason=result.reason or unmeasured,
            planned_steps=config.steps,
            drawn=result.mixture,
            served=served,
            computed=computed(result),
        )
        record_end(self.ledger, self.plan, attempt, folder, ending)
        status: Literal["FINISHED", "FAILED"] = "FINISHED" if outcome == "completed" else "FAILED"
        self.tracker.finish(attempt.started.mlflow_run, status, outcome=outcome)
        self.progress(run, config.steps, config.steps, outcome, ended=True)

    def _end(
        self,
        attempt: Attempt,
        config: RunConfig,
        folder: Path,
        outcome: Literal["killed", "failed"],
        reason: str,
    ) -> None:
        ending = Ending(outcome=outcome, reason=reason, planned_steps=config.steps)
        record_end(self.ledger, self.plan, attempt, folder, ending)

    def _tracked(
        self, run: str, arm: str, index: int, history: RunHistory, point: ResumePoint
    ) -> str:
        """Return the MLflow run: the same one for every attempt (case A5)."""
        if history.last is not None:
            mlflow_run = history.last.started.mlflow_run
            # A deleted store does not hold up the run: its record is the ledger.
            with contextlib.suppress(NotFoundError):
                self.tracker.resume_run(
                    mlflow_run, attempt=point.attempt, from_step=point.from_step
                )
                return mlflow_run
        config, sha256 = self._config(arm)
        tags = {
            "workbench.experiment": self.plan.subject,
            "workbench.registration": self.plan.leaf or "none",
            "workbench.kind": "full_run",
            "workbench.mode": self.plan.mode,
            "workbench.arm": arm,
            "workbench.seed_index": str(index),
            "workbench.config_sha256": sha256,
        }
        begun = self.tracker.find_runs(tags, status="RUNNING")
        if begun:
            # Its process died before the ledger heard of it; one run has one id.
            return begun[-1].run_id
        tags["workbench.attempt"] = str(point.attempt)
        if self.plan.mode == "confirmatory":
            tags[VALIDATION_TAG] = HELD_BACK
        params: dict[str, Json] = {
            "seed": str(self.plan.seeds[index]),
            "steps": config.steps,
            "mixture": config.mixture,
            "balance_weight": config.balance.weight,
            "balance_definition": config.balance.definition,
            "phase_fractions": config.phase_fractions,
        }
        return self.tracker.start_run(f"{self.plan.subject[:4]} {run}", tags, params)

    def _config(self, arm: str) -> tuple[RunConfig, str]:
        body = promotion_body(self.promotion)
        if arm not in body.configs:
            raise IntegrityError(f"promotion {self.promotion.id} has no configuration for {arm}")
        try:
            config = RunConfig.model_validate(body.configs[arm])
        except ValueError as error:
            raise IntegrityError(
                f"this version cannot read the promoted configuration of {arm}: "
                f"{' '.join(str(error).split())[:300]}",
                remedy=f"install workbench {self.watch.registered_version}, which promoted it",
            ) from error
        return config, body.config_sha256[arm]

    def _line(self, history: RunHistory) -> RunLine:
        ends = [attempt.ended for attempt in history.attempts if attempt.ended]
        last = ends[-1] if ends else None
        metric = self.plan.proposal.measures.primary.metric
        evaluations = last.evaluations if last else []
        shown = values_are_open(self.ledger, self.plan.subject, self.plan.mode)
        return RunLine(
            run=history.run,
            attempts=len(history.attempts),
            outcome=last.outcome if last else "running",
            last_step=last.last_step if last else 0,
            planned_steps=last.planned_steps if last else 0,
            value=evaluations[-1].values.get(metric) if evaluations and shown else None,
            device_seconds=sum(end.device_seconds for end in ends),
            drawn=last.drawn if last else {},
            computed=last.computed if last else None,
        )
