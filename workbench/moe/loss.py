"""Next-token cross-entropy of the head, some rows at a time: the logits never exist all at once.

Shape suffixes: N tokens, R rows of one chunk, D model width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from workbench.moe.native import library
from workbench.moe.native.head import summed_nats_with_gradients

_CHUNK_VALUES = 2**20
"""Logits of one chunk: small enough to stay in a processor's cache, large enough to multiply."""
_MIN_ROWS = 64


def summed_nats(
    hidden_ND: Tensor,
    head_VD: Tensor,
    targets_N: Tensor,
    mask_N: Tensor | None = None,
    *,
    compiled: bool = False,
) -> Tensor:
    """Return the cross-entropy summed over the counted tokens, a scalar in fp32 nats.

    The gradient with respect to hidden states and head is taken in the same pass over the chunks,
    which saves the backward pass a second look at the logits. Products run in the autocast data
    type, softmax and sums in fp32. Repeats bit for bit.

    Args:
        hidden_ND: the decoder's normalised hidden states.
        head_VD: the output embedding.
        targets_N: the token that follows each position, int64.
        mask_N: True where a target counts; None when all do.
        compiled: whether a pass in bf16 on a CPU takes the compiled kernel.
    """
    assert hidden_ND.shape[0] == targets_N.shape[0], (hidden_ND.shape, targets_N.shape)  # noqa: S101
    if compiled and library.applies(hidden_ND) and len(head_VD) % 2 == 0:
        summed: Tensor = _Compiled.apply(hidden_ND.float(), head_VD, targets_N, mask_N)  # type: ignore[no-untyped-call]
        return summed
    total: Tensor = _SummedNats.apply(hidden_ND, head_VD, targets_N, mask_N)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def token_nats(hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor) -> Tensor:
    """Return each token's cross-entropy, fp32 nats, [N], without gradient."""
    hidden_ND, head_VD = _in_compute_type(hidden_ND), _in_compute_type(head_VD)
    rows = _rows(head_VD)
    chunks = zip(hidden_ND.split(rows), targets_N.split(rows), strict=True)
    return torch.cat([_chunk(hidden, head_VD, targets)[0] for hidden, targets in chunks])


class _SummedNats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor, mask_N: Tensor | None
    ) -> Tensor:
        head, rows = _in_compute_type(head_VD), _rows(head_VD)
        weight_N = torch.ones_like(targets_N) if mask_N is None else mask_N
        grad_hidden_ND = torch.empty_like(hidden_ND)
        # In the head's own type: adding chunk after chunk in bf16 would lose the small ones.
        grad_head_VD = torch.zeros_like(head_VD)
        total = torch.zeros((), device=hidden_ND.device)
        chunks = zip(
            _in_compute_type(hidden_ND).split(rows),
            targets_N.split(rows),
            weight_N.float().split(rows),
            grad_hidden_ND.split(rows),
            strict=True,
        )
        for hidden, targets, weight, grad_hidden in chunks:
            nats_R, probs_RV = _chunk(hidden, head, targets)
            total += torch.dot(nats_R, weight)
            if any(ctx.needs_input_grad):
                grad_RV = _logit_gradient(probs_RV, targets, weight).to(head.dtype)
                grad_hidden.copy_(torch.mm(grad_RV, head))
                grad_head_VD += torch.mm(grad_RV.t(), hidden)
        ctx.save_for_backward(grad_hidden_ND, grad_head_VD)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden_ND, grad_head_VD = ctx.saved_tensors
        return grad_hidden_ND * grad, grad_head_VD * grad, None, None


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor, mask_N: Tensor | None
    ) -> Tensor:
        weight_N = None if mask_N is None else mask_N.float().contiguous()
        total, *gradients = summed_nats_with_gradients(
            hidden_ND.contiguous(), head_VD.contiguous(), targets_N.contiguous(), weight_N
        )
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden_ND, grad_head_VD = ctx.saved_tensors
        return grad_hidden_ND * grad, grad_head_VD * grad, None, None


def _logit_gradient(probs_RV: Tensor, targets_R: Tensor, weight_R: Tensor) -> Tensor:
    """Return weight · (softmax - one-hot of the target), written over the softmax."""
    probs_RV *= weight_R.unsqueeze(1)
    return probs_RV.scatter_add_(1, targets_R.unsqueeze(1), -weight_R.unsqueeze(1))


def _chunk(hidden_RD: Tensor, head_VD: Tensor, targets_R: Tensor) -> tuple[Tensor, Tensor]:
    """Return each token's nats and its softmax over the vocabulary, both fp32."""
    logits_RV = torch.mm(hidden_RD, head_VD.t()).float()
    probs_RV = torch.softmax(logits_RV, dim=1)
    # log Σ exp(logits) through the likeliest token, whose probability cannot underflow.
    log_sum_R = logits_RV.amax(1) - probs_RV.amax(1).log()
    return log_sum_R - logits_RV.gather(1, targets_R.unsqueeze(1)).squeeze(1), probs_RV


def _rows(head_VD: Tensor) -> int:
    return max(_MIN_ROWS, _CHUNK_VALUES // head_VD.shape[0])


def _in_compute_type(x: Tensor) -> Tensor:
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
