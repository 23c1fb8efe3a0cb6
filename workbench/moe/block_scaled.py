"""Matrix products of experts with operands in block-scaled fp8, simulated in a wider data type.

After DeepSeek-V3, section 3.3: e4m3 values, one scale for 1 × 128 of an activation or its gradient
and for 128 × 128 of a weight, products accumulated in fp32. Ours are scaled by powers of two, so
that a rounded value is exact in bf16 too and a simulated product differs from a hardware one in the
order of its sums alone. The weights' gradient takes the same 1 × 128 tiles of both operands; there
they tile it anew along the tokens. Weights, their gradients and the optimizer's state stay wide.

Shape suffixes: M rows, E experts, I and O the input and output widths of one projection.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.experts import Experts, SharedExperts, grouped_linear

BLOCK = 128
_LARGEST = 448.0
"""Of e4m3."""


def use_block_scaled_fp8(modules: Iterable[nn.Module]) -> None:
    """Let the experts among the modules train on rounded operands; they evaluate as before."""
    for module in modules:
        if isinstance(module, Experts):
            module.product = grouped_fp8
        elif isinstance(module, SharedExperts):
            module.product = linear_fp8


def grouped_fp8(x_MI: Tensor, weight_EOI: Tensor, ends_E: Tensor) -> Tensor:
    """Return `grouped_linear` of operands rounded to fp8, its gradients from rounded ones too."""
    return _gradient_rounded(grouped_linear(*_rounded(x_MI, weight_EOI), ends_E))


def linear_fp8(x_MI: Tensor, weight_OI: Tensor) -> Tensor:
    """Return ``x @ weight.T`` of operands rounded to fp8, its gradients from rounded ones too."""
    return _gradient_rounded(functional.linear(*_rounded(x_MI, weight_OI)))


def tiles_rounded(x: Tensor) -> Tensor:
    """Return values rounded to e4m3 with one scale for every 128 of the last dimension."""
    width = x.shape[-1]
    tiles = functional.pad(x.float(), (0, -width % BLOCK)).unflatten(-1, (-1, BLOCK))
    rounded = _e4m3(tiles, tiles.abs().amax(-1, keepdim=True))
    return rounded.flatten(-2)[..., :width].to(x.dtype)


def blocks_rounded(weight: Tensor) -> Tensor:
    """Return values rounded to e4m3 with one scale for every 128 × 128 of the last two."""
    rows, columns = weight.shape[-2:]
    padded = functional.pad(weight.float(), (0, -columns % BLOCK, 0, -rows % BLOCK))
    blocks = padded.unflatten(-1, (-1, BLOCK)).unflatten(-3, (-1, BLOCK))
    rounded = _e4m3(blocks, blocks.abs().amax((-3, -1), keepdim=True))
    return rounded.flatten(-4, -3).flatten(-2)[..., :rows, :columns].to(weight.dtype)


def _e4m3(values: Tensor, largest: Tensor) -> Tensor:
    """Round to e4m3 after division by the least power of two that leaves ``largest`` within it."""
    mantissa, exponent = torch.frexp(largest / _LARGEST)
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
    scale = torch.ldexp(torch.ones_like(largest), exponent)
    return (values / scale).to(torch.float8_e4m3fn).float() * scale


def _rounded(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    tiles = _Rounded.apply(x, tiles_rounded)  # type: ignore[no-untyped-call]
    blocks = _Rounded.apply(weight, blocks_rounded)  # type: ignore[no-untyped-call]
    return cast(Tensor, tiles), cast(Tensor, blocks)


def _gradient_rounded(y: Tensor) -> Tensor:
    return cast(Tensor, _GradientRounded.apply(y))  # type: ignore[no-untyped-call]


class _Rounded(torch.autograd.Function):
    """Rounds forward; the gradient passes as if it did not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rounding: Any) -> Tensor:
        del ctx
        return cast(Tensor, rounding(x))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        del ctx
        return grad, None


class _GradientRounded(torch.autograd.Function):
    """Passes forward; rounds the gradient, so that both products of the backward pass see it."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        del ctx
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        del ctx
        return tiles_rounded(grad)
