"""QK-Clip over a decoder's layers: what a step's logits were and what follows from them."""

from typing import cast

import torch
from torch import Tensor

from workbench.moe.attention_logits import LogitWatch, WatchedAttention
from workbench.moe.model import MoEDecoder


class QKClip:
    """Watches the attention logits of a step and scales the weights of heads above τ after it.

    γ = τ/S for a head whose largest logit S of the step exceeds τ, over all its micro-batches. It
    changes weights alone: the optimizer's state stays as it is. It remembers nothing between steps,
    so that a resumed run needs nothing of it.
    """

    def __init__(self, model: MoEDecoder, tau: float) -> None:
        self._tau = tau
        self._attentions = [cast(WatchedAttention, layer.attention) for layer in model.layers]
        self._watches = [LogitWatch() for _ in self._attentions]
        for attention, watch in zip(self._attentions, self._watches, strict=True):
            attention.watch = watch
        self.largest: float | None = None
        """The largest logit of any step so far in this attempt."""
        self.num_scaled = 0
        """How many times a head was scaled in this attempt."""

    def begin(self) -> None:
        """Forget the logits of the step before, and those of an evaluation since."""
        for watch in self._watches:
            watch.clear()

    def max_logit(self) -> float | None:
        """Return the largest logit of the step; None before a forward pass. Waits for the device.

        Like the other measures it may be NaN.
        """
        seen = [watch.largest_H for watch in self._watches if watch.largest_H is not None]
        if not seen:
            return None
        largest = float(torch.stack(seen).max())
        self.largest = largest if self.largest is None else max(self.largest, largest)
        return largest

    def scale(self) -> None:
        """Scale the heads that were above τ; to be called after the optimizer's step."""
        factors = [factors_of(watch.largest_H, self._tau) for watch in self._watches]
        for attention, factor_H in zip(self._attentions, factors, strict=True):
            if factor_H is not None:
                attention.scale_logits(factor_H)
        found = [factor_H for factor_H in factors if factor_H is not None]
        self.num_scaled += int(torch.stack(found).lt(1).sum()) if found else 0


def factors_of(largest_H: Tensor | None, tau: float) -> Tensor | None:
    """Return γ of each head: min(1, τ/S), and 1 where S is not finite; None for None."""
    if largest_H is None:
        return None
    above_H = (largest_H > tau) & largest_H.isfinite()
    return torch.where(above_H, tau / largest_H, torch.ones_like(largest_H))
