"""Whether a run's training loss falls, told without its level.

The level compares the arms of an experiment, so that whoever reads it for both has seen an outcome.
How a run stands against its own last steps tells its health and no more.
"""

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Literal, TypeAlias

Trend: TypeAlias = Literal["falling", "flat", "rising", "not finite", "too short"]

ROWS = 100
"""Steps that a trend is taken from: the later half against the earlier."""
_FEWEST = 20
_ROBUST_SD = 1.4826
"""Standard deviation of a normal sample / its median absolute deviation."""
_MEDIAN_ERROR = 1.2533
"""Standard error of a median / that of a mean, of a large normal sample."""


class OwnTrend:
    """A run's last losses, of which only the direction and the peak are told."""

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=ROWS)

    def add(self, loss: float | None) -> None:
        """Take in the next step's loss; None where it was not measured."""
        if loss is not None:
            self._losses.append(loss)

    @property
    def direction(self) -> Trend:
        """Where the loss goes: flat within two standard errors of a difference of medians."""
        losses = list(self._losses)
        if losses and not math.isfinite(losses[-1]):
            return "not finite"
        losses = [loss for loss in losses if math.isfinite(loss)]
        if len(losses) < _FEWEST:
            return "too short"
        half = len(losses) // 2
        early, late = losses[:half], losses[-half:]
        change = median(late) - median(early)
        error = _MEDIAN_ERROR * math.sqrt((_spread(early) ** 2 + _spread(late) ** 2) / half)
        if abs(change) <= 2 * error:
            return "flat"
        return "falling" if change < 0 else "rising"

    @property
    def peak(self) -> float | None:
        """The largest of the last losses over their median, minus 1; None while they are few."""
        losses = [loss for loss in self._losses if math.isfinite(loss)]
        middle = median(losses) if len(losses) >= _FEWEST else 0.0
        return max(losses) / middle - 1 if middle > 0 else None


def _spread(losses: Sequence[float]) -> float:
    """Return the standard deviation around the median, from the median absolute deviation."""
    middle = median(losses)
    return _ROBUST_SD * median(abs(loss - middle) for loss in losses)
