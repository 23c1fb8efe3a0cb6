"""One optimizer step of the decoder under Lightning's manual optimization.

Shape suffixes: B sequences, T positions, D model width.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, distributed

from workbench.errors import ConflictError, IntegrityError
from workbench.moe import balance
from workbench.moe.block_scaled import use_block_scaled_fp8
from workbench.moe.loss import summed_nats
from workbench.moe.model import HiddenOutput, MoEDecoder
from workbench.moe.router import Routing, Turn
from workbench.training.balancing import RouterBalance
from workbench.training.clipping import Clipper
from workbench.training.config import FreezablePart, RunConfig
from workbench.training.kernels import kernels_of
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
        """Return plain values; saving, recomputing and kernels are operation."""
        config = self.config.model_dump(mode="json", exclude={"checkpoint", "recompute", "kernels"})
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
    """Balance loss without λ: 1.0 at balance."""
    dropped_share: float = 0.0
    """Of the assignments of real tokens: what found its expert full."""
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
    num_targets: int
    """Targets that count."""
    number: int
    """Its place in the step, from 0."""


class PretrainModule(LightningModule):
    """The decoder with its objective, optimizer and schedule.

    A step is one batch: its micro-batches are weighted by their tokens, clipping comes after the
    last backward pass, and the learning rate is a function of the step alone.
    """

    def __init__(self, model: MoEDecoder, identity: RunIdentity) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        if identity.config.recompute != "none":
            model.set_recompute(identity.config.recompute)
        self.kernels = kernels_of(identity.config)
        if self.kernels.compiled:
            model.set_compiled(True)
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
        self.balance = RouterBalance(identity.config)
        self.group: distributed.ProcessGroup | None = None
        """Of the ranks that share a batch, whose gradients are averaged; None is one process."""
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
        held = {"router", "all"}.intersection(self._frozen)
        if (step - 1) % config.model.routing.refresh_every == 0 and not held:
            self.model.refresh_routing()
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
            self.balance.end(self.model, step, self.group)
        self.done = step

    def _accumulate(
        self, batch: Mapping[str, Tensor], balance_weight: float, *, backward: bool
    ) -> dict[str, float]:
        """Return the step's means after the backward pass of every micro-batch.

        Each micro-batch counts by its share of the step's targets: the loss is the mean over all
        targets, and the auxiliary terms do not grow with the number of micro-batches.
        """
        parts = self._micro_batches(batch)
        num_targets = self._over_ranks(torch.tensor(sum(one.num_targets for one in parts)))
        self.balance.begin()
        if self.balance.looks_ahead:
            self.balance.preview(self._routing_ahead(parts), self.group)
        sums = torch.zeros(len(_MEANS), device=batch["tokens"].device)
        for one in parts:
            objective, means = self._objective(one, float(num_targets), balance_weight)
            if backward:
                self._backward(objective)
            sums += means
        return dict(zip(_MEANS, self._over_ranks(sums).tolist(), strict=True))

    def _backward(self, objective: Tensor) -> None:
        # The trainer's autocast is on in a step and would round the products of what ran without
        # it, the router. What ran in bf16 has its gradient in bf16 all the same.
        with torch.autocast(self.device.type, enabled=False):
            self.manual_backward(objective)

    def _micro_batches(self, batch: Mapping[str, Tensor]) -> list[MicroBatch]:
        tokens_BT, mask_BT, segments_BT = batch["tokens"], batch.get("mask"), batch.get("segments")
        rows = len(tokens_BT) // self.identity.config.batch.micro_batches
        made = []
        for number, begin in enumerate(range(0, len(tokens_BT), rows)):
            part = slice(begin, begin + rows)
            real_BT = None if mask_BT is None else mask_BT[part]
            targets_BT = tokens_BT[part, 1:]
            made.append(
                MicroBatch(
                    tokens_BT=tokens_BT[part],
                    mask_BT=real_BT,
                    segments_BT=None if segments_BT is None else segments_BT[part],
                    num_targets=int(targets_BT.numel() if real_BT is None else real_BT.sum()),
                    number=number,
                )
            )
        return made

    def _hidden(self, batch: MicroBatch) -> HiddenOutput:
        rank = 0 if self.group is None else distributed.get_rank(self.group)
        part = rank * self.identity.config.batch.micro_batches + batch.number
        turn = Turn(seed=self.identity.seed, step=self.done + 1, part=part)
        return self.model.hidden(
            batch.tokens_BT[:, :-1], batch.mask_BT, batch.segments_BT, turn=turn
        )

    @torch.no_grad()
    def _routing_ahead(self, parts: Sequence[MicroBatch]) -> Iterator[Sequence[Routing]]:
        for one in parts:
            yield self._hidden(one).routing

    def _over_ranks(self, values: Tensor) -> Tensor:
        """Return the mean over the ranks that share the batch."""
        if self.group is None:
            return values
        total = values.double().to(self.device)
        distributed.all_reduce(total, group=self.group)
        return total / distributed.get_world_size(self.group)

    def _objective(
        self, batch: MicroBatch, num_targets: float, balance_weight: float
    ) -> tuple[Tensor, Tensor]:
        """Return a micro-batch's part of the step's objective and of its means."""
        tokens_BT, mask_BT = batch.tokens_BT, batch.mask_BT
        output = self._hidden(batch)
        share = batch.num_targets / num_targets
        nats = summed_nats(
            output.hidden_BTD.flatten(0, 1),
            self.model.output_embedding,
            tokens_BT[:, 1:].flatten(),
            None if mask_BT is None else mask_BT.flatten(),
            compiled=self.kernels.compiled,
        )
        loss = nats / num_targets
        penalty = self.balance.penalty(
            output.routing,
            num_sequences=len(tokens_BT),
            balance_weight=balance_weight,
            group=self.group,
        )
        health = [
            balance.router_entropy(output.routing),
            balance.max_expert_share(output.routing),
            balance.capacity_utilization(output.routing),
            penalty.aux.detach(),
            balance.dropped_share(output.routing),
        ]
        means = torch.stack([loss.detach(), *(share * value for value in health)])
        return loss + share * penalty.total, means

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
        if self.balance.average_LE is not None:
            checkpoint[STATE_KEY]["router_average"] = self.balance.average_LE

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
        self.balance.average_LE = state.get("router_average")
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


_MEANS = (
    *("loss", "router_entropy", "max_expert_share", "capacity_utilization", "aux_loss"),
    "dropped_share",
)
_OWN_STATE = ("identity", "done", "updates", "router_average", "clipping")


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
