"""The router's auxiliary losses and health figures: fp32, padding left out.

Each takes the routing of all layers. f_i is expert i's share of the assignments (so that the
shares sum to 1 whatever k), P_i the mean of its probability over the tokens. Statistics span the
tokens of the given routing: one micro-batch (`BalanceConfig.scope`).
Shape suffixes: N tokens, E experts, K experts a token.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from workbench.moe.router import Routing


def switch_loss(routing: Sequence[Routing]) -> Tensor:
    """Return E·Σ f_i·P_i averaged over layers, a scalar with gradient through P only.

    Fedus et al. 2021, eq. 4-6, with f over the top-k assignments divided by k
    (`BALANCE_DEFINITION`): 1.0 when balanced, E/k when k experts take everything with certainty.
    """
    losses = [
        layer.probs_NE.shape[1] * torch.dot(assignment_shares(layer), mean_probabilities(layer))
        for layer in routing
    ]
    return torch.stack(losses).mean()


def z_loss(routing: Sequence[Routing]) -> Tensor:
    """Return mean(logsumexp(router logits)²) averaged over layers (ST-MoE, eq. 5)."""
    losses = [_token_mean(torch.logsumexp(r.logits_NE, -1).square(), r.mask_N) for r in routing]
    return torch.stack(losses).mean()


def assignment_shares(layer: Routing) -> Tensor:
    """Return f: each expert's share of the assignments of real tokens, [E], sum 1.

    Counted in integers: a float sum of many ones is not exact in low precision.
    """
    chosen_NK = layer.chosen_NK if layer.mask_N is None else layer.chosen_NK[layer.mask_N]
    count_E = torch.bincount(chosen_NK.flatten(), minlength=layer.probs_NE.shape[1])
    return count_E.float() / max(chosen_NK.numel(), 1)


def mean_probabilities(layer: Routing) -> Tensor:
    """Return P: the mean over real tokens of the router's softmax, [E], sum 1."""
    return _token_mean(layer.probs_NE, layer.mask_N)


@torch.no_grad()
def router_entropy(routing: Sequence[Routing]) -> Tensor:
    """Return the entropy of P divided by ln E, averaged over layers; 1.0 for a single expert.

    P is the marginal distribution over experts: 1 when all are used alike, however sure the
    router is of each token.
    """
    num_experts = routing[0].probs_NE.shape[1]
    if num_experts == 1:
        return torch.ones(())
    entropies = [torch.special.entr(mean_probabilities(layer)).sum() for layer in routing]
    return torch.stack(entropies).mean() / math.log(num_experts)


@torch.no_grad()
def max_expert_share(routing: Sequence[Routing]) -> Tensor:
    """Return the share of the tokens that the busiest expert receives, in the worst layer.

    k/E when balanced, 1 when one expert sees every token.
    """
    shares = [assignment_shares(layer).max() * layer.chosen_NK.shape[1] for layer in routing]
    return torch.stack(shares).max()


@torch.no_grad()
def capacity_utilization(routing: Sequence[Routing]) -> Tensor:
    """Return mean load / largest load of the experts, averaged over layers; 1.0 when balanced.

    A dropless layer has no capacity; this is the share that would be filled if every expert had
    room for the busiest one's tokens.
    """
    filled = [assignment_shares(layer) for layer in routing]
    return torch.stack([share.mean() / share.max().clamp_min(1e-12) for share in filled]).mean()


def _token_mean(values: Tensor, mask_N: Tensor | None) -> Tensor:
    """Return the mean over real tokens; zero, not NaN, when there are none."""
    if mask_N is None:
        return values.mean(0)
    weight = mask_N.to(values.dtype).view(-1, *[1] * (values.dim() - 1))
    # Selected before the product: padding may hold NaN, and 0·NaN is NaN.
    kept = torch.where(weight.bool(), values, torch.zeros((), dtype=values.dtype))
    return kept.sum(0) / mask_N.sum().clamp_min(1)
