"""A sweep: trials of a recipe's space until the registered budget is used up.

A trial's end is written in this order, each step repeatable: result noted in the search's database,
MLflow run closed, trial ended there, ledger entry appended. A process that dies in between leaves a
running trial; the next call finishes what was noted and records the rest as lost.
"""

import contextlib
from collections import Counter
from pathlib import Path
from typing import Literal

from workbench.canonical import Json
from workbench.data.corpus import Corpus
from workbench.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    NotRegisteredError,
    RunFailedError,
)
from workbench.proxies.proxy import (
    ProxyEnd,
    ProxyTask,
    TrainFunction,
    broken_end,
    finish_tracked,
    idle_end,
    refused_end,
    tracked_params,
    train_proxy,
)
from workbench.proxies.recipe import value_at
from workbench.proxies.record import recorded_trials
from workbench.proxies.search import Search, Tried, sampler_description
from workbench.proxies.seeds import trial_seed
from workbench.proxies.selection import candidate_name
from workbench.proxies.space import coordinate_names, coordinates, draw
from workbench.proxies.sweep_plan import SweepRun, SweepSummary
from workbench.proxies.watch import (
    Allowed,
    Progress,
    ProxyProgress,
    PruningWatch,
    without_limit,
)
from workbench.registry.entries import SweepEnded, SweepStarted, Trial
from workbench.registry.ledger import Ledger
from workbench.training.run_folder import exclusive
from workbench.training.tracking import Tracker

_ENDED: dict[str, Literal["completed", "pruned"]] = {"completed": "completed", "pruned": "pruned"}


def run_sweep(
    plan: SweepRun,
    *,
    ledger: Ledger,
    tracker: Tracker,
    corpus: Corpus,
    folder: Path,
    train: TrainFunction,
    progress: Progress | None = None,
    allowed: Allowed = without_limit,
) -> SweepSummary:
    """Run the trials that the budget still holds, and return the whole sweep.

    A finished sweep is returned as it is. An interrupted one continues: a lost trial is run once
    more with the same values and seed, and budget, points and seeds are those of a sweep that was
    never interrupted. Before each trial, ``allowed`` may end the call as an interruption does.

    Raises:
        NotRegisteredError: confirmatory without a registration.
        ConflictError: another process runs this sweep, or ``allowed`` refused a trial.
        IntegrityError: the ledger knows trials that the search's database does not.
        RunFailedError: no trial completed.
    """
    if plan.mode == "confirmatory" and not plan.registration:
        raise NotRegisteredError(
            f"{plan.subject} is not registered, so its sweep cannot be confirmatory",
            remedy="workbench register NNNN, or explore: workbench sweep NNNN --exploratory",
        )
    place = folder / plan.identity
    with exclusive(place):
        search = Search.open(
            url=plan.search_url,
            name=f"{plan.subject}|{plan.mode}|{plan.identity}",
            direction=plan.direction,
            sampler=plan.sampler,
            pruning=plan.pruning,
            coordinate_names=coordinate_names(plan.recipe.space),
        )
        try:
            sweep = _Sweep(plan, ledger, tracker, corpus, place, train, search, progress, allowed)
            return sweep.run()
        finally:
            search.close()


class _Sweep:
    def __init__(
        self,
        plan: SweepRun,
        ledger: Ledger,
        tracker: Tracker,
        corpus: Corpus,
        folder: Path,
        train: TrainFunction,
        search: Search,
        progress: Progress | None,
        allowed: Allowed,
    ) -> None:
        self._allowed = allowed
        self._spent = 0.0
        """Device-seconds of the trials that this call recorded."""
        self._plan = plan
        self._ledger = ledger
        self._tracker = tracker
        self._corpus = corpus
        self._folder = folder
        self._train = train
        self._search = search
        self._progress = progress
        self._root: str = plan.registration or search.remembered("root") or ""
        self._parent: str = search.remembered("mlflow_run") or ""
        self._started = ""
        self._recovered: list[str] = []
        self._trials = recorded_trials(ledger, subject=plan.subject, root=self._root)
        self._done = self._num_done()

    def run(self) -> SweepSummary:
        if not self._finished():
            self._begin()
            self._recover("its process ended without a word")
            self._queue_control()
            try:
                while self._num_done() < self._plan.budget_trials:
                    self._require_allowed()
                    self._run_trial()
            except (KeyboardInterrupt, SystemExit) as interruption:
                self._stop(f"interrupted ({type(interruption).__name__})")
                raise
            self._end()
        elif self._parent:
            # The process may have died between the ledger's entry and this.
            with contextlib.suppress(NotFoundError):
                self._tracker.finish(self._parent, "FINISHED", outcome="completed")
        return self._usable(self._summary())

    # -- beginning and end of a call

    def _begin(self) -> None:
        done = self._num_done()
        if not self._parent or not self._tracker.has(self._parent):
            tags = self._tags("sweep") | {"workbench.sweep": self._plan.identity}
            # A process may have died between starting the run and remembering it.
            begun = self._tracker.find_runs(tags, status="RUNNING")
            self._parent = (
                begun[-1].run_id
                if begun
                else self._tracker.start_run(
                    f"sweep {self._plan.subject}", tags, self._parent_params()
                )
            )
            self._search.remember("mlflow_run", self._parent)
        elif self._tracker.run(self._parent).status != "FINISHED":
            call = int(self._search.remembered("call") or 1) + 1
            self._search.remember("call", call)
            self._tracker.resume_run(self._parent, attempt=call, from_step=done)
        body = SweepStarted(
            mode=self._plan.mode,
            recipe=self._plan.recipe.recipe,
            recipe_sha256=self._plan.recipe_sha256,
            sampler=sampler_description(self._plan.sampler),
            sampler_seed=str(self._plan.sampler.seed),
            budget_trials=self._plan.budget_trials,
            already_done=done,
            mlflow_run=self._parent,
        )
        refs = [self._root] if self._root else []
        self._started = self._ledger.append(body, subject=self._plan.subject, refs=refs).leaf
        if not self._root:
            self._root = self._started
            self._search.remember("root", self._root)

    def _require_allowed(self) -> None:
        try:
            self._allowed(self._spent)
        except ConflictError as refusal:
            self._stop(refusal.message)
            raise

    def _end(self) -> None:
        self._append_end(finished=True, reason="")
        self._tracker.finish(self._parent, "FINISHED", outcome="completed")

    def _stop(self, reason: str) -> None:
        """Put an interruption on record; if this is cut short too, the next call does the rest."""
        self._recover(reason)
        self._append_end(finished=False, reason=reason)
        self._tracker.finish(self._parent, "KILLED", outcome="killed")

    def _append_end(self, *, finished: bool, reason: str) -> None:
        body = SweepEnded(
            mode=self._plan.mode,
            declared=self._plan.budget_trials,
            counts=self._counts(),
            finished=finished,
            reason=reason,
        )
        self._ledger.append(body, subject=self._plan.subject, refs=self._refs())

    # -- one trial

    def _queue_control(self) -> None:
        if self._plan.first_trial == "control" and not self._search.tried():
            values = self._control()
            if values.get("mixture") == "natural":
                values["mixture"] = self._corpus.natural_mixture()
            near = coordinates(self._plan.recipe.space, values)
            self._search.queue(near, {"params": self._plan.recipe.control()})

    def _run_trial(self) -> None:
        asked = self._search.ask()
        drawn = draw(self._plan.recipe.space, self._control(), asked)
        # A point that was asked for by its values keeps them to the last bit.
        params = asked.tried.notes.get("params", drawn)
        self._search.note(asked.number, "params", params)
        try:
            task = self._task(asked.number, asked.tried.draw, params)
        except ValueError as error:
            self._close(self._search.tried()[asked.number], refused_end(error))
            return
        name = candidate_name(asked.number)
        run_id = self._tracker.start_run(
            name,
            self._tags("trial") | {"workbench.trial": str(asked.number)},
            tracked_params(params) | {"seed": str(task.seed), "scale": self._plan.scale},
            parent=self._parent,
        )
        self._search.note(asked.number, "mlflow_run", run_id)
        watch = PruningWatch(asked, metric=self._plan.metric, steps=task.config.steps)
        end = train_proxy(
            self._train,
            task,
            self._corpus,
            [self._tracker.recorder(run_id), watch],
            lambda step, steps, loss: self._show(name, step, steps, loss),
        )
        self._close(self._search.tried()[asked.number], end)
        self._show(name, end.steps, task.config.steps, None)

    def _task(self, number: int, point: int, params: dict[str, Json]) -> ProxyTask:
        return ProxyTask(
            config=self._plan.recipe.at_scale(self._plan.scale, params),
            seed=trial_seed(self._plan.sampler.seed, point),
            folder=self._folder / candidate_name(number),
            metric=self._plan.metric,
            divergence=self._plan.divergence,
        )

    def _close(self, tried: Tried, end: ProxyEnd) -> None:
        """Write a trial's end everywhere, beginning with the note that makes it repeatable."""
        body = Trial(
            mode=self._plan.mode,
            number=tried.number,
            state=end.state,
            scale=self._plan.scale,
            params=tried.notes.get("params", {}),
            seed=str(trial_seed(self._plan.sampler.seed, tried.draw)),
            metric=self._plan.metric,
            value=end.value,
            last_value=end.last_value,
            steps=end.steps,
            tokens=end.tokens,
            device_seconds=end.device_seconds,
            mlflow_run=tried.notes.get("mlflow_run", ""),
            drawn=dict(end.drawn) if end.drawn else None,
            reason=end.reason,
        )
        self._search.note(tried.number, "body", body.to_json())
        self._settle(tried, body)

    def _settle(self, tried: Tried, body: Trial) -> None:
        finish_tracked(self._tracker, body.mlflow_run, body.state)
        if tried.state == "running":
            if self._is_tried_again(tried, body):
                notes = {k: v for k, v in tried.notes.items() if k == "params"}
                self._search.queue(tried.coordinates, notes, retry_of=tried)
            self._search.end(tried.number, _ENDED.get(body.state, "failed"), body.value)
        self._ledger.append(body, subject=self._plan.subject, refs=self._refs())
        self._spent += body.device_seconds
        # As the ledger gives it back, so that a call returns the same whether it ran the trial.
        self._trials.append(Trial.model_validate(body.to_json()))
        self._done = self._num_done()

    def _is_tried_again(self, tried: Tried, body: Trial) -> bool:
        again = body.state == "lost" or (
            body.state == "failed" and self._plan.failed_trials == "retry_once"
        )
        queued = any(other.retry_of == tried.number for other in self._search.tried())
        return again and tried.retry_of is None and not queued

    # -- what an earlier process left behind

    def _recover(self, reason: str) -> None:
        """Finish what was noted, record the rest as lost. Only the holder of the lock calls it."""
        recorded = {trial.number for trial in self._trials}
        everything = self._search.tried()
        self._refuse_forgotten(recorded, everything)
        for tried in everything:
            if tried.state == "waiting" or tried.number in recorded:
                continue
            if "body" in tried.notes:
                body = Trial.model_validate(tried.notes["body"])
                self._recovered.append(f"{candidate_name(tried.number)} had ended as {body.state}")
                self._settle(tried, body)
            else:
                self._lose(tried, reason)
        for run in self._tracker.find_runs({"mlflow.parentRunId": self._parent}, status="RUNNING"):
            self._tracker.finish(run.run_id, "KILLED", outcome="lost")

    def _lose(self, tried: Tried, reason: str) -> None:
        end = self._lost_end(tried, reason)
        again = end.state == "lost" and tried.retry_of is None
        what = "will be run once more" if again else "uses up budget"
        self._recovered.append(
            f"{candidate_name(tried.number)} was {end.state} after step {end.steps} "
            f"({end.device_seconds:.1f} device-seconds): {reason}; it {what}"
        )
        self._close(tried, end)

    def _lost_end(self, tried: Tried, reason: str) -> ProxyEnd:
        if "params" not in tried.notes:
            return idle_end("lost", f"{reason}, before it began")
        try:
            task = self._task(tried.number, tried.draw, tried.notes["params"])
        except ValueError as error:
            return refused_end(error)
        return broken_end(task, "lost", reason)

    def _refuse_forgotten(self, recorded: set[int], everything: list[Tried]) -> None:
        forgotten = sorted(recorded - {tried.number for tried in everything})
        if forgotten:
            raise IntegrityError(
                f"the ledger holds trials {forgotten} of this sweep, the search store "
                f"{self._plan.search_url} does not: it was deleted or is another one",
                remedy="restore the search store from a backup, then repeat the command",
            )

    # -- what is known

    def _finished(self) -> bool:
        entries = self._ledger.entries(kind="sweep_ended", subject=self._plan.subject)
        ends = [e.body for e in entries if self._root in e.refs and isinstance(e.body, SweepEnded)]
        return any(end.finished and end.declared >= self._plan.budget_trials for end in ends)

    def _num_done(self) -> int:
        return len(_counted(self._search.tried()))

    def _counts(self) -> dict[str, int]:
        return dict(sorted(Counter(trial.state for trial in self._trials).items()))

    def _summary(self) -> SweepSummary:
        return SweepSummary(
            root=self._root,
            declared=self._plan.budget_trials,
            done=self._num_done(),
            counts=self._counts(),
            finished=self._finished(),
            trials=tuple(self._trials),
            mlflow_run=self._parent,
            recovered=tuple(self._recovered),
        )

    def _usable(self, summary: SweepSummary) -> SweepSummary:
        if not summary.counts.get("completed"):
            last = summary.trials[-1].reason if summary.trials else "no trial ran"
            raise RunFailedError(
                f"no trial of {self._plan.subject} completed ({summary.counts}); last: {last}",
                remedy="workbench status; a changed recipe needs a new proposal",
            )
        return summary

    def _control(self) -> dict[str, Json]:
        plain = self._plan.recipe.base.model_dump(mode="json")
        return {key: value_at(plain, key) for key in self._plan.recipe.space}

    def _refs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self._root, self._started)))

    def _tags(self, kind: str) -> dict[str, str]:
        return {
            "workbench.experiment": self._plan.subject,
            "workbench.registration": self._plan.registration or "none",
            "workbench.kind": kind,
            "workbench.mode": self._plan.mode,
            "workbench.attempt": "1",
        }

    def _parent_params(self) -> dict[str, object]:
        return {
            "recipe": self._plan.recipe.recipe,
            "sampler": sampler_description(self._plan.sampler),
            "sampler_seed": self._plan.sampler.seed,
            "budget_trials": self._plan.budget_trials,
            "pruning": self._plan.pruning.rule,
            "failed_trials": self._plan.failed_trials,
            "metric": self._plan.metric,
            "direction": self._plan.direction,
        }

    def _show(self, name: str, step: int, steps: int, loss: float | None) -> None:
        if self._progress is None:
            return
        values = [trial.value for trial in self._trials if trial.value is not None]
        pick = min if self._plan.direction == "minimize" else max
        self._progress(
            ProxyProgress(
                name=name,
                done=self._done,
                total=self._plan.budget_trials,
                step=step,
                steps=steps,
                loss=loss,
                counts=self._counts(),
                best=pick(values) if values else None,
            )
        )


def _counted(everything: list[Tried]) -> list[Tried]:
    """Return the ended trials that use up budget: not those that are run once more."""
    again = {tried.retry_of for tried in everything}
    return [
        t for t in everything if t.state not in ("waiting", "running") and t.number not in again
    ]
