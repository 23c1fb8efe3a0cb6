"""Train one run, from its beginning or from its last good checkpoint.

Lightning restores weights, optimizer, loop position and data stream; our part is files that are
whole, a loader whose state is neither ahead nor behind, and a schedule without a memory. That makes
a resumed run equal to an uninterrupted one to the last bit on the CPU.
"""

import contextlib
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from lightning.pytorch import Callback, Trainer

from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, RunFailedError, WorkbenchError
from workbench.moe.model import MoEDecoder, initialise
from workbench.planner.counts import training_flops_per_token
from workbench.training.attempts import ResumePoint, checkpoint_folder, resume_point
from workbench.training.checkpoints import (
    VerifiedCheckpointIO,
    read_checkpoint,
    remove_leftovers,
    set_aside,
)
from workbench.training.config import RunConfig
from workbench.training.evaluate import validation_windows
from workbench.training.interruption import Interrupted, StopRequest, stop_requests
from workbench.training.loader import StepLoader
from workbench.training.mixture_plan import refuse_unavailable
from workbench.training.module import PretrainModule, RunIdentity
from workbench.training.recorder import FileRecorder, Recorder
from workbench.training.results import DivergenceRule, EndOutcome, RunResult
from workbench.training.run_folder import evaluations_path, exclusive, telemetry_path
from workbench.training.sampling import run_stream
from workbench.training.supervision import Progress, Supervisor


def fit(
    config: RunConfig,
    corpus: Corpus,
    *,
    seed: int,
    folder: Path,
    recorders: Sequence[Recorder],
    divergence: DivergenceRule,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.time,
    accelerator: Literal["auto", "cpu"] = "auto",
) -> RunResult:
    """Train to the end of the run, to its divergence, or until a recorder prunes it.

    Every call is one attempt. It continues the newest checkpoint of the folder that verifies and
    sets newer ones aside; without one it begins at step 1. Called on a run that is complete it
    trains nothing and returns the same final metrics. Recorders are closed, however it ends.

    Args:
        config: the run; a checkpoint of another one is refused.
        corpus: what it trains on and is evaluated on.
        seed: 0 to 2^64-1, decides the initial weights and the order of the data.
        folder: the run's own; created where it is missing.
        recorders: hear of every step; tracking, a sweep's pruner, a supervisor.
        divergence: when the run counts as diverged.
        progress: called after every step with steps done, steps planned and loss.
        clock: seconds since 1970, for telemetry.
        accelerator: ``auto`` takes a GPU where there is one; only the CPU repeats to the last bit.

    Raises:
        InvalidFileError: the run needs more text than its availability allows.
        ConflictError: another process trains in the folder, or its checkpoint, the corpus and the
            configuration do not belong together.
        Interrupted: Ctrl-C or SIGTERM; the step in progress was finished and saved.
    """
    began = time.perf_counter()
    refuse_unavailable(config, corpus)
    with exclusive(folder), stop_requests() as stop:
        start = _begin(folder)
        files = _files(folder, start.attempt)
        with _closing((files, *recorders)) as complaints:
            module = initial_module(config, corpus, seed)
            loader = StepLoader(run_stream(config, corpus, seed), config.steps)
            supervisor = Supervisor(
                module=module,
                recorders=(files, *recorders),
                windows=validation_windows(corpus, config),
                divergence=divergence,
                checkpoints=checkpoint_folder(folder),
                checkpoint_io=VerifiedCheckpointIO(),
                stop=stop,
                progress=progress,
                clock=clock,
            )
            if start.from_step < config.steps:
                _train(module, loader, supervisor, start, folder, accelerator)
            else:
                _restore_complete(module, loader, supervisor, start)
            outcome = _outcome(supervisor, module, stop)
        return RunResult(
            outcome=outcome,
            reason=supervisor.reason,
            attempt=start.attempt,
            from_step=start.from_step,
            parent_checkpoint=start.parent_checkpoint,
            rejected_checkpoints=start.rejected,
            last_step=module.done,
            planned_steps=config.steps,
            tokens=(module.done - start.from_step) * config.tokens_per_step,
            device_seconds=time.perf_counter() - began,
            final=module.extra_state["evaluation"]["values"] if outcome == "completed" else None,
            evaluations=tuple(supervisor.evaluations),
            curve=supervisor.curve.points(),
            findings=tuple(supervisor.findings),
            checkpoint=supervisor.checkpoint_io.saved or start.checkpoint,
            telemetry_sha256=files.telemetry_sha256,
            mixture=loader.accounting(),
            flops_per_token=training_flops_per_token(config.model, config.batch.seq_len),
            updates=module.update_report(),
            peak_memory_bytes=_peak_memory_bytes(accelerator),
            warnings=tuple(complaints),
        )


def _files(folder: Path, attempt: int) -> FileRecorder:
    return FileRecorder(telemetry_path(folder, attempt), evaluations_path(folder, attempt))


def _peak_memory_bytes(accelerator: str) -> int:
    if accelerator == "auto" and torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _begin(folder: Path) -> ResumePoint:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    remove_leftovers(checkpoint_folder(folder))
    start = resume_point(folder)
    for rejected in start.rejected:
        set_aside(rejected)
    return start


def initial_module(config: RunConfig, corpus: Corpus, seed: int) -> PretrainModule:
    """Return a run before its first step.

    Raises:
        ConflictError: the corpus has another vocabulary than the model.
    """
    if config.model.vocab_size != corpus.vocab_size:
        raise ConflictError(
            f"model.vocab_size {config.model.vocab_size} is not the corpus's {corpus.vocab_size}",
            remedy=f"set model.vocab_size to {corpus.vocab_size}",
        )
    model = MoEDecoder(config.model)
    initialise(model, torch.Generator().manual_seed(seed))
    identity = RunIdentity(config=config, seed=seed, corpus=corpus.fingerprint)
    return PretrainModule(model, identity)


def trainer_of(
    config: RunConfig,
    accelerator: str,
    *,
    callbacks: list[Callback],
    plugins: Sequence[VerifiedCheckpointIO] = (),
    folder: Path | None = None,
) -> Trainer:
    """Return the one-device trainer of a run, without what Lightning would print or write."""
    return Trainer(
        accelerator=accelerator,
        devices=1,
        precision="32-true" if config.precision == "fp32" else "bf16-mixed",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        plugins=list(plugins),
        default_root_dir=folder,
    )


def _train(
    module: PretrainModule,
    loader: StepLoader,
    supervisor: Supervisor,
    start: ResumePoint,
    folder: Path,
    accelerator: str,
) -> None:
    with contextlib.closing(loader), quiet_lightning():
        trainer = trainer_of(
            module.identity.config,
            accelerator,
            callbacks=[supervisor],
            plugins=[supervisor.checkpoint_io],
            folder=folder,
        )
        path = None if start.checkpoint is None else start.checkpoint.path
        try:
            trainer.fit(module, loader, ckpt_path=path, weights_only=True)
        except SystemExit:
            # Lightning leaves the process after a signal; here the caller decides.
            if not supervisor.stop.signal_name:
                raise


def _restore_complete(
    module: PretrainModule, loader: StepLoader, supervisor: Supervisor, start: ResumePoint
) -> None:
    if start.checkpoint is None:
        return
    state = read_checkpoint(start.checkpoint.path, start.checkpoint.sha256)
    module.on_load_checkpoint(state)
    loader.load_state_dict(state["loops"]["fit_loop"]["state_dict"]["combined_loader"][0])
    supervisor.outcome = "completed"


def _outcome(supervisor: Supervisor, module: PretrainModule, stop: StopRequest) -> EndOutcome:
    if stop.signal_name:
        raise Interrupted(stop.signal_name, module.done)
    if supervisor.outcome == "unfinished":
        raise RunFailedError(
            f"training ended after step {module.done} of {module.identity.config.steps} without "
            "saying why",
            remedy="repeat the command: the run continues from its last checkpoint",
        )
    return supervisor.outcome


@contextlib.contextmanager
def _closing(recorders: Sequence[Recorder]) -> Iterator[list[str]]:
    """Close every recorder at the end; what one could not write is a complaint, not a failure."""
    complaints: list[str] = []

    def close(recorder: Recorder) -> None:
        try:
            recorder.close()
        except WorkbenchError as error:
            complaints.append(error.message)

    with contextlib.ExitStack() as stack:
        for recorder in reversed(recorders):
            stack.callback(close, recorder)
        yield complaints


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Keep Lightning's greetings off the screen; errors are raised, not logged."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
