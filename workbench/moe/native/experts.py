"""Experts by compiled kernels: products in bf16, everything between them in fp32.

Shape suffixes as in `workbench.moe.experts`; A kept assignments in order of their expert.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.moe.native.library import library

_BLOCK = 64
"""Rows of one product; `tiles.h` says the same."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where each kept assignment stands."""

    order_A: Tensor
    """Assignment (token·K + choice) at each place; equal experts keep token order."""
    place_M: Tensor
    """Place of each assignment, -1 where it has none."""
    ends_E: Tensor
    """Where each expert's rows end."""


def plan(chosen_NK: Tensor, num_experts: int, keep_M: Tensor | None) -> Plan:
    """Return the stable order by expert of the assignments that are kept, and of some expert."""
    chosen_M = chosen_NK.flatten()
    order_M, place_M = torch.empty_like(chosen_M), torch.empty_like(chosen_M)
    ends_E = torch.empty(num_experts, dtype=torch.int64)
    count = library().plan(chosen_M, keep_M, (order_M, place_M, ends_E))
    return Plan(order_A=order_M[:count], place_M=place_M, ends_E=ends_E)


def mixed_experts(
    x_ND: Tensor, weights_NK: Tensor, plan: Plan, gate: Tensor, up: Tensor, down: Tensor
) -> Tensor:
    """Return the weighted sum of the chosen experts' outputs, [N, D], fp32.

    The weight of a choice is applied to the hidden row, before it is rounded for the last product.
    """
    if gate.shape[1] % 2 or gate.shape[2] % 2:
        raise ValueError(f"odd width of an expert: {tuple(gate.shape)}")
    mixed_ND: Tensor = _Experts.apply(  # type: ignore[no-untyped-call]
        x_ND.float(), weights_NK.float(), plan, gate, up, down
    )
    return mixed_ND


class _Experts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        weights_NK: Tensor,
        plan: Plan,
        gate: Tensor,
        up: Tensor,
        down: Tensor,
    ) -> Tensor:
        inputs = [each.contiguous() for each in (x_ND, weights_NK, gate, up, down)]
        mixed_ND: Tensor
        mixed_ND, gate_AF, up_AF = _forward(*inputs, plan.order_A, plan.place_M, plan.ends_E)
        ctx.plan = plan
        ctx.save_for_backward(*inputs, gate_AF, up_AF)
        return mixed_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, weights_NK, gate, up, down, gate_AF, up_AF = ctx.saved_tensors
        plan: Plan = ctx.plan
        num_experts, inner, width = gate.shape
        num_blocks = len(gate_AF) // _BLOCK + num_experts
        matrices = [torch.empty_like(each) for each in (gate, up, down)]
        d_x, d_weights = torch.empty_like(x_ND), torch.empty_like(weights_NK)
        library().call(
            "experts_backward",
            *_shape(x_ND, weights_NK, gate),
            *(plan.order_A, plan.place_M, plan.ends_E, x_ND, weights_NK, gate, up, down),
            *(gate_AF, up_AF, grad_ND.float().contiguous(), d_x, d_weights, *matrices),
            torch.empty(len(gate_AF), width),
            torch.empty(3 * gate.numel() // 2, dtype=torch.int32),
            *(torch.empty(num_blocks * _BLOCK // 2 * inner, dtype=torch.int32) for _ in range(3)),
            *(torch.empty(num_blocks * _BLOCK * width, dtype=torch.int16) for _ in range(2)),
        )
        return d_x, d_weights, None, *matrices


def _shape(x_ND: Tensor, weights_NK: Tensor, gate: Tensor) -> tuple[int, ...]:
    num_experts, inner, width = gate.shape
    return len(x_ND), weights_NK.shape[1], num_experts, width, inner


@torch.library.custom_op("workbench::experts", mutates_args=(), device_types="cpu")
def _forward(
    x_ND: Tensor,
    weights_NK: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    order_A: Tensor,
    place_M: Tensor,
    ends_E: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    # An operator of torch's own kind, so that a recompute policy can name what it keeps.
    gate_AF = torch.empty(len(order_A), gate.shape[1], dtype=torch.bfloat16)
    up_AF, mixed_ND = torch.empty_like(gate_AF), torch.empty_like(x_ND)
    library().call(
        "experts_forward",
        *_shape(x_ND, weights_NK, gate),
        *(order_A, place_M, ends_E, x_ND, weights_NK, gate, up, down, mixed_ND, gate_AF, up_AF),
        torch.empty(len(order_A), x_ND.shape[1]),
        torch.empty(3 * gate.numel() // 2, dtype=torch.int32),
    )
    return mixed_ND, gate_AF, up_AF
