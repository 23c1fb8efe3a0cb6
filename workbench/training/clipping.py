"""What a step does with the length of its gradient: how far it is shortened, or left out.

A norm is measured over all micro-batches, after the last backward pass and before the update.
Measuring a norm writes nothing, and a norm that is not finite never scales a gradient.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from workbench.moe.model import part_of
from workbench.training.config import OptimizerConfig

NORMS_KEPT = 100
"""Norms that the adaptive threshold is the mean of."""
ADAPTIVE_FACTOR = 1.5
"""Its threshold as a multiple of their mean."""


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """What one step's clipping measured and decided."""

    norm: float
    """Norm of all gradients together, before they were clipped."""
    threshold: float
    """The one in force in this step."""
    skipped: bool
    """The norm was not finite and the update is left out."""


class Clipper:
    """Clips a step's gradients as the configuration says; its state travels with the checkpoint.

    ``global``: all gradients together are scaled to at most ``clip_norm``.
    ``router_local``: the routers' gradients together to at most ``clip_norm``, and all others
    together to at most ``clip_norm``; a spike of the router does not shorten the others' update.
    ``adaptive``: as ``global`` with the threshold 1.5 × mean of the last 100 norms before this
    step's, taken before they were clipped. Until there are 100, ``clip_norm`` is in force. Norms
    that are not finite and steps without updates do not count.
    """

    def __init__(self, config: OptimizerConfig) -> None:
        self._config = config
        self._norms: deque[float] = deque(maxlen=NORMS_KEPT)
        self.num_skipped = 0
        """Updates left out since the run began."""
        self.num_skipped_in_a_row = 0

    def clip(self, model: nn.Module) -> Clipped:
        """Clip the gradients of the model's parameters in place and return what was measured."""
        threshold = self.threshold
        parts = [part for part in self._parts(model) if part]
        norms = [nn.utils.get_total_norm(_gradients(part)) for part in parts]
        norm = float(norms[0]) if len(norms) == 1 else math.hypot(*map(float, norms))
        if not math.isfinite(norm):
            return Clipped(norm=norm, threshold=threshold, skipped=self._skips())
        for part, part_norm in zip(parts, norms, strict=True):
            nn.utils.clip_grads_with_norm_(part, threshold, part_norm)
        self.num_skipped_in_a_row = 0
        if self._config.clip == "adaptive":
            self._norms.append(norm)
        return Clipped(norm=norm, threshold=threshold, skipped=False)

    @property
    def threshold(self) -> float:
        """The threshold that the next step is clipped to."""
        if self._config.clip != "adaptive" or len(self._norms) < NORMS_KEPT:
            return self._config.clip_norm
        # fsum is exact: the same norms give the same threshold in any process.
        return ADAPTIVE_FACTOR * math.fsum(self._norms) / NORMS_KEPT

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint; empty where there is nothing to remember."""
        if not self._norms and not self.num_skipped:
            return {}
        return {
            "norms": list(self._norms),
            "skipped": self.num_skipped,
            "skipped_in_a_row": self.num_skipped_in_a_row,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the values of `state`."""
        self._norms = deque(state.get("norms", ()), maxlen=NORMS_KEPT)
        self.num_skipped = state.get("skipped", 0)
        self.num_skipped_in_a_row = state.get("skipped_in_a_row", 0)

    def _parts(self, model: nn.Module) -> Sequence[list[nn.Parameter]]:
        """Return the parameters with a gradient, in the groups that are clipped together."""
        named = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
        if self._config.clip != "router_local":
            return [[parameter for _, parameter in named]]
        return [
            [parameter for name, parameter in named if part_of(name) == "router"],
            [parameter for name, parameter in named if part_of(name) != "router"],
        ]

    def _skips(self) -> bool:
        """Count a norm that is not finite; return whether the run goes on without the update."""
        config = self._config
        if config.nonfinite == "stop" or self.num_skipped_in_a_row >= config.max_skips:
            return False
        self.num_skipped += 1
        self.num_skipped_in_a_row += 1
        return True


def _gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
