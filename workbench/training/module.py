"""One optimizer step of the decoder under Lightning's manual optimization.

Shape suffixes: B sequences, T positions, D model width.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from workbench.errors import ConflictError, IntegrityError
from workbench.moe import balance
from workbench.moe.block_scaled import use_block_scaled_fp8
from workbench.moe.loss import summed_nats
from workbench.moe.model import MoEDecoder
from workbench.training.clipping import Clipper
from workbench.training.config import FreezablePart, RunConfig
from workbench.training.optimizers import (
    build_optimizer,
    freeze,
    num_updates,
    restored_faults,
    set_learning_rate,
)
from workbench.training.phases import balance_weight_at, frozen_at, learning_rate
from workbench.training.qk_clip import QKClip
from workbench.training.results import UpdateReport

STATE_KEY = "workbench"
"""Where a checkpoint keeps what Lightning does not know about."""


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """What two attempts of one run have in common."""

    config: RunConfig
    seed: int
    corpus: str
    """Fingerprint of the corpus."""

    def plain(self) -> dict[str, Any]:
        """Return plain values; how often to save is operation, not identity."""
        config = self.config.model_dump(mode="json", exclude={"checkpoint"})
        return {**config, "seed": str(self.seed), "corpus": self.corpus}


@dataclass(frozen=True, kw_only=True)
class StepMeasures:
    """What a step measured: means over its tokens, or over its micro-batches by their tokens."""

    step: int
    loss: float
    """Cross-entropy, nats a token, before the update."""
    lr: float
    grad_norm: float | None
    """Global norm before clipping; None in a step without updates."""
    router_entropy: float
    max_expert_share: float
    capacity_utilization: float
    aux_loss: float
    """Balance loss without λ."""
    clip_threshold: float
    """Of the gradient norm, in this step."""
    skipped: bool = False
    """The update was left out: the gradient norm was not finite, and the run allows that."""
    max_logit: float | None = None
    """Largest attention logit of any head; None where none is watched."""

    @property
    def failure(self) -> str:
        """Why the step cannot count, empty when it can."""
        if not math.isfinite(self.loss):
            return f"loss is {self.loss} at step {self.step}"
        if self.grad_norm is not None and not math.isfinite(self.grad_norm) and not self.skipped:
            return f"gradient norm is {self.grad_norm} at step {self.step}"
        return ""


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """What one backward pass sees."""

    tokens_BT: Tensor
    """Inputs are all but the last of a row, targets all but the first."""
    mask_BT: Tensor | None
    """Of the inputs: True where the target counts and the token is part of the routing figures."""
    segments_BT: Tensor | None
    """Of the inputs: their documents, where attention stays within them."""


class PretrainModule(LightningModule):
    """The decoder with its objective, optimizer and schedule.

    A step is one batch: its micro-batches are weighted by their tokens, clipping comes after the
    last backward pass, and the learning rate is a function of the step alone.
    """

    def __init__(self, model: MoEDecoder, identity: RunIdentity) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.identity = identity
        self.done = 0
        """Steps done."""
        self.measures: StepMeasures | None = None
        """Of the last step."""
        if identity.config.expert_precision == "fp8_block":
            use_block_scaled_fp8(model.modules())
        self.clipper = Clipper(identity.config.optimizer)
        tau = identity.config.optimizer.qk_clip
        self.qk_clip = None if tau is None else QKClip(model, tau)
        self.extra_state: dict[str, Any] = {}
        """Plain values of others that travel with the checkpoint."""
        self._frozen: tuple[FreezablePart, ...] = ()
        self._restored_updates: int | None = None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the run's optimizer."""
        return build_optimizer(self.model, self.identity.config.optimizer)

    def training_step(self, batch: Mapping[str, Tensor], batch_idx: int) -> None:
        """Do one optimizer step and leave what it measured in ``measures``.

        A loss or gradient that is not finite changes nothing: the run ends on the last good state,
        or goes on from it where the configuration lets such a gradient be skipped.
        """
        del batch_idx
        config = self.identity.config
        step = self.done + 1
        optimizer = self._optimizer(through_lightning=True)
        self._freeze(frozen_at(config, step))
        lr = learning_rate(config, step)
        set_learning_rate(optimizer, lr)
        optimizer.zero_grad(set_to_none=True)
        updates = "all" not in self._frozen
        if self.qk_clip is not None:
            self.qk_clip.begin()
        means = self._accumulate(batch, balance_weight_at(config, step), backward=updates)
        clipped = self.clipper.clip(self.model) if updates else None
        self.measures = StepMeasures(
            step=step,
            lr=lr,
            grad_norm=clipped.norm if clipped else None,
            clip_threshold=clipped.threshold if clipped else self.clipper.threshold,
            skipped=clipped is not None and clipped.skipped,
            max_logit=None if self.qk_clip is None else self.qk_clip.max_logit(),
            **means,
        )
        if updates and not self.measures.failure and not self.measures.skipped:
            optimizer.step()
            if self.qk_clip is not None:
                self.qk_clip.scale()
        self.done = step

    def _accumulate(
        self, batch: Mapping[str, Tensor], balance_weight: float, *, backward: bool
    ) -> dict[str, float]:
        """Return the step's means after the backward pass of every micro-batch.

        Each micro-batch counts by its share of the step's targets: the loss is the mean over all
        targets, and the auxiliary terms do not grow with the number of micro-batches.
        """
        tokens_BT = batch["tokens"]
        mask_BT = batch.get("mask")
        num_targets = tokens_BT[:, 1:].numel() if mask_BT is None else int(mask_BT.sum())
        segments_BT = batch.get("segments")
        rows = len(tokens_BT) // self.identity.config.batch.micro_batches
        sums = torch.zeros(len(_MEANS), device=tokens_BT.device)
        for begin in range(0, len(tokens_BT), rows):
            part = slice(begin, begin + rows)
            one = MicroBatch(
                tokens_BT=tokens_BT[part],
                mask_BT=None if mask_BT is None else mask_BT[part],
                segments_BT=None if segments_BT is None else segments_BT[part],
            )
            objective, means = self._objective(one, num_targets, balance_weight)
            if backward:
                self.manual_backward(objective)
            sums += means
        return dict(zip(_MEANS, sums.tolist(), strict=True))

    def _objective(
        self, batch: MicroBatch, num_targets: int, balance_weight: float
    ) -> tuple[Tensor, Tensor]:
        """Return a micro-batch's part of the step's objective and of its means."""
        tokens_BT, mask_BT = batch.tokens_BT, batch.mask_BT
        output = self.model.hidden(tokens_BT[:, :-1], mask_BT, batch.segments_BT)
        num_counted = tokens_BT[:, 1:].numel() if mask_BT is None else int(mask_BT.sum())
        share = num_counted / num_targets
        nats = summed_nats(
            output.hidden_BTD.flatten(0, 1),
            self.model.output_embedding,
            tokens_BT[:, 1:].flatten(),
            None if mask_BT is None else mask_BT.flatten(),
        )
        loss = nats / num_targets
        aux = balance.switch_loss(output.routing)
        penalty = balance_weight * aux
        z_weight = self.identity.config.balance.z_loss_weight
        if z_weight:
            penalty = penalty + z_weight * balance.z_loss(output.routing)
        health = [
            balance.router_entropy(output.routing),
            balance.max_expert_share(output.routing),
            balance.capacity_utilization(output.routing),
            aux.detach(),
        ]
        means = torch.stack([loss.detach(), *(share * value for value in health)])
        return loss + share * penalty, means

    def _freeze(self, frozen: tuple[FreezablePart, ...]) -> None:
        if frozen != self._frozen:
            freeze(self.model, frozen)
            self._frozen = frozen

    def _optimizer(self, *, through_lightning: bool = False) -> torch.optim.Optimizer:
        # Lightning's wrapper carries the step to its precision and its strategy.
        return cast(torch.optim.Optimizer, self.optimizers(use_pl_optimizer=through_lightning))

    def update_report(self) -> UpdateReport:
        """Return what was skipped, watched and scaled up to now."""
        return UpdateReport(
            skipped=self.clipper.num_skipped,
            max_logit=self.qk_clip.largest if self.qk_clip else None,
            heads_scaled=self.qk_clip.num_scaled if self.qk_clip else 0,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the run's identity and position."""
        clipping = self.clipper.state()
        checkpoint[STATE_KEY] = {
            "identity": self.identity.plain(),
            "done": self.done,
            "updates": num_updates(self._optimizer()),
            **({"clipping": clipping} if clipping else {}),
            **self.extra_state,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the run's position.

        Raises:
            ConflictError: the checkpoint is of another configuration, seed or corpus.
        """
        state = checkpoint[STATE_KEY]
        differing = _differences(state["identity"], self.identity.plain())
        if differing:
            raise ConflictError(
                "the run's checkpoint does not fit its configuration: " + "; ".join(differing),
                remedy="restore the configuration, or train in a new run folder",
            )
        self.done = state["done"]
        self._restored_updates = state["updates"]
        self.clipper.restore(state.get("clipping", {}))
        self.extra_state = {k: v for k, v in state.items() if k not in _OWN_STATE}

    def on_train_start(self) -> None:
        """Compare a restored optimizer with what was saved.

        Raises:
            IntegrityError: its step count or hyper-parameters are not those of the run.
        """
        if self._restored_updates is None:
            return
        optimizer = self._optimizer()
        wanted = self.identity.config.optimizer
        faults = restored_faults(optimizer, wanted, self._restored_updates)
        if faults:
            raise IntegrityError(
                "the restored optimizer is not the saved one: " + "; ".join(faults),
                remedy="resume from an older checkpoint",
            )


_MEANS = ("loss", "router_entropy", "max_expert_share", "capacity_utilization", "aux_loss")
_OWN_STATE = ("identity", "done", "updates", "clipping")


def _differences(saved: Any, wanted: Any, path: str = "") -> list[str]:
    if isinstance(saved, list) and isinstance(wanted, list) and len(saved) == len(wanted):
        saved = {str(place): value for place, value in enumerate(saved)}
        wanted = {str(place): value for place, value in enumerate(wanted)}
    if isinstance(saved, Mapping) and isinstance(wanted, Mapping):
        keys = [*saved, *(key for key in wanted if key not in saved)]
        prefix = f"{path}." if path else ""
        return [
            line
            for key in keys
            for line in _differences(saved.get(key), wanted.get(key), f"{prefix}{key}")
        ]
    if saved == wanted:
        return []
    return [f"{path} is {saved!r} in the checkpoint, {wanted!r} in the configuration"]
