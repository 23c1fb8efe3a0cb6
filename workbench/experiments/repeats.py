"""Repeats of one configuration: normal runs on derived seeds, measured on validation text.

A repeat's end is a file that is whole or not there, written after its MLflow run was closed. A
process that dies before leaves none; the next call continues the run from its newest checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.canonical import canonical_json, freeze, parse_json, sha256_hex
from workbench.data.corpus import Corpus
from workbench.experiments.locks import repeats_lock
from workbench.experiments.progress import Progress
from workbench.experiments.repeat_plan import RepeatPlan
from workbench.experiments.repeated import noise_floor, same_floor
from workbench.proxies.proxy import (
    ProxyEnd,
    ProxyTask,
    StepProgress,
    TrainFunction,
    finish_tracked,
    train_proxy,
)
from workbench.proxies.seeds import repeat_seed
from workbench.registry.entries import CodeState, NoiseFloor, Repeat
from workbench.registry.files import write_atomic
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.training.attempts import resume_point
from workbench.training.config import RunConfig
from workbench.training.recorder import Recorder
from workbench.training.results import DivergenceRule, RunResult
from workbench.training.tracking import Tracker

METRIC = "bpb_macro"
"""Its last value decides whether a repeat completed; every corpus has it."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Everything that the repeats of one configuration need."""

    plan: RepeatPlan
    ledger: Ledger
    tracker: Tracker
    corpus: Corpus
    runs: Path
    """Below which every configuration has its own folder."""
    code: CodeState
    train: TrainFunction
    progress: Progress

    @property
    def folder(self) -> Path:
        """Of this configuration on this corpus."""
        identity = [self.plan.config_sha256, self._manifest, self.plan.subject]
        identity += [str(self.plan.loss_above), str(self.plan.patience)]
        return self.runs / "noise" / sha256_hex("|".join(identity).encode())[:16]

    def ended(self) -> dict[int, Repeat]:
        """Return the repeats that ended, by index."""
        files = sorted(self.folder.glob("repeat-*.json"))
        return {int(file.stem[7:]): _read(file) for file in files}

    def measure(self, num_runs: int) -> tuple[Entry, bool]:
        """Run what is left, and return the noise floor's entry and whether it is a new one.

        A repeat that completed or diverged is never run again; one that failed is, by the next
        call. Repeats beyond ``num_runs`` that ended earlier count too: none is left out.

        Raises:
            ConflictError: another process repeats this configuration.
            KeyboardInterrupt: it was interrupted; the same call continues.
        """
        with repeats_lock(self.folder, self.plan.what):
            ended = self.ended()
            for index in range(num_runs):
                self.progress("repeats", index, num_runs)
                if index not in ended or ended[index].state == "failed":
                    ended[index] = self._run(index)
                    state = f"seed-{index} {ended[index].state}"
                    self.progress("repeats", index + 1, num_runs, state, ended=True)
            self.progress("repeats", num_runs, num_runs)
            body = self._floor([ended[index] for index in sorted(ended)])
            earlier = same_floor(self.ledger, body)
            if earlier is not None:
                return earlier, False
            refs = self.plan.refs
            return self.ledger.append(body, subject=self.plan.subject, refs=refs), True

    def _run(self, index: int) -> Repeat:
        task = ProxyTask(
            config=self.plan.config,
            seed=repeat_seed(self.plan.config_sha256, self._manifest, index),
            folder=self.folder / f"repeat-{index:02d}",
            metric=METRIC,
            divergence=DivergenceRule(loss_above=self.plan.loss_above, patience=self.plan.patience),
        )
        run_id = self._tracked(task, index)
        kept = _Kept(self.train)
        recorders: list[Recorder] = [self.tracker.recorder(run_id)]
        try:
            end = train_proxy(
                kept,
                task,
                self.corpus,
                recorders,
                lambda step, steps, loss: self.progress("steps", step, steps, f"loss {loss:.3f}"),
            )
        except (KeyboardInterrupt, SystemExit):
            self.tracker.finish(run_id, "KILLED", outcome="killed")
            raise
        finish_tracked(self.tracker, run_id, end.state)
        repeat = Repeat(
            seed=str(task.seed),
            state=_state(end),
            values=dict(kept.final) if end.state == "completed" else {},
            mlflow_run=run_id,
            device_seconds=end.device_seconds,
            reason=end.reason,
            commit=self.code.commit,
        )
        data = canonical_json(freeze(repeat.model_dump(mode="python")))
        write_atomic(self.folder / f"repeat-{index:02d}.json", data)
        return _read(self.folder / f"repeat-{index:02d}.json")

    def _floor(self, repeats: Sequence[Repeat]) -> NoiseFloor:
        rule = f"diverged: loss above {self.plan.loss_above:g} for {self.plan.patience} steps"
        return noise_floor(
            self.plan,
            self.corpus,
            repeats,
            origin="run",
            source=f"workbench noise; {rule}",
            code=self.code,
        )

    @property
    def _manifest(self) -> str:
        return self.corpus.state().manifest

    # -- MLflow

    def _tracked(self, task: ProxyTask, index: int) -> str:
        """Return the repeat's MLflow id: its own from before if it was begun, otherwise new."""
        mine = {
            "workbench.kind": "noise_repeat",
            "workbench.experiment": self.plan.subject,
            "workbench.recipe": self.plan.recipe.recipe,
            "workbench.scale": self.plan.scale,
            "workbench.config_sha256": self.plan.config_sha256,
            "workbench.repeats": self.folder.name,
            "workbench.seed_index": str(index),
        }
        start = resume_point(task.folder)
        found = self.tracker.find_runs(mine)
        if found and found[-1].status != "FINISHED":
            run_id = found[-1].run_id
            self.tracker.resume_run(run_id, attempt=start.attempt, from_step=start.from_step)
            return run_id
        params = {"seed": str(task.seed), "scale": self.plan.scale, "steps": task.config.steps}
        params["mixture"] = str(task.config.mixture)
        tags = mine | {"workbench.attempt": str(start.attempt)}
        return self.tracker.start_run(f"repeat {index} of {self.plan.what}", tags, params)


class _Kept:
    """Trains, and keeps the last value of every metric beside the one that decides."""

    def __init__(self, train: TrainFunction) -> None:
        self._train = train
        self.final: Mapping[str, float] = {}

    def __call__(
        self,
        config: RunConfig,
        corpus: Corpus,
        *,
        seed: int,
        folder: Path,
        recorders: Sequence[Recorder],
        divergence: DivergenceRule,
        progress: StepProgress | None = None,
    ) -> RunResult:
        result = self._train(
            config,
            corpus,
            seed=seed,
            folder=folder,
            recorders=recorders,
            divergence=divergence,
            progress=progress,
        )
        self.final = result.final or {}
        return result


def _state(end: ProxyEnd) -> Literal["completed", "diverged", "failed"]:
    if end.state == "completed" or end.state == "diverged":
        return end.state
    return "failed"


def _read(file: Path) -> Repeat:
    return Repeat.model_validate(parse_json(file.read_bytes()))
