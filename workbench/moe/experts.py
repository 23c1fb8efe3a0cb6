"""SwiGLU experts: one contiguous tensor a projection, dropless, run as grouped matrix products.

Shape suffixes: N tokens, K experts a token, E experts, M = N·K assignments, D model width,
F expert width, I and O the input and output widths of one projection.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.router import Routing


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """Where each assignment goes once assignments stand in order of their expert."""

    order_M: Tensor
    """Assignment (token·K + choice) at each sorted place; equal experts keep token order."""
    place_M: Tensor
    """Inverse of ``order_M``: the sorted place of each assignment."""
    counts: list[int]
    """Assignments of each expert; zero for an expert that no token chose."""
    top_k: int


def dispatch(chosen_NK: Tensor, num_experts: int) -> Dispatch:
    """Return the stable order of the assignments by expert."""
    flat_M = chosen_NK.reshape(-1)
    order_M = torch.argsort(flat_M, stable=True)
    place_M = torch.empty_like(order_M)
    place_M[order_M] = torch.arange(order_M.numel(), device=order_M.device)
    counts: list[int] = torch.bincount(flat_M, minlength=num_experts).tolist()
    return Dispatch(order_M=order_M, place_M=place_M, counts=counts, top_k=chosen_NK.shape[1])


class Experts(nn.Module):
    """E SwiGLU networks ``down(silu(gate(x)) · up(x))``; only the chosen ones run."""

    def __init__(self, num_experts: int, d_model: int, d_expert: int) -> None:
        super().__init__()
        self.num_experts = num_experts
        self.gate = nn.Parameter(torch.zeros(num_experts, d_expert, d_model))
        self.up = nn.Parameter(torch.zeros(num_experts, d_expert, d_model))
        self.down = nn.Parameter(torch.zeros(num_experts, d_model, d_expert))

    def forward(self, x_ND: Tensor, routing: Routing) -> Tensor:
        """Return the weighted sum of the chosen experts' outputs, [N, D]. No token is dropped."""
        plan = dispatch(routing.chosen_NK, self.num_experts)
        x_MD = _gather(x_ND, plan)
        gate_MF = grouped_linear(x_MD, self.gate, plan.counts)
        up_MF = grouped_linear(x_MD, self.up, plan.counts)
        y_MD = grouped_linear(functional.silu(gate_MF) * up_MF, self.down, plan.counts)
        y_NKD = _restore(y_MD, plan).unflatten(0, (-1, plan.top_k))
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

    def forward(self, x_ND: Tensor) -> Tensor:
        """Return the sum of the shared experts' outputs, [N, D]."""
        gate_NF = functional.linear(x_ND, self.gate)
        up_NF = functional.linear(x_ND, self.up)
        return functional.linear(functional.silu(gate_NF) * up_NF, self.down)


def grouped_linear(x_MI: Tensor, weight_EOI: Tensor, counts: list[int]) -> Tensor:
    """Return ``x @ weight[e].T`` for consecutive groups of rows, group e of ``counts[e]`` rows.

    Computes in the autocast data type where autocast is on. Repeats bit for bit.
    """
    assert sum(counts) == x_MI.shape[0], (counts, x_MI.shape)  # noqa: S101 shape check
    if torch.is_autocast_enabled(x_MI.device.type):
        dtype = torch.get_autocast_dtype(x_MI.device.type)
        x_MI, weight_EOI = x_MI.to(dtype), weight_EOI.to(dtype)
    product: Tensor = _GroupedLinear.apply(x_MI, weight_EOI, counts)  # type: ignore[no-untyped-call]
    return product


class _GroupedLinear(torch.autograd.Function):
    """Groups written into slices of one buffer, so that autograd sees one node, not 3·E."""

    @staticmethod
    def forward(ctx: Any, x_MI: Tensor, weight_EOI: Tensor, counts: list[int]) -> Tensor:
        ctx.save_for_backward(x_MI, weight_EOI)
        ctx.counts = counts
        y_MO = x_MI.new_empty(x_MI.shape[0], weight_EOI.shape[1])
        for x, weight, y in zip(x_MI.split(counts), weight_EOI, y_MO.split(counts), strict=True):
            torch.mm(x, weight.t(), out=y)
        return y_MO

    @staticmethod
    def backward(ctx: Any, grad_MO: Tensor) -> tuple[Tensor, Tensor, None]:
        x_MI, weight_EOI = ctx.saved_tensors
        grad_x_MI, grad_weight_EOI = torch.empty_like(x_MI), torch.empty_like(weight_EOI)
        groups = zip(
            x_MI.split(ctx.counts),
            weight_EOI,
            grad_MO.split(ctx.counts),
            grad_x_MI.split(ctx.counts),
            grad_weight_EOI,
            strict=True,
        )
        for x, weight, grad, grad_x, grad_weight in groups:
            torch.mm(grad, weight, out=grad_x)
            torch.mm(grad.t(), x, out=grad_weight)
        return grad_x_MI, grad_weight_EOI, None


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
        return x_ND.index_select(0, plan.order_M // plan.top_k)

    @staticmethod
    def backward(ctx: Any, grad_MD: Tensor) -> tuple[Tensor, None]:
        grad_NKD = grad_MD.index_select(0, ctx.plan.place_M).unflatten(0, (-1, ctx.plan.top_k))
        return grad_NKD.sum(1), None


class _Restore(torch.autograd.Function):
    """A permutation; its gradient is the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, y_MD: Tensor, plan: Dispatch) -> Tensor:
        ctx.plan = plan
        return y_MD.index_select(0, plan.place_M)

    @staticmethod
    def backward(ctx: Any, grad_MD: Tensor) -> tuple[Tensor, None]:
        return grad_MD.index_select(0, ctx.plan.order_M), None
