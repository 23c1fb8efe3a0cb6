"""Token-choice top-k routing in fp32.

Shape suffixes: N tokens, E experts, K experts a token, D model width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Routing:
    """What one layer's router decided for N tokens; everything the losses and telemetry need."""

    logits_NE: Tensor
    """fp32, also under autocast."""
    probs_NE: Tensor
    """Softmax of the logits over all experts, fp32."""
    chosen_NK: Tensor
    """int64, best first; of equal logits the lower index."""
    weights_NK: Tensor
    """fp32 factors of the chosen experts' outputs."""
    mask_N: Tensor | None = None
    """True for real tokens; None when all are. Padding is routed but never counted."""


class Router(nn.Module):
    """A linear map to expert logits, and the k best of them."""

    def __init__(self, d_model: int, num_experts: int, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.weight = nn.Parameter(torch.zeros(num_experts, d_model))

    def forward(self, x_ND: Tensor, mask_N: Tensor | None = None) -> Routing:
        """Route each token from fp32 logits.

        The weights of the chosen experts are their probabilities divided by their sum (Mixtral,
        section 2.1); with one expert a token the quotient would be 1 and the router without a
        gradient, so that there it is the probability itself (Switch Transformers, eq. 2).
        """
        with torch.autocast(x_ND.device.type, enabled=False):
            logits_NE = functional.linear(x_ND.float(), self.weight.float())
            return route(logits_NE, self.top_k, mask_N)


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


def top_choices(logits_NE: Tensor, top_k: int) -> Tensor:
    """Return the indices of the k largest logits, best first, the lower index at ties, [N, K].

    `torch.topk` promises no order at ties; a stable sort does.
    """
    order_NE = torch.sort(logits_NE, dim=-1, descending=True, stable=True).indices
    return order_NE[:, :top_k].contiguous()
