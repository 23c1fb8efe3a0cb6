"""The router's side of an optimizer step: its penalties, and what it remembers between steps.

Shape suffixes: L layers, E experts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from workbench.moe import balance
from workbench.moe.config import UNDIVIDED_DEFINITION
from workbench.moe.load import Load, load_of, move_biases, over_ranks
from workbench.moe.model import MoEDecoder
from workbench.moe.router import Routing
from workbench.training.config import RunConfig
from workbench.training.phases import frozen_at, phase_at


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """The router's losses on one micro-batch."""

    aux: Tensor
    """The balance loss without λ, f divided by k whatever the definition: 1.0 at balance."""
    total: Tensor
    """What is added to the objective, each loss times its weight."""


class RouterBalance:
    """Penalties by the configuration, the biases of the experts and the mean of the marginals.

    Statistics of a whole batch need its routing before the first backward pass. With several
    micro-batches that is a forward pass ahead of training's own, without gradient: running counts
    would be cheaper and give the early micro-batches another loss than the late ones.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self.average_LE: Tensor | None = None
        """Moving average of the marginals, None before the first step."""
        self._whole: Load | None = None
        self._seen: Load | None = None

    @property
    def is_global(self) -> bool:
        """Whether statistics span the whole batch."""
        return self._config.balance.scope == "global_batch"

    @property
    def looks_ahead(self) -> bool:
        """Whether `preview` must see the batch before it is trained on."""
        return self.is_global and self._config.batch.micro_batches > 1

    def begin(self) -> None:
        """Forget the step before, but for what is kept between steps."""
        self._whole = self._seen = None

    def preview(
        self, routings: Iterable[Sequence[Routing]], group: distributed.ProcessGroup | None
    ) -> None:
        """Take the statistics of the whole batch from the routing of all its micro-batches."""
        for routing in routings:
            part = load_of(routing)
            self._whole = part if self._whole is None else self._whole + part
        if self._whole is not None:
            self._whole = over_ranks(self._whole, group)

    def penalty(
        self,
        routing: Sequence[Routing],
        *,
        num_sequences: int,
        balance_weight: float,
        group: distributed.ProcessGroup | None = None,
    ) -> Penalty:
        """Return the losses of a micro-batch, whose mean by tokens is that of the batch.

        Args:
            routing: of every layer.
            num_sequences: rows of the micro-batch.
            balance_weight: λ.
            group: of the ranks that share the batch.
        """
        config = self._config.balance
        self._count(routing)
        if self.is_global and not self.looks_ahead:
            self._whole = over_ranks(load_of(routing), group)
        whole = self._whole
        aux = balance.switch_loss(routing, None if whole is None else whole.shares_LE)
        top_k = self._config.model.top_k
        total = balance_weight * aux
        if config.definition == UNDIVIDED_DEFINITION:
            total = total * top_k
        if config.z_loss_weight:
            total = total + config.z_loss_weight * balance.z_loss(routing)
        if config.sequence_weight:
            loss = balance.sequence_loss(routing, num_sequences, top_k)
            total = total + config.sequence_weight * loss
        if config.stability_weight and self.average_LE is not None:
            marginal_LE = None if whole is None else whole.marginal_LE
            # A checkpoint brings it to the CPU.
            average_LE = self.average_LE.to(routing[0].probs_NE.device)
            loss = balance.stability_loss(routing, average_LE, marginal_LE)
            total = total + config.stability_weight * loss
        return Penalty(aux=aux, total=total)

    def _count(self, routing: Sequence[Routing]) -> None:
        if self._config.model.routing.bias or self._config.balance.stability_weight:
            part = load_of(routing)
            self._seen = part if self._seen is None else self._seen + part

    def end(
        self, model: MoEDecoder, step: int, group: distributed.ProcessGroup | None = None
    ) -> None:
        """Move biases and average after an update; a step without one must not call this.

        The counts are those of training's own forward passes: recomputation, a look ahead and
        validation add nothing to them.
        """
        if self._seen is None:
            return
        seen = over_ranks(self._seen, group)
        rate = bias_rate_at(self._config, step)
        if rate and "router" not in frozen_at(self._config, step):
            move_biases(model.routers(), seen.count_LE, rate)
        if self._config.balance.stability_weight:
            self._remember(seen.marginal_LE)

    @torch.no_grad()
    def _remember(self, marginal_LE: Tensor) -> None:
        if self.average_LE is None:
            self.average_LE = marginal_LE
            return
        decay, before_LE = self._config.balance.stability_decay, self.average_LE
        self.average_LE = decay * before_LE.to(marginal_LE.device) + (1 - decay) * marginal_LE


def bias_rate_at(config: RunConfig, step: int) -> float:
    """Return γ of a step: the phase's, else the run's.

    Raises:
        ValueError: the step is not one of 1 to ``config.steps``.
    """
    own = phase_at(config, step).bias_rate
    return config.balance.bias_rate if own is None else own
