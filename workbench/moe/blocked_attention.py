"""Causal attention in plain products, a block of queries at a time.

In bf16 on a CPU this takes about two thirds of the time of torch's fused kernel, and keeps the
softmax: half of the B·H·T² scores. Shape suffixes as in `workbench.moe.attention`; Q queries of a
block, S keys up to its end.
"""

import torch
from torch import Tensor

from workbench.moe.documents import Documents
from workbench.moe.native import library

_QUERIES = 128
_LONGEST = 1024
"""Positions up to which the kept softmax is small beside everything else."""


def is_faster(q_BHTC: Tensor) -> bool:
    """Return whether blocks beat the fused kernel."""
    return library.applies(q_BHTC) and q_BHTC.shape[2] <= _LONGEST


def blocked_attention(
    q_BHTC: Tensor, k_BGTC: Tensor, v_BGTV: Tensor, documents: Documents | None
) -> Tensor:
    """Return softmax(q·k/√C)·v over what a position sees, [B, H, T, V]."""
    length, group = q_BHTC.shape[2], q_BHTC.shape[1] // k_BGTC.shape[1]
    if group > 1:
        k_BGTC = k_BGTC.repeat_interleave(group, dim=1)
        v_BGTV = v_BGTV.repeat_interleave(group, dim=1)
    q_BHTC = q_BHTC * q_BHTC.shape[3] ** -0.5
    mixed = []
    for begin in range(0, length, _QUERIES):
        end = min(length, begin + _QUERIES)
        scores_BHQS = q_BHTC[:, :, begin:end] @ k_BGTC[:, :, :end].mT
        if documents is None:
            unseen = torch.ones(end - begin, end, dtype=torch.bool).triu(begin + 1)
        else:
            unseen = ~documents.visible_B1TT[:, :, begin:end, :end]
        hidden_BHQS = scores_BHQS.masked_fill(unseen, -torch.inf)
        probs_BHQS = torch.softmax(hidden_BHQS, -1, dtype=torch.float32).to(v_BGTV.dtype)
        mixed.append(probs_BHQS @ v_BGTV[:, :, :end])
    return torch.cat(mixed, dim=2)
