"""The router's auxiliary losses and health figures: fp32, padding left out.

Each takes the routing of all layers. f_i is expert i's share of the assignments (so that the
shares sum to 1 whatever k), P_i the mean of its probability over the tokens. Statistics span the
tokens of the given routing, one micro-batch, unless those of a whole batch are given
(`BalanceConfig.scope`).
Shape suffixes: L layers, N tokens, E experts, K experts a token, B sequences, T positions.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from workbench.moe.capacity import drops
from workbench.moe.choices import top_choices
from workbench.moe.router import Routing


def switch_loss(routing: Sequence[Routing], shares_LE: Tensor | None = None) -> Tensor:
    """Return E·Σ f_i·P_i averaged over layers, a scalar with gradient through P only.

    Fedus et al. 2021, eq. 4-6, with f over the top-k assignments divided by k
    (`BALANCE_DEFINITION`): 1.0 when balanced, E/k when k experts take everything with certainty.
    With a capacity, f counts what the tokens asked for.

    Args:
        routing: of one micro-batch.
        shares_LE: f of a whole batch. The loss is linear in P, so that the mean of the values of
            the micro-batches, weighted by their tokens, is then exactly the value over the whole
            batch, and so is its gradient.
    """
    losses = [
        layer.probs_NE.shape[1]
        * torch.dot(
            assignment_shares(layer) if shares_LE is None else shares_LE[number],
            mean_probabilities(layer),
        )
        for number, layer in enumerate(routing)
    ]
    return torch.stack(losses).mean()


def sequence_loss(routing: Sequence[Routing], num_sequences: int, top_k: int) -> Tensor:
    """Return E·Σ f_i·P_i of each sequence, their mean by their tokens, averaged over layers.

    DeepSeek-V3, eq. 17-20 (`SEQUENCE_DEFINITION`): f counts the k best scores of each token, before
    any bias or group. 1.0 when every sequence is balanced by itself. Gradient through P only.
    """
    return torch.stack([_sequence_loss(layer, num_sequences, top_k) for layer in routing]).mean()


def _sequence_loss(layer: Routing, num_sequences: int, top_k: int) -> Tensor:
    scale: float = layer.probs_NE.shape[1] / top_k
    probs_BTE: Tensor = layer.probs_NE.unflatten(0, (num_sequences, -1))
    best_NK = top_choices(layer.probs_NE.detach(), top_k)
    hits_NE = torch.zeros_like(layer.probs_NE).scatter(1, best_NK, 1.0)
    hits_BTE: Tensor = hits_NE.unflatten(0, (num_sequences, -1))
    if layer.mask_N is None:
        return (hits_BTE.mean(1) * probs_BTE.mean(1)).sum(1).mean() * scale
    real_BT1 = layer.mask_N.view(num_sequences, -1, 1)
    # Selected, not multiplied: padding may hold NaN.
    hit_BE = torch.where(real_BT1, hits_BTE, 0.0).sum(1)
    mass_BE = torch.where(real_BT1, probs_BTE, 0.0).sum(1)
    tokens_B = real_BT1.sum((1, 2)).clamp_min(1)
    # f·P of a sequence times its tokens leaves one division by them.
    summed = (hit_BE * mass_BE).sum(1).div(tokens_B).sum()
    return summed / layer.mask_N.sum().clamp_min(1) * scale


def stability_loss(
    routing: Sequence[Routing], average_LE: Tensor, marginal_LE: Tensor | None = None
) -> Tensor:
    """Return KL(P ‖ Q) in nats, averaged over layers; gradient through P only.

    `STABILITY_DEFINITION`; 0 when the experts are used as they were.

    Args:
        routing: of one micro-batch.
        average_LE: Q, the moving average of the marginals of the steps before; positive.
        marginal_LE: P of a whole batch. The mean over micro-batches, weighted by their tokens, then
            has the value and the gradient of the whole batch's divergence.
    """
    losses = []
    for number, layer in enumerate(routing):
        own_E = mean_probabilities(layer)
        whole_E = own_E if marginal_LE is None else marginal_LE[number]
        ratio_E = whole_E.detach().clamp_min(_SMALLEST) / average_LE[number].clamp_min(_SMALLEST)
        # The gradient of P·ln(P/Q) is ln(P/Q) + 1, and the ones cancel: P keeps its sum.
        losses.append(torch.dot(own_E, ratio_E.log()))
    return torch.stack(losses).mean()


_SMALLEST = 1e-12
"""Probability of an expert that is never used: the logarithm stays finite."""


def z_loss(routing: Sequence[Routing]) -> Tensor:
    """Return mean(logsumexp(router logits)²) averaged over layers (ST-MoE, eq. 5)."""
    losses = [_token_mean(torch.logsumexp(r.logits_NE, -1).square(), r.mask_N) for r in routing]
    return torch.stack(losses).mean()


def assignment_shares(layer: Routing) -> Tensor:
    """Return f: each expert's share of the assignments of real tokens, [E], sum 1.

    Counted in integers: a float sum of many ones is not exact in low precision.
    """
    chosen_NK = layer.chosen_NK if layer.mask_N is None else layer.chosen_NK[layer.mask_N]
    num_experts = layer.probs_NE.shape[1]
    # One more than there are experts: places that hold none.
    count_E = torch.bincount(chosen_NK.flatten(), minlength=num_experts + 1)[:num_experts]
    if layer.probs_NE.shape[1] == chosen_NK.shape[1]:
        return count_E.float() / count_E.sum().clamp_min(1)
    return count_E.float() / max(chosen_NK.numel(), 1)


def mean_probabilities(layer: Routing) -> Tensor:
    """Return P: the mean over real tokens of the router's probabilities, [E], sum 1."""
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
    shares = [assignment_shares(layer).max() * _experts_a_token(layer) for layer in routing]
    return torch.stack(shares).max()


def _experts_a_token(layer: Routing) -> Tensor | int:
    if layer.chosen_NK.shape[1] < layer.probs_NE.shape[1]:
        return layer.chosen_NK.shape[1]
    # Of an expert choice, the mean: here all places but the empty ones count.
    held_NK = layer.chosen_NK < layer.probs_NE.shape[1]
    if layer.mask_N is None:
        return held_NK.sum() / len(held_NK)
    return held_NK[layer.mask_N].sum() / layer.mask_N.sum().clamp_min(1)


@torch.no_grad()
def capacity_utilization(routing: Sequence[Routing]) -> Tensor:
    """Return the share of the experts' places that are filled, averaged over layers.

    A dropless layer has no capacity; there it is mean load / largest load, the share that would be
    filled if every expert had room for the busiest one's tokens: 1.0 when balanced.
    """
    return torch.stack([_utilization(layer) for layer in routing]).mean()


def _utilization(layer: Routing) -> Tensor:
    if layer.slots is not None:
        return layer.slots.filled_S.float().mean()
    share_E = assignment_shares(layer)
    return share_E.mean() / share_E.max().clamp_min(1e-12)


@torch.no_grad()
def dropped_share(routing: Sequence[Routing]) -> Tensor:
    """Return the share of the real tokens' assignments that found no place, over all layers."""
    if all(layer.slots is None for layer in routing):
        return torch.zeros((), device=routing[0].probs_NE.device)
    told = [drops(r.chosen_NK, r.probs_NE.shape[1], r.mask_N, r.slots) for r in routing]
    asked = torch.stack([layer.asked for layer in told]).sum()
    return torch.stack([layer.real for layer in told]).sum() / asked.clamp_min(1)


def _token_mean(values: Tensor, mask_N: Tensor | None) -> Tensor:
    """Return the mean over real tokens; zero, not NaN, when there are none."""
    if mask_N is None:
        return values.mean(0)
    weight = mask_N.to(values.dtype).view(-1, *[1] * (values.dim() - 1))
    # Selected before the product: padding may hold NaN, and 0·NaN is NaN.
    kept = torch.where(weight.bool(), values, torch.zeros((), dtype=values.dtype))
    return kept.sum(0) / mask_N.sum().clamp_min(1)
