"""SwiGLU experts: one contiguous tensor a projection, run as grouped matrix products.

Shape suffixes: N tokens, K experts a token, E experts, M = N·K assignments, D model width,
F expert width, I and O the input and output widths of one projection. With a capacity, the sorted
places are those of `workbench.moe.capacity`, some of them empty: as many rows as places.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.capacity import Slots
from workbench.moe.native import library
from workbench.moe.native.experts import mixed_experts, plan
from workbench.moe.router import Routing


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """Where each assignment goes once assignments stand in order of their expert."""

    order_M: Tensor
    """Assignment (token·K + choice) at each sorted place; equal experts keep token order."""
    place_M: Tensor
    """Inverse of ``order_M``: the sorted place of each assignment."""
    ends_E: Tensor
    """int32; where each expert's rows end. An expert that no token chose has no rows."""
    top_k: int
    filled_S: Tensor | None = None
    """Where it is given, some places hold no assignment: rows of zeros."""
    has_place_M: Tensor | None = None
    """Where it is given, some assignments have no place: they add nothing."""


def dispatch(chosen_NK: Tensor, num_experts: int, block: int = 1) -> Dispatch:
    """Return the stable order of the assignments by expert.

    Args:
        chosen_NK: experts of each token.
        num_experts: E.
        block: each expert's rows are filled up to a multiple of it. The CPU's products make new
            code for each new number of rows, milliseconds each; multiples come back.
    """
    flat_M = chosen_NK.reshape(-1)
    order_M = torch.argsort(flat_M, stable=True)
    place_M = torch.empty_like(order_M)
    place_M[order_M] = torch.arange(order_M.numel(), device=order_M.device)
    count_E = torch.bincount(flat_M, minlength=num_experts)
    top_k = chosen_NK.shape[1]
    if block == 1:
        ends_E = count_E.cumsum(0).to(torch.int32)
        return Dispatch(order_M=order_M, place_M=place_M, ends_E=ends_E, top_k=top_k)
    wide_E = (count_E + block - 1).div(block, rounding_mode="floor") * block
    begin_E = wide_E.cumsum(0) - wide_E
    shift_E = begin_E - (count_E.cumsum(0) - count_E)
    place_M = place_M + shift_E[flat_M]
    order_S = torch.zeros(int(wide_E.sum()), dtype=torch.int64, device=flat_M.device)
    order_S[place_M] = torch.arange(len(place_M), device=flat_M.device)
    filled_S = torch.zeros_like(order_S, dtype=torch.bool)
    filled_S[place_M] = True
    return Dispatch(
        order_M=order_S,
        place_M=place_M,
        ends_E=wide_E.cumsum(0).to(torch.int32),
        top_k=top_k,
        filled_S=filled_S,
    )


def dispatch_within(slots: Slots, num_experts: int, top_k: int) -> Dispatch:
    """Return the same number of places for every expert, the empty ones as rows of zeros."""
    ends_E = torch.arange(1, num_experts + 1, dtype=torch.int32, device=slots.place_M.device)
    return Dispatch(
        order_M=slots.assignment_S,
        place_M=slots.place_M,
        ends_E=ends_E * slots.capacity,
        top_k=top_k,
        filled_S=slots.filled_S,
        has_place_M=slots.has_place_M,
    )


class Experts(nn.Module):
    """E SwiGLU networks ``down(silu(gate(x)) · up(x))``; only the chosen ones run."""

    def __init__(self, num_experts: int, d_model: int, d_expert: int) -> None:
        super().__init__()
        self.num_experts = num_experts
        self.gate = nn.Parameter(torch.zeros(num_experts, d_expert, d_model))
        self.up = nn.Parameter(torch.zeros(num_experts, d_expert, d_model))
        self.down = nn.Parameter(torch.zeros(num_experts, d_model, d_expert))
        self.product = grouped_linear
        """Of a training pass; an evaluation's is always `grouped_linear`."""
        self.compiled = False
        """Whether a pass in bf16 on a CPU takes the compiled kernels."""

    def forward(self, x_ND: Tensor, routing: Routing) -> Tensor:
        """Return the weighted sum of the chosen experts' outputs, [N, D].

        Without slots no token is dropped; with them, an expert without a place for a token adds
        nothing to it.
        """
        slots, top_k = routing.slots, routing.chosen_NK.shape[1]
        if self.compiled and self.product is grouped_linear and library.applies(x_ND):
            kept_M = None if slots is None else slots.has_place_M
            rows = plan(routing.chosen_NK, self.num_experts, kept_M)
            return mixed_experts(x_ND, routing.weights_NK, rows, self.gate, self.up, self.down)
        places = (
            dispatch(routing.chosen_NK, self.num_experts, _block_of(x_ND))
            if slots is None
            else dispatch_within(slots, self.num_experts, top_k)
        )
        x_MD = _gather(x_ND, places)
        product = self.product if self.training else grouped_linear
        gate_MF = product(x_MD, self.gate, places.ends_E)
        up_MF = product(x_MD, self.up, places.ends_E)
        y_MD = product(functional.silu(gate_MF) * up_MF, self.down, places.ends_E)
        y_NKD = _restore(y_MD, places).unflatten(0, (-1, places.top_k))
        weighted_NKD: Tensor = y_NKD * routing.weights_NK.to(y_NKD.dtype).unsqueeze(-1)
        return weighted_NKD.sum(1)


class SharedExperts(nn.Module):
    """Experts that every token uses: one SwiGLU network as wide as all of them together."""

    def __init__(self, num_shared: int, d_model: int, d_expert: int) -> None:
        super().__init__()
        width = num_shared * d_expert
        self.gate = nn.Parameter(torch.zeros(width, d_model))
        self.up = nn.Parameter(torch.zeros(width, d_model))
        self.down = nn.Parameter(torch.zeros(d_model, width))
        self.product: Callable[[Tensor, Tensor], Tensor] = functional.linear
        """Of a training pass; an evaluation's is always `functional.linear`."""

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the sum of the shared experts' outputs, [N, D]."""
        product = self.product if self.training else functional.linear
        gate_NF = product(x_ND, self.gate)
        up_NF = product(x_ND, self.up)
        return product(functional.silu(gate_NF) * up_NF, self.down)


_PADDED_ROWS = 64


def _block_of(x_ND: Tensor) -> int:
    return _PADDED_ROWS if library.applies(x_ND) else 1


def grouped_linear(x_MI: Tensor, weight_EOI: Tensor, ends_E: Tensor) -> Tensor:
    """Return ``x @ weight[e].T`` for consecutive groups of rows, group e ending at ``ends_E[e]``.

    Computes in the autocast data type where autocast is on. Repeats bit for bit on a CPU.
    """
    if torch.is_autocast_enabled(x_MI.device.type):
        dtype = torch.get_autocast_dtype(x_MI.device.type)
        x_MI, weight_EOI = x_MI.to(dtype), weight_EOI.to(dtype)
    if _grouped_kernel_fits(x_MI, weight_EOI):
        return functional.grouped_mm(x_MI, weight_EOI.transpose(1, 2), offs=ends_E)
    counts = torch.diff(ends_E, prepend=ends_E.new_zeros(1)).tolist()
    groups = zip(x_MI.split(counts), weight_EOI, strict=True)
    return torch.cat([functional.linear(rows, weight) for rows, weight in groups])


def _grouped_kernel_fits(x_MI: Tensor, weight_EOI: Tensor) -> bool:
    """Rows must be multiples of 16 bytes; on a GPU the kernel exists for bf16 only."""
    if not hasattr(functional, "grouped_mm"):  # torch before 2.10
        return False
    widths = weight_EOI.shape[1:]
    aligned = all(width * weight_EOI.element_size() % 16 == 0 for width in widths)
    return aligned and (x_MI.device.type == "cpu" or x_MI.dtype == torch.bfloat16)


def _gather(x_ND: Tensor, plan: Dispatch) -> Tensor:
    """Return each assignment's token in expert order, [M, D]."""
    x_MD: Tensor = _Gather.apply(x_ND, plan)  # type: ignore[no-untyped-call]
    return x_MD


def _restore(y_MD: Tensor, plan: Dispatch) -> Tensor:
    """Return the rows in token order, the K choices of a token side by side, [M, D]."""
    restored_MD: Tensor = _Restore.apply(y_MD, plan)  # type: ignore[no-untyped-call]
    return restored_MD


class _Gather(torch.autograd.Function):
    """Its gradient is a gather and a sum over K; autograd's own would scatter-add row by row."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, plan: Dispatch) -> Tensor:
        ctx.plan = plan
        return _filled(x_ND.index_select(0, plan.order_M // plan.top_k), plan)

    @staticmethod
    def backward(ctx: Any, grad_MD: Tensor) -> tuple[Tensor, None]:
        grad_MD = _placed(grad_MD.index_select(0, ctx.plan.place_M), ctx.plan)
        return grad_MD.unflatten(0, (-1, ctx.plan.top_k)).sum(1), None


class _Restore(torch.autograd.Function):
    """A permutation, but for what has no place; its gradient is the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, y_MD: Tensor, plan: Dispatch) -> Tensor:
        ctx.plan = plan
        return _placed(y_MD.index_select(0, plan.place_M), plan)

    @staticmethod
    def backward(ctx: Any, grad_MD: Tensor) -> tuple[Tensor, None]:
        return _filled(grad_MD.index_select(0, ctx.plan.order_M), ctx.plan), None


def _filled(rows_MD: Tensor, plan: Dispatch) -> Tensor:
    """Return the rows at their places with zeros where a place is empty."""
    if plan.filled_S is None:
        return rows_MD
    return torch.where(plan.filled_S.unsqueeze(1), rows_MD, 0)


def _placed(rows_MD: Tensor, plan: Dispatch) -> Tensor:
    """Return the rows of the assignments with zeros where one has no place."""
    if plan.has_place_M is None:
        return rows_MD
    return torch.where(plan.has_place_M.unsqueeze(1), rows_MD, 0)
