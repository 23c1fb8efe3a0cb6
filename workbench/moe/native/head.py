"""Cross-entropy of the head with its gradients in one pass, by a compiled kernel.

Shape suffixes as in `workbench.moe.loss`.
"""

import torch
from torch import Tensor

from workbench.moe.native.library import library

_CHUNK_VALUES = 2**21
"""Gradients of the logits of one chunk, in bf16: small enough to stay in a processor's cache."""
_ROWS = 32


def summed_nats_with_gradients(
    hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor, weight_N: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the summed nats and their gradients by hidden states and head, all fp32.

    Args:
        hidden_ND: fp32; a row of weight 0 is never looked at.
        head_VD: fp32, V even.
        targets_N: int64.
        weight_N: fp32; None is 1 for all.
    """
    num_tokens, width = hidden_ND.shape
    vocabulary = len(head_VD)
    chunk = max(_ROWS, min(_CHUNK_VALUES // vocabulary, num_tokens) // _ROWS * _ROWS)
    nats_N = torch.empty(num_tokens)
    d_hidden_ND, d_head_VD = torch.empty(num_tokens, width), torch.empty(vocabulary, width)
    library().call(
        "cross_entropy",
        *(num_tokens, width, vocabulary, chunk, hidden_ND, head_VD, targets_N, weight_N, nats_N),
        *(d_hidden_ND, d_head_VD),
        torch.empty(width * vocabulary, dtype=torch.int32),
        torch.empty(chunk // 2 * vocabulary, dtype=torch.int32),
        torch.empty(width * chunk, dtype=torch.int16),
        torch.empty(width, vocabulary),
    )
    return nats_N.sum(), d_hidden_ND, d_head_VD
