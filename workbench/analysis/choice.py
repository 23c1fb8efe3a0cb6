"""The best of several options, where not every option can be the best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.analysis.claims import Direction, improvement


@dataclass(frozen=True, kw_only=True)
class Option:
    """Something that could be chosen."""

    name: str
    value: float | None
    """None when there is no measurement."""
    feasible: bool
    """Whether it may be chosen at all."""


def best_option(options: Sequence[Option], direction: Direction) -> Option | None:
    """Return the feasible option with the best finite value; None when there is none.

    A NaN or infinite value never wins, a missing one counts as nothing, never as 0, and of equal
    values the earlier option is taken: order them by the registered tie-break.

    Raises:
        ValueError: the direction is unknown.
    """
    improvement(0.0, 0.0, direction)
    best: Option | None = None
    kept = 0.0
    for option in options:
        if not option.feasible or option.value is None or not math.isfinite(option.value):
            continue
        if best is None or improvement(kept, option.value, direction) > 0:
            best, kept = option, option.value
    return best
