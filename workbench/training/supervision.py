"""What happens between two steps: telemetry, evaluation, checkpoints, and reasons to stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from workbench.data.windows import Windows
from workbench.sentinel.detector import Detector, Finding
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.attempts import Curve
from workbench.training.checkpoints import VerifiedCheckpointIO, checkpoint_path, retain
from workbench.training.inference_gap import validation_values
from workbench.training.interruption import StopRequest
from workbench.training.module import PretrainModule, StepMeasures
from workbench.training.phases import is_new_level
from workbench.training.recorder import Recorder, StopRun
from workbench.training.results import DivergenceRule, EndOutcome

Progress: TypeAlias = Callable[[int, int, float], None]
"""Called with steps done, steps planned and the step's loss."""


class Supervisor(Callback):
    """Follows a run step by step and ends it when its rules say so."""

    def __init__(
        self,
        *,
        module: PretrainModule,
        recorders: Sequence[Recorder],
        windows: Mapping[str, Windows],
        divergence: DivergenceRule,
        checkpoints: Path,
        checkpoint_io: VerifiedCheckpointIO,
        stop: StopRequest,
        progress: Progress | None,
        clock: Callable[[], float],
    ) -> None:
        self.outcome: EndOutcome | Literal["unfinished"] = "unfinished"
        self.reason = ""
        self.curve = Curve()
        self.evaluations: list[tuple[int, dict[str, float]]] = []
        """Of this attempt."""
        self.findings: list[Finding] = []
        """Of this attempt: the detector starts afresh with it."""
        model = module.identity.config.model
        self._detector = Detector(
            num_experts=model.num_experts,
            divergence_loss=divergence.loss_above,
            patience=divergence.patience,
            top_k=model.top_k,
        )
        self._module = module
        self._recorders = recorders
        self._windows = windows
        self._divergence = divergence
        self._checkpoints = checkpoints
        self.checkpoint_io = checkpoint_io
        self.stop = stop
        self._progress = progress
        self._clock = clock
        self._began = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to time the first step."""
        del trainer, pl_module
        self._began = time.perf_counter()

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: Mapping[str, Tensor],
        batch_idx: int,
    ) -> None:
        """Record the step, then evaluate, save and stop where it is due."""
        del pl_module, outputs, batch, batch_idx
        measures = self._module.measures
        if measures is None:
            return
        config = self._module.identity.config
        step, last = measures.step, measures.step == config.steps
        self._record(measures)
        if self._diverged(measures):
            trainer.should_stop = True
            return
        if last or step % config.evaluation.every == 0:
            self._evaluate(step)
        if self._progress is not None:
            self._progress(step, config.steps, measures.loss)
        if last:
            # A recorder that wants to prune here comes too late: the run is done.
            self.outcome, self.reason = "completed", ""
        stopping = self.outcome == "unfinished" and bool(self.stop.signal_name)
        if self.outcome != "pruned" and (last or stopping or step % config.checkpoint.every == 0):
            self._save(trainer, step, config.checkpoint.keep)
        if self.outcome != "unfinished" or stopping:
            trainer.should_stop = True
        # Evaluating and saving are no part of the next step's time.
        self._began = time.perf_counter()

    def _record(self, measures: StepMeasures) -> None:
        config = self._module.identity.config
        row = TelemetryRow(
            time=self._clock(),
            step=measures.step,
            tokens=measures.step * config.tokens_per_step,
            loss=measures.loss,
            lr=measures.lr,
            grad_norm=measures.grad_norm,
            clip_threshold=measures.clip_threshold,
            router_entropy=measures.router_entropy,
            max_expert_share=measures.max_expert_share,
            capacity_utilization=measures.capacity_utilization,
            aux_loss=measures.aux_loss,
            step_seconds=time.perf_counter() - self._began,
        )
        self.curve.add(measures.step, measures.loss)
        if measures.step > 1 and is_new_level(config, measures.step):
            self._detector.expect_new_level()
        self.findings += self._detector.observe(row)
        for recorder in self._recorders:
            recorder.telemetry(row)

    def _diverged(self, measures: StepMeasures) -> bool:
        rule = self._divergence
        above = self._module.extra_state.get("steps_above", 0)
        above = above + 1 if measures.loss > rule.loss_above else 0
        self._module.extra_state["steps_above"] = above
        self.reason = measures.failure
        if not self.reason and above >= rule.patience:
            self.reason = (
                f"loss was above {rule.loss_above:g} for {above} steps, "
                f"{measures.loss:.4g} at step {measures.step}"
            )
        if self.reason:
            self.outcome = "diverged"
        return bool(self.reason)

    def _evaluate(self, step: int) -> None:
        values = validation_values(self._module.model, self._windows)
        self.evaluations.append((step, values))
        self._module.extra_state["evaluation"] = {"step": step, "values": values}
        for recorder in self._recorders:
            try:
                recorder.evaluation(step, values)
            except StopRun as request:
                self.outcome, self.reason = "pruned", request.reason

    def _save(self, trainer: Trainer, step: int, keep: int) -> None:
        trainer.save_checkpoint(checkpoint_path(self._checkpoints, step), weights_only=False)
        retain(self._checkpoints, keep)
        saved = self.checkpoint_io.saved
        if saved is not None and saved.step == step:
            for recorder in self._recorders:
                recorder.checkpoint(step, saved.path, saved.sha256)
