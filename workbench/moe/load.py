"""What a whole batch asked of the experts, summed over micro-batches and ranks, and the biases.

Shape suffixes: L layers, E experts, N tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from workbench.moe.balance import mean_probabilities
from workbench.moe.router import Router, Routing


@dataclass(frozen=True, kw_only=True)
class Load:
    """Sums over real tokens, exact for what is counted. Parts of a batch add up with ``+``."""

    count_LE: Tensor
    """Assignments of each expert, int64: a low-precision sum of thousands is not exact (E5)."""
    mass_LE: Tensor
    """Summed probabilities of each expert, fp64."""
    num_tokens: Tensor
    """int64 scalar."""

    def __add__(self, other: "Load") -> "Load":
        return Load(
            count_LE=self.count_LE + other.count_LE,
            mass_LE=self.mass_LE + other.mass_LE,
            num_tokens=self.num_tokens + other.num_tokens,
        )

    @property
    def shares_LE(self) -> Tensor:
        """The f of the whole batch, fp32: each expert's share of the assignments."""
        return self.count_LE.float() / self.count_LE.sum(1, keepdim=True).clamp_min(1)

    @property
    def marginal_LE(self) -> Tensor:
        """The P of the whole batch, fp32: each expert's mean probability."""
        return (self.mass_LE / self.num_tokens.clamp_min(1)).float()


@torch.no_grad()
def load_of(routing: Sequence[Routing]) -> Load:
    """Return the load of one micro-batch. With a capacity it is what the tokens asked for."""
    first = routing[0]
    num_tokens = (
        torch.tensor(len(first.probs_NE), device=first.probs_NE.device)
        if first.mask_N is None
        else first.mask_N.sum()
    )
    mass = [mean_probabilities(layer).double() * num_tokens for layer in routing]
    return Load(
        count_LE=torch.stack([_counts(layer) for layer in routing]),
        mass_LE=torch.stack(mass),
        num_tokens=num_tokens,
    )


def _counts(layer: Routing) -> Tensor:
    num_experts = layer.probs_NE.shape[1]
    chosen_NK = layer.chosen_NK if layer.mask_N is None else layer.chosen_NK[layer.mask_N]
    # One more than there are experts: places that hold none.
    return torch.bincount(chosen_NK.flatten(), minlength=num_experts + 1)[:num_experts]


def over_ranks(load: Load, group: distributed.ProcessGroup | None) -> Load:
    """Return the sum of the loads of all ranks of a group; the load itself without a group."""
    if group is None:
        return load
    summed = [load.count_LE.clone(), load.mass_LE.clone(), load.num_tokens.clone()]
    for tensor in summed:
        distributed.all_reduce(tensor, group=group)
    return Load(count_LE=summed[0], mass_LE=summed[1], num_tokens=summed[2])


@torch.no_grad()
def move_biases(routers: Sequence[Router], count_LE: Tensor, rate: float) -> None:
    """Lower the bias of each expert above the mean load by the rate, raise that of one below.

    Auxiliary-loss-free balancing (DeepSeek-V3, section 2.1.2): once an optimizer step, on the
    counts of the whole batch. Compared as integers; at the mean itself nothing moves. A router
    without a bias is left alone.
    """
    above_LE = count_LE * count_LE.shape[1] - count_LE.sum(1, keepdim=True)
    for router, above_E in zip(routers, above_LE, strict=True):
        if router.bias_E is not None:
            router.bias_E -= rate * above_E.sign()
