"""RMSNorm by a compiled kernel, fp32."""

from typing import Any

import torch
from torch import Tensor

from workbench.moe.native.library import library

_STRETCH = 256
"""Rows whose part of the weight's gradient is summed apart; `norms.cpp` says the same."""


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return ``x / sqrt(mean(x²) + eps) · weight`` over the last dimension, fp32."""
    y: Tensor = _RMSNorm.apply(x.float(), weight, eps)  # type: ignore[no-untyped-call]
    return y


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, y = x.contiguous(), torch.empty(x.shape)
        ctx.eps = eps
        ctx.save_for_backward(x, weight)
        library().call("rms_norm", *_rows(x), eps, x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows, width = _rows(x)
        d_x, d_weight = torch.empty_like(x), torch.empty_like(weight)
        parts = torch.empty(rows // _STRETCH + 1, width)
        grad = grad.float().contiguous()
        library().call("rms_norm_back", rows, width, ctx.eps, x, weight, grad, d_x, parts, d_weight)
        return d_x, d_weight, None


def _rows(x: Tensor) -> tuple[int, int]:
    width = x.shape[-1]
    return x.numel() // width, width
