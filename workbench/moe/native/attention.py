"""Causal attention, and queries and keys made ready for it, by compiled kernels.

Shape suffixes as in `workbench.moe.attention`; V width of a head's values.
"""

from typing import Any

import torch
from torch import Tensor

from workbench.moe.native.library import library


def mixed_values(
    q_BTHC: Tensor, k_BTGC: Tensor, v_BTGV: Tensor, segments_BT: Tensor | None
) -> Tensor:
    """Return softmax(q·k/√C)·v of each head over what a position sees, [B, T, H·V], bf16.

    A position sees itself and those before it, within its own segment where they are given. Scores
    and softmax are fp32; a block of positions that is not seen costs nothing.
    """
    if q_BTHC.shape[3] % 2 or v_BTGV.shape[3] % 2:
        raise ValueError(f"odd width of a head: {q_BTHC.shape[3]}, values {v_BTGV.shape[3]}")
    rounded = (each.to(torch.bfloat16) for each in (q_BTHC, k_BTGC, v_BTGV))
    mixed_BTHV: Tensor = _Attention.apply(*rounded, segments_BT)  # type: ignore[no-untyped-call]
    return mixed_BTHV.flatten(2)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_BTHC: Tensor, k_BTGC: Tensor, v_BTGV: Tensor, segments_BT: Tensor | None
    ) -> Tensor:
        inputs = [each.contiguous() for each in (q_BTHC, k_BTGC, v_BTGV)]
        segments_BT = None if segments_BT is None else segments_BT.long().contiguous()
        mixed_BTHV: Tensor
        mixed_BTHV, log_sum_BHT = _forward(*inputs, segments_BT)
        ctx.segments_BT = segments_BT
        ctx.save_for_backward(*inputs, mixed_BTHV, log_sum_BHT)
        return mixed_BTHV

    @staticmethod
    def backward(ctx: Any, grad_BTHV: Tensor) -> tuple[Tensor | None, ...]:
        q_BTHC, k_BTGC, v_BTGV, mixed_BTHV, log_sum_BHT = ctx.saved_tensors
        gradients = [torch.empty_like(each) for each in (q_BTHC, k_BTGC, v_BTGV)]
        library().call(
            "attention_backward",
            *_shape(q_BTHC, v_BTGV),
            *(ctx.segments_BT, q_BTHC, k_BTGC, v_BTGV, mixed_BTHV, log_sum_BHT),
            grad_BTHV.to(torch.bfloat16).contiguous(),
            *gradients,
        )
        return *gradients, None


def _shape(q_BTHC: Tensor, v_BTGV: Tensor) -> tuple[int | float, ...]:
    sequences, length, num_heads, width = q_BTHC.shape
    return sequences, length, num_heads, v_BTGV.shape[2], width, v_BTGV.shape[3], width**-0.5


@torch.library.custom_op("workbench::attention", mutates_args=(), device_types="cpu")
def _forward(
    q_BTHC: Tensor, k_BTGC: Tensor, v_BTGV: Tensor, segments_BT: Tensor | None
) -> tuple[Tensor, Tensor]:
    # An operator of torch's own kind, so that a recompute policy can name what it keeps.
    mixed_BTHV = torch.empty(*q_BTHC.shape[:3], v_BTGV.shape[3], dtype=torch.bfloat16)
    log_sum_BHT = torch.empty(q_BTHC.shape[0], q_BTHC.shape[2], q_BTHC.shape[1])
    tensors = (segments_BT, q_BTHC, k_BTGC, v_BTGV, mixed_BTHV, log_sum_BHT)
    library().call("attention_forward", *_shape(q_BTHC, v_BTGV), *tensors)
    return mixed_BTHV, log_sum_BHT


def rotated(
    x_BTHC: Tensor, norm: Tensor | None, cos_TC: Tensor, sin_TC: Tensor, eps: float
) -> Tensor:
    """Return each head's RMSNorm, where it has one, then its rotary embedding, bf16.

    Args:
        x_BTHC: queries or keys as their matrix gave them.
        norm: weight of the norm, [C]; None leaves it out.
        cos_TC: of each position's angle, fp32, the two halves of a head alike.
        sin_TC: the same.
        eps: of the norm.
    """
    result: Tensor = _Rotated.apply(x_BTHC.to(torch.bfloat16), norm, cos_TC, sin_TC, eps)  # type: ignore[no-untyped-call]
    return result


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_BTHC: Tensor, norm: Tensor | None, cos_TC: Tensor, sin_TC: Tensor, eps: float
    ) -> Tensor:
        x_BTHC, y_BTHC = x_BTHC.contiguous(), torch.empty(x_BTHC.shape, dtype=torch.bfloat16)
        ctx.tables, ctx.eps = (cos_TC, sin_TC), eps
        library().call("rotate", *_positions(x_BTHC), eps, norm, cos_TC, sin_TC, x_BTHC, y_BTHC)
        ctx.save_for_backward(x_BTHC if norm is not None else None, norm)
        return y_BTHC

    @staticmethod
    def backward(ctx: Any, grad_BTHC: Tensor) -> tuple[Tensor | None, ...]:
        x_BTHC, norm = ctx.saved_tensors
        grad_BTHC = grad_BTHC.contiguous()
        d_x = torch.empty_like(grad_BTHC)
        d_norm = parts = None
        if norm is not None:
            d_norm = torch.empty_like(norm)
            parts = torch.empty(d_x.shape[0] * d_x.shape[1], len(norm))
        library().call(
            "rotate_back",
            *_positions(grad_BTHC),
            *(ctx.eps, norm, *ctx.tables, x_BTHC, grad_BTHC, d_x, parts, d_norm),
        )
        return d_x, d_norm, None, None, None


def _positions(x_BTHC: Tensor) -> tuple[int, ...]:
    sequences, length, num_heads, width = x_BTHC.shape
    return sequences * length, length, num_heads, width
