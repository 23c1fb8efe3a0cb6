"""Which updates a weight's precision loses: ``workbench audit-precision``.

An update is lost where the stored weight is the same after it as before. With fp32 master weights
that is rare; a weight that is stored in bf16, 8 significant bits, keeps an update only if it is at
least half a unit in its last place. Both are told for the same updates, part by part.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from workbench.data.corpus import Corpus
from workbench.errors import RunFailedError
from workbench.moe.model import Part, part_of
from workbench.training.config import RunConfig
from workbench.training.fit import initial_module, quiet_lightning, trainer_of
from workbench.training.loader import StepLoader
from workbench.training.module import PretrainModule
from workbench.training.sampling import run_stream


@dataclass(frozen=True, kw_only=True)
class PartAudit:
    """The updates of one part of the model over the audited steps."""

    part: str
    """``all`` for the whole model."""
    num_weights: int
    num_updates: int
    """Weights that moved in fp32, summed over the steps."""
    lost_bf16: float
    """Share of them that a weight stored in bf16 would not have kept, rounded to nearest."""
    length_lost_bf16: float
    """Of the length √Σ(update²) of all updates, the share that those lost have."""
    lost_fp32: float
    """Of the weights that had a gradient and of those that moved: share that did not move."""


@dataclass(frozen=True, kw_only=True)
class PrecisionAudit:
    """What the first steps of a run would lose."""

    steps: int
    first_lr: float
    last_lr: float
    """Learning rate of the last audited step: a smaller one loses more."""
    precision: str
    """Of the products, ``fp32`` or ``bf16``; with fp8 experts that is said behind it."""
    parts: tuple[PartAudit, ...]
    """The whole model first, then its parts in alphabetical order."""


class Tally:
    """Counts the updates of one part."""

    def __init__(self) -> None:
        self.num_weights = 0
        self._moved = self._lost_bf16 = self._wanted = self._lost_fp32 = 0
        self._squares = self._squares_lost = 0.0

    def add(self, before: Tensor, after: Tensor, gradient: Tensor | None) -> None:
        """Take one tensor's step: its fp32 values and the gradient that the optimizer saw."""
        update = after - before
        moved = update != 0
        stored = before.bfloat16()
        lost = moved & ((stored.float() + update).bfloat16() == stored)
        squares = update.double().square()
        self._moved += int(moved.sum())
        self._lost_bf16 += int(lost.sum())
        self._squares += float(squares.sum())
        self._squares_lost += float(squares[lost].sum())
        wanted = moved if gradient is None else moved | (gradient != 0)
        self._wanted += int(wanted.sum())
        self._lost_fp32 += int((wanted & ~moved).sum())

    def audit(self, part: str) -> PartAudit:
        """Return the shares; 0 where nothing moved."""
        return PartAudit(
            part=part,
            num_weights=self.num_weights,
            num_updates=self._moved,
            lost_bf16=self._lost_bf16 / max(1, self._moved),
            length_lost_bf16=(self._squares_lost / self._squares) ** 0.5 if self._squares else 0.0,
            lost_fp32=self._lost_fp32 / max(1, self._wanted),
        )


def audit_precision(
    config: RunConfig,
    corpus: Corpus,
    *,
    seed: int,
    steps: int,
    progress: Callable[[int, int], None],
) -> PrecisionAudit:
    """Train the first steps of a run, on the CPU and without leaving a file, and audit each.

    Args:
        config: the run; its schedule decides the learning rates, so that few steps audit a warm-up.
        corpus: what it trains on.
        seed: of the weights and the order of the data.
        steps: how many, at most those of the run.
        progress: told steps done and to do.

    Raises:
        ConflictError: corpus and configuration do not belong together.
        RunFailedError: a step's loss or gradient is not finite.
    """
    steps = min(steps, config.steps)
    module = initial_module(config, corpus, seed)
    auditor = _Auditor(module, steps, progress)
    loader = StepLoader(run_stream(config, corpus, seed), steps)
    try:
        with quiet_lightning():
            trainer_of(config, "cpu", callbacks=[auditor]).fit(module, loader)
    finally:
        loader.close()
    return PrecisionAudit(
        steps=steps,
        first_lr=auditor.rates[0],
        last_lr=auditor.rates[-1],
        precision=config.precision
        + ("" if config.expert_precision == "run" else f", experts {config.expert_precision}"),
        parts=auditor.audits(),
    )


class _Auditor(Callback):
    """Keeps the weights of before a step and compares them with those after it."""

    def __init__(
        self, module: PretrainModule, steps: int, progress: Callable[[int, int], None]
    ) -> None:
        self.rates: list[float] = []
        self._module = module
        self._steps = steps
        self._progress = progress
        self._before: dict[str, Tensor] = {}
        self._parts: dict[Part, Tally] = {}
        self._whole = Tally()
        for name, parameter in module.model.named_parameters():
            for tally in self._tallies(name):
                tally.num_weights += parameter.numel()

    def audits(self) -> tuple[PartAudit, ...]:
        parts = [self._parts[part].audit(part) for part in sorted(self._parts)]
        return self._whole.audit("all"), *parts

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int
    ) -> None:
        del trainer, pl_module, batch, batch_idx
        self._before = {name: p.detach().clone() for name, p in self._named()}

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        del trainer, pl_module, outputs, batch, batch_idx
        measures = self._module.measures
        assert measures is not None  # noqa: S101 -- the step has just left them
        if measures.failure:
            raise RunFailedError(
                f"nothing to audit: {measures.failure}", remedy="lower optimizer.lr"
            )
        self.rates.append(measures.lr)
        for name, parameter in self._named():
            for tally in self._tallies(name):
                tally.add(self._before[name], parameter.detach(), parameter.grad)
        self._progress(len(self.rates), self._steps)

    def _named(self) -> list[tuple[str, nn.Parameter]]:
        return list(self._module.model.named_parameters())

    def _tallies(self, name: str) -> tuple[Tally, Tally]:
        return self._whole, self._parts.setdefault(part_of(name), Tally())
