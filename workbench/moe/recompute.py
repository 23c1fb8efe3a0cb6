"""What a training pass computes a second time in its backward pass instead of keeping it.

Every policy gives the same bits as ``none``: the same operations run again on the same inputs.
Routing is part of what is recomputed, but what a pass returns is that of its first run, so that
nothing that counts tokens sees them twice.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)

from workbench.moe.config import RecomputePolicy

Result = TypeVar("Result")

_ATTENTION = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)
_PRODUCTS = (*_ATTENTION, "mm", "addmm", "bmm", "_grouped_mm")


def layer_result(
    policy: RecomputePolicy, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Return ``function(*arguments)`` of a whole layer.

    ``full`` keeps its arguments only. ``selective`` keeps the results of the matrix products and
    the attention, and recomputes what is cheap: norms, rotations, activations, routing, sorting.
    """
    if policy == "full":
        return _recomputed(function, arguments, kept=())
    if policy == "selective":
        return _recomputed(function, arguments, kept=_PRODUCTS)
    return function(*arguments)


def attention_result(
    policy: RecomputePolicy, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Return ``function(*arguments)`` of a layer's attention up to its output matrix.

    ``qkv`` recomputes queries, keys and values and keeps the mixed values; ``qkv_softmax``
    recomputes the attention itself too.
    """
    if policy == "qkv":
        return _recomputed(function, arguments, kept=_ATTENTION)
    if policy == "qkv_softmax":
        return _recomputed(function, arguments, kept=())
    return function(*arguments)


def _recomputed(
    function: Callable[..., Result], arguments: Sequence[Any], *, kept: Sequence[str]
) -> Result:
    if not torch.is_grad_enabled():
        return function(*arguments)
    result: Result = checkpoint(
        function,
        *arguments,
        use_reentrant=False,
        context_fn=(
            partial(create_selective_checkpoint_contexts, _operators(kept))
            if kept
            else noop_context_fn
        ),
        # No part of the model draws from the global generator.
        preserve_rng_state=False,
    )
    return result


def _operators(names: Sequence[str]) -> list[Any]:
    """Return the operators of these names that this version of torch has."""
    found = [getattr(torch.ops.aten, name, None) for name in names]
    found += [torch.ops.workbench.attention, torch.ops.workbench.experts]
    return [packet.default for packet in found if packet is not None]
