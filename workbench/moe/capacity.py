"""Places at an expert that takes only so many tokens; padding never has one.

Shapes depend on the number of tokens alone: an expert always has its C places, some of them empty.
Shape suffixes: N tokens, K experts a token, E experts, C places of an expert, S = E·C places,
M = N·K assignments.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Which assignment stands where."""

    capacity: int
    """C: places of one expert."""
    place_M: Tensor
    """Place of each assignment (token·K + choice), expert·C + row; 0 where it has none."""
    has_place_M: Tensor
    """False for assignments that were dropped, of padding, or of no expert."""
    assignment_S: Tensor
    """Assignment at each place; 0 where the place is empty."""
    filled_S: Tensor
    """False for empty places."""


def even_share(num_tokens: int, top_k: int, num_experts: int, factor: float) -> int:
    """Return the capacity: a multiple of the even share N·k/E, rounded up, 1 to N.

    E12: more places than tokens are never filled. N counts padding: a shape must not depend on
    what the tokens are.
    """
    # Rounded first: 1.1 · 10 must not become 12 places by a rounding error.
    wanted = math.ceil(round(factor * num_tokens * top_k / num_experts, 6))
    return max(1, min(num_tokens, wanted))


def slots_within(
    chosen_NK: Tensor,
    num_experts: int,
    capacity: int,
    *,
    mask_N: Tensor | None,
    weights_NK: Tensor | None,
) -> Slots:
    """Return the places of the assignments that fit.

    Args:
        chosen_NK: expert of each assignment, E where there is none.
        num_experts: E.
        capacity: C.
        mask_N: True for real tokens; padding is given no place (E8).
        weights_NK: largest first; None keeps the order of the tokens.
    """
    expert_M = chosen_NK.flatten()
    if mask_N is not None:
        expert_M = torch.where(
            mask_N.unsqueeze(1).expand_as(chosen_NK).flatten(), expert_M, num_experts
        )
    order_M = torch.argsort(expert_M, stable=True)
    if weights_NK is not None:
        by_weight_M = torch.argsort(weights_NK.flatten(), descending=True, stable=True)
        order_M = by_weight_M[torch.argsort(expert_M[by_weight_M], stable=True)]
    count_E = torch.bincount(expert_M, minlength=num_experts + 1)
    first_E = count_E.cumsum(0) - count_E
    sorted_expert_M = expert_M[order_M]
    row_M = torch.arange(len(order_M), device=order_M.device) - first_E[sorted_expert_M]
    fits_M = (row_M < capacity) & (sorted_expert_M < num_experts)
    num_places = num_experts * capacity
    # What does not fit goes to one place more, which is cut off.
    place_M = torch.where(fits_M, sorted_expert_M * capacity + row_M, num_places)
    assignment_S = order_M.new_zeros(num_places + 1).scatter(0, place_M, order_M)[:-1]
    filled_S = fits_M.new_zeros(num_places + 1).scatter(0, place_M, fits_M)[:-1]
    unsorted_M = torch.empty_like(place_M).scatter(0, order_M, place_M)
    has_place_M = unsorted_M < num_places
    return Slots(
        capacity=capacity,
        place_M=torch.where(has_place_M, unsorted_M, 0),
        has_place_M=has_place_M,
        assignment_S=torch.where(filled_S, assignment_S, 0),
        filled_S=filled_S,
    )


def slots_by_expert(chosen_NE: Tensor, num_experts: int, capacity: int) -> Slots:
    """Return the places of an expert choice, in the order of the tokens."""
    return slots_within(chosen_NE, num_experts, capacity, mask_N=None, weights_NK=None)


@dataclass(frozen=True, kw_only=True)
class Drops:
    """Assignments of a layer without a place, by kind; int64 scalars, not yet read."""

    real: Tensor
    """Of real tokens: what a full expert turned away."""
    padding: Tensor
    """Of padding, which never takes a place."""
    asked: Tensor
    """Assignments of real tokens, with a place or without."""


def drops(chosen_NK: Tensor, num_experts: int, mask_N: Tensor | None, slots: Slots | None) -> Drops:
    """Return how many assignments have no place; a dropless layer drops none."""
    asked_M = (chosen_NK < num_experts).flatten()
    real_M = torch.ones_like(asked_M)
    if mask_N is not None:
        real_M = mask_N.unsqueeze(1).expand_as(chosen_NK).flatten()
    lost_M = torch.zeros_like(asked_M) if slots is None else ~slots.has_place_M & asked_M
    return Drops(
        real=(lost_M & real_M).sum(),
        padding=(lost_M & ~real_M).sum(),
        asked=(asked_M & real_M).sum(),
    )
