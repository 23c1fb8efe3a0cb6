"""The best few of many scores: ties go to the lower index, whatever the kernel.

Shape suffixes: N tokens, E experts, K experts a token, G groups, I experts of a group, C tokens of
an expert.
"""

import torch
from torch import Tensor

_BEST_OF_GROUP = 2


def top_choices(logits_NE: Tensor, top_k: int) -> Tensor:
    """Return the indices of the k largest logits, best first, the lower index at ties, [N, K].

    `torch.topk` promises no order at ties; a stable sort does.
    """
    order_NE = torch.sort(logits_NE, dim=-1, descending=True, stable=True).indices
    return order_NE[:, :top_k].contiguous()


def grouped_choices(scores_NE: Tensor, top_k: int, num_groups: int, top_groups: int) -> Tensor:
    """Return the k best experts of each token's best groups, best first, [N, K].

    A group is E/G neighbouring experts and worth the sum of its two best scores (DeepSeek-V3,
    section 2.1.2, node-limited routing); of equal groups the first.
    """
    if top_groups == num_groups:
        return top_choices(scores_NE, top_k)
    scores_NGI = scores_NE.unflatten(1, (num_groups, -1))
    best = min(_BEST_OF_GROUP, scores_NGI.shape[2])
    worth_NG = scores_NGI.topk(best, dim=2).values.sum(2)
    open_NG = torch.zeros_like(worth_NG, dtype=torch.bool)
    open_NG = open_NG.scatter(1, top_choices(worth_NG, top_groups), True)
    within_NGI = torch.where(open_NG.unsqueeze(2), scores_NGI, -torch.inf)
    return top_choices(within_NGI.flatten(1), top_k)


def best_tokens(scores_NE: Tensor, num_tokens: int, mask_N: Tensor | None) -> Tensor:
    """Return where an expert takes a token, [N, E]: its best real ones, the earlier at ties.

    Args:
        scores_NE: of each token for each expert.
        num_tokens: how many each expert takes, at most N; fewer where fewer are real.
        mask_N: True for real tokens; None when all are.
    """
    if mask_N is not None:
        scores_NE = torch.where(mask_N.unsqueeze(1), scores_NE, -torch.inf)
    order_EC = torch.sort(scores_NE.t(), dim=1, descending=True, stable=True).indices
    taken_EN = torch.zeros_like(scores_NE.t(), dtype=torch.bool)
    taken_NE = taken_EN.scatter(1, order_EC[:, :num_tokens], True).t()
    return taken_NE if mask_N is None else taken_NE & mask_N.unsqueeze(1)
