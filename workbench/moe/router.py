"""Which experts a token goes to, decided in fp32.

Shape suffixes: N tokens, E experts, K experts a token, D model width.
"""

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.capacity import Slots, even_share, slots_by_expert, slots_within
from workbench.moe.choices import best_tokens, grouped_choices, top_choices
from workbench.moe.config import RoutingConfig


@dataclass(frozen=True, kw_only=True)
class Routing:
    """What one layer's router decided for N tokens; everything the losses and telemetry need."""

    logits_NE: Tensor
    """fp32, also under autocast."""
    probs_NE: Tensor
    """fp32, rows sum to 1: softmax of the logits over all experts, or sigmoid scores over their
    sum (DeepSeek-V3, eq. 19)."""
    chosen_NK: Tensor
    """int64, best first; of equal logits the lower index. E where a place holds no expert, which
    only expert choice leaves."""
    weights_NK: Tensor
    """fp32 factors of the chosen experts' outputs."""
    mask_N: Tensor | None = None
    """True for real tokens; None when all are. Padding is routed but never counted."""
    slots: Slots | None = None
    """Who got a place, where an expert has only so many; None is dropless."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A training pass: noise and drops belong to training and not to inference.

    The noise is a function of these numbers and the layer: a pass that is done again, by
    recomputation or after a resume, draws the same.
    """

    seed: int
    step: int
    part: int
    """Number of the micro-batch in its step, over all ranks."""


class Router(nn.Module):
    """A linear map to expert logits, and the rule that chooses by them."""

    bias_E: Tensor | None
    """Added to the scores for the choice alone; moved by `workbench.moe.load`."""
    choosing_ED: Tensor | None
    """The matrix that chooses, as it was at the last refresh."""

    def __init__(
        self,
        d_model: int,
        num_experts: int,
        top_k: int,
        config: RoutingConfig | None = None,
        layer: int = 0,
    ) -> None:
        super().__init__()
        self.top_k = top_k
        self.layer = layer
        self.config = RoutingConfig() if config is None else config
        self.inference = self.config.inference
        self.weight = nn.Parameter(torch.zeros(num_experts, d_model))
        self.register_buffer("bias_E", torch.zeros(num_experts) if self.config.bias else None)
        held = self.config.refresh_every > 1
        self.register_buffer("choosing_ED", torch.zeros(num_experts, d_model) if held else None)

    def forward(
        self, x_ND: Tensor, mask_N: Tensor | None = None, turn: Turn | None = None
    ) -> Routing:
        """Route each token from fp32 logits.

        The weights of the chosen experts are their probabilities divided by their sum (Mixtral,
        section 2.1); with one expert a token the quotient would be 1 and the router without a
        gradient, so that there it is the probability itself (Switch Transformers, eq. 2). Sigmoid
        scores likewise (DeepSeek-V3, eq. 13), without the bias.

        Args:
            x_ND: the sub-layer's input.
            mask_N: True for real tokens.
            turn: of a training pass; None routes as in inference.
        """
        with torch.autocast(x_ND.device.type, enabled=False):
            logits_NE = functional.linear(x_ND.float(), self.weight.float())
            if self.config == RoutingConfig():
                return route(logits_NE, self.top_k, mask_N)
            if self.config.kind == "expert_choice":
                return route_by_expert(
                    logits_NE, self.top_k, mask_N, self.config.capacity_factor or 1.0
                )
            if self.config.kind == "gumbel":
                routing = self._gumbel(logits_NE, mask_N, turn)
            else:
                by_NE = None
                if self.choosing_ED is not None:
                    by_NE = functional.linear(x_ND.detach().float(), self.choosing_ED)
                routing = route_scored(
                    logits_NE, self.top_k, mask_N, self.config, self.bias_E, by_NE
                )
            return self._within_capacity(routing, turn)

    def _gumbel(self, logits_NE: Tensor, mask_N: Tensor | None, turn: Turn | None) -> Routing:
        if turn is not None:
            noise_NE = gumbel_noise(turn, self.layer, logits_NE)
            temperature = self.config.temperature
            return route_straight_through(logits_NE, noise_NE, self.top_k, mask_N, temperature)
        if self.inference == "soft":
            return route_softly(logits_NE, mask_N)
        return route_alike(logits_NE, self.top_k, mask_N)

    def _within_capacity(self, routing: Routing, turn: Turn | None) -> Routing:
        factor = self.config.capacity_factor
        if turn is None or factor is None:
            return routing
        num_tokens, num_experts = routing.probs_NE.shape
        capacity = even_share(num_tokens, self.top_k, num_experts, factor)
        return within_capacity(routing, capacity, by_weight=self.config.drop == "weight")

    @torch.no_grad()
    def refresh(self) -> None:
        """Let the matrix of now choose until the next refresh."""
        if self.choosing_ED is not None:
            self.choosing_ED.copy_(self.weight)


def route(logits_NE: Tensor, top_k: int, mask_N: Tensor | None = None) -> Routing:
    """Return the routing that fp32 logits decide; see `Router.forward` for the weights."""
    assert logits_NE.dtype == torch.float32, logits_NE.dtype  # noqa: S101 shape check
    probs_NE = torch.softmax(logits_NE, dim=-1)
    chosen_NK = top_choices(logits_NE.detach(), top_k)
    weights_NK = probs_NE.gather(1, chosen_NK)
    if top_k > 1:
        weights_NK = weights_NK / weights_NK.sum(1, keepdim=True)
    return Routing(
        logits_NE=logits_NE,
        probs_NE=probs_NE,
        chosen_NK=chosen_NK,
        weights_NK=weights_NK,
        mask_N=mask_N,
    )


def route_scored(
    logits_NE: Tensor,
    top_k: int,
    mask_N: Tensor | None,
    config: RoutingConfig,
    bias_E: Tensor | None = None,
    by_NE: Tensor | None = None,
) -> Routing:
    """Return token-choice routing by the scores, groups, bias and scale of the configuration.

    Args:
        logits_NE: fp32; the weights come from them, without the bias.
        top_k: experts a token.
        mask_N: True for real tokens.
        config: of kind ``token_choice``.
        bias_E: added to the scores for the choice alone.
        by_NE: logits to choose by; None is ``logits_NE``.
    """
    assert logits_NE.dtype == torch.float32, logits_NE.dtype  # noqa: S101 shape check
    scores_NE = _scores(logits_NE, config)
    by_NE = (logits_NE if by_NE is None else by_NE).detach()
    if bias_E is None and config.groups == config.top_groups:
        # Scores rise with their logits, which hold differences that a saturated score has lost.
        chosen_NK = top_choices(by_NE, top_k)
    else:
        by_NE = _scores(by_NE, config)
        by_NE = by_NE if bias_E is None else by_NE + bias_E
        chosen_NK = grouped_choices(by_NE, top_k, config.groups, config.top_groups)
    weights_NK = scores_NE.gather(1, chosen_NK)
    if top_k > 1:
        weights_NK = weights_NK / weights_NK.sum(1, keepdim=True).clamp_min(_SMALLEST_SUM)
    probs_NE = scores_NE
    if config.scores == "sigmoid":
        probs_NE = scores_NE / scores_NE.sum(1, keepdim=True).clamp_min(_SMALLEST_SUM)
    return Routing(
        logits_NE=logits_NE,
        probs_NE=probs_NE,
        chosen_NK=chosen_NK,
        weights_NK=weights_NK * config.scale,
        mask_N=mask_N,
    )


_SMALLEST_SUM = 1e-20
"""Of sigmoid scores: all of them can be so small that their sum is 0."""


def _scores(logits_NE: Tensor, config: RoutingConfig) -> Tensor:
    if config.scores == "sigmoid":
        return torch.sigmoid(logits_NE)
    return torch.softmax(logits_NE, dim=-1)


def route_by_expert(
    logits_NE: Tensor, top_k: int, mask_N: Tensor | None, capacity_factor: float
) -> Routing:
    """Return the routing where each expert takes its best tokens (Zhou et al. 2022, section 3.2).

    Each takes ``capacity_factor`` times its even share N·k/E, by the softmax over experts, which
    is the weight as well; of equal scores the earlier token; never padding. A token can end up with
    none of the experts or all of them.
    """
    assert logits_NE.dtype == torch.float32, logits_NE.dtype  # noqa: S101 shape check
    num_tokens, num_experts = logits_NE.shape
    probs_NE = torch.softmax(logits_NE, dim=-1)
    capacity = even_share(num_tokens, top_k, num_experts, capacity_factor)
    taken_NE = best_tokens(probs_NE.detach(), capacity, mask_N)
    every_E = torch.arange(num_experts, device=logits_NE.device)
    chosen_NE = torch.where(taken_NE, every_E, num_experts)
    return Routing(
        logits_NE=logits_NE,
        probs_NE=probs_NE,
        chosen_NK=chosen_NE,
        weights_NK=torch.where(taken_NE, probs_NE, 0.0),
        mask_N=mask_N,
        slots=slots_by_expert(chosen_NE, num_experts, capacity),
    )


def route_straight_through(
    logits_NE: Tensor, noise_NE: Tensor, top_k: int, mask_N: Tensor | None, temperature: float
) -> Routing:
    """Return the k best of the noisy logits, mixed alike, with the gradient of their softmax.

    The weights are 1/k in value and have the gradient of softmax((logits + noise) / temperature)
    (Jang et al. 2017, section 2.2). Experts that were not chosen do not run: their weights, which
    are 0, pass no gradient on.
    """
    noisy_NE = logits_NE + noise_NE
    chosen_NK = top_choices(noisy_NE.detach(), top_k)
    soft_NK = torch.softmax(noisy_NE / temperature, dim=-1).gather(1, chosen_NK)
    return Routing(
        logits_NE=logits_NE,
        probs_NE=torch.softmax(logits_NE, dim=-1),
        chosen_NK=chosen_NK,
        weights_NK=1 / top_k + (soft_NK - soft_NK.detach()),
        mask_N=mask_N,
    )


def route_alike(logits_NE: Tensor, top_k: int, mask_N: Tensor | None) -> Routing:
    """Return the k best experts of each token, mixed alike."""
    routing = route(logits_NE, top_k, mask_N)
    return replace(routing, weights_NK=torch.full_like(routing.weights_NK, 1 / top_k))


def route_softly(logits_NE: Tensor, mask_N: Tensor | None) -> Routing:
    """Return every expert for every token, mixed by the softmax of the logits."""
    num_experts = logits_NE.shape[1]
    routing = route(logits_NE, num_experts, mask_N)
    return replace(routing, weights_NK=routing.probs_NE.gather(1, routing.chosen_NK))


def within_capacity(routing: Routing, capacity: int, *, by_weight: bool) -> Routing:
    """Return the routing with at most so many real tokens an expert; others lose that expert.

    The weights of what a token keeps stay as they are. Of equal weights the earlier token stays.
    """
    num_tokens, num_experts = routing.probs_NE.shape
    slots = slots_within(
        routing.chosen_NK,
        num_experts,
        min(capacity, num_tokens),
        mask_N=routing.mask_N,
        weights_NK=routing.weights_NK.detach() if by_weight else None,
    )
    return replace(routing, slots=slots)


def gumbel_noise(turn: Turn, layer: int, like_NE: Tensor) -> Tensor:
    """Return -ln(-ln u) for uniform u, a function of turn, layer and shape alone.

    Drawn on the CPU: the same bits whatever the device.
    """
    text = f"gumbel/v1|{turn.seed}|{turn.step}|{turn.part}|{layer}"
    digest = hashlib.sha256(text.encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    exponential_NE = torch.empty(like_NE.shape).exponential_(generator=generator)
    # u = exp(-x) for an exponential x: the same distribution without a logarithm of 0.
    return -exponential_NE.log().to(like_NE.device)
