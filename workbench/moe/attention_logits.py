"""How large attention logits were, head by head, and what brings too large ones down.

QK-Clip, Kimi K2, section 2.1: a head whose largest logit S exceeds τ has its logits scaled by
γ = τ/S after the step, in its weights; the others are left alone. The fused attention does not
tell its logits, so that watching them computes the products of queries and keys once more.

Shape suffixes: B sequences, T positions, H query heads, G key/value heads, C head width, D model
width.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from workbench.moe.documents import Documents


class WatchedAttention(Protocol):
    """An attention whose logits can be watched and scaled, whatever its weights are."""

    watch: "LogitWatch | None"

    def scale_logits(self, factor_H: Tensor) -> None:
        """Scale the logits of each head by its factor, in the weights."""


class LogitWatch:
    """Keeps the largest logit of each head over the forward passes since it was cleared.

    A logit is the product of a query and a key that it sees, divided by √C. Seeing a pass twice, as
    recomputation does, changes nothing.
    """

    def __init__(self) -> None:
        self.largest_H: Tensor | None = None
        """fp32; None before the first pass."""

    def clear(self) -> None:
        """Forget what was seen."""
        self.largest_H = None

    @torch.no_grad()
    def observe(self, q_BTHC: Tensor, k_BTGC: Tensor, documents: Documents | None) -> None:
        """Take the queries and keys of a pass, as they are multiplied: normed and rotated.

        Args:
            q_BTHC: the queries.
            k_BTGC: the keys; query head h reads key head h // (H / G).
            documents: attention stays within each; None is causal.
        """
        visible_B1TT = None if documents is None else documents.visible_B1TT
        largest_H = largest_logits(q_BTHC, k_BTGC, visible_B1TT)
        # The first pass compares too: recomputation refuses an operator that it did not see then.
        before_H = torch.full_like(largest_H, -torch.inf)
        if self.largest_H is not None:
            before_H = self.largest_H
        self.largest_H = torch.maximum(largest_H, before_H)


def largest_logits(q_BTHC: Tensor, k_BTGC: Tensor, visible_B1TT: Tensor | None) -> Tensor:
    """Return the largest visible logit of each head, [H], fp32; one sequence a time."""
    length, num_heads, width = q_BTHC.shape[1:]
    group = num_heads // k_BTGC.shape[2]
    causal_TT = torch.ones(length, length, dtype=torch.bool, device=q_BTHC.device).tril()
    found = []
    with torch.autocast(q_BTHC.device.type, enabled=False):
        for index, (q_THC, k_TGC) in enumerate(zip(q_BTHC, k_BTGC, strict=True)):
            q_HTC = q_THC.float().transpose(0, 1)
            k_HTC = k_TGC.float().transpose(0, 1).repeat_interleave(group, dim=0)
            visible_TT = causal_TT if visible_B1TT is None else visible_B1TT[index, 0]
            logits_HTT = (q_HTC @ k_HTC.mT) * width**-0.5
            found.append(logits_HTT.masked_fill(~visible_TT, -torch.inf).amax((1, 2)))
    return torch.stack(found).amax(0)


@torch.no_grad()
def scale_logits(query: nn.Parameter, key: nn.Parameter, factor_H: Tensor, num_kv: int) -> None:
    """Scale the logits of each head by its factor, in the weights of queries and keys.

    Where every query head has a key head of its own, both weights take √γ. Where query heads share
    one, the guilty head's query takes all of γ and the key is left alone: scaling it would change
    the logits of heads that did nothing. A factor of 1 leaves a head's weights as they are, to the
    last bit.

    Args:
        query: [H·C, D].
        key: [G·C, D].
        factor_H: γ, above 0 and at most 1.
        num_kv: G.
    """
    num_heads = len(factor_H)
    own_key = num_kv == num_heads
    each_H11 = (factor_H.sqrt() if own_key else factor_H)[:, None, None]
    query.copy_((query.unflatten(0, (num_heads, -1)) * each_H11).flatten(0, 1))
    if own_key:
        key.copy_((key.unflatten(0, (num_heads, -1)) * each_H11).flatten(0, 1))
