"""What listens to a sweep's trial while it trains: the pruning rule and the progress bar."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from workbench.proxies.search import Asked
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.recorder import StopRun


@dataclass(frozen=True, kw_only=True)
class ProxyProgress:
    """Where a sweep or a ladder is."""

    name: str
    """Of the proxy under way, for example ``trial-07``."""
    done: int
    """Proxies that count as done."""
    total: int
    step: int
    steps: int
    """Of the proxy under way."""
    loss: float | None
    """Of the step; None when the proxy has ended."""
    counts: Mapping[str, int]
    """Ended proxies by state."""
    best: float | None
    """Best finite value of a completed proxy so far: optimistic, for the screen only."""


Progress: TypeAlias = Callable[[ProxyProgress], None]
Allowed: TypeAlias = Callable[[float], None]
"""Called before each proxy with the device-seconds that the call spent so far; raises ConflictError
where the registered device time is used up."""


def without_limit(device_seconds: float) -> None:
    """Let every proxy run."""


class PruningWatch:
    """A recorder that ends a trial where the registered pruning rule says so."""

    def __init__(self, asked: Asked, *, metric: str, steps: int) -> None:
        self._asked = asked
        self._metric = metric
        self._steps = steps
        self._evaluations = 0

    def telemetry(self, row: TelemetryRow) -> None:
        """Take no interest."""

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Report the value to the search.

        Raises:
            StopRun: the rule prunes the trial; never at the last step, which costs nothing more,
                and never for a value that is not finite, which is divergence.
        """
        value = values.get(self._metric, math.nan)
        if not math.isfinite(value):
            return
        evaluation = self._evaluations
        self._evaluations += 1
        if self._asked.should_prune(evaluation, value) and step < self._steps:
            raise StopRun("pruned")

    def checkpoint(self, step: int, path: Path, sha256: str) -> None:
        """Take no interest."""

    def close(self) -> None:
        """Have nothing to write."""
