"""What the running commands do and return, in words that need no training code to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from workbench.registry.entries import Computed, DomainUse
from workbench.registry.log import Entry


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    """How a sweep stands."""

    metric: str
    declared: int
    """Registered trials."""
    counts: dict[str, int]
    """Trials by state, also those that were run again."""
    num_again: int
    """Of them, those that were run again, which use up no budget themselves."""
    control_value: float | None
    """Of the first trial, which is the control's own point."""
    best_trial: str
    best_value: float | None
    """Best of the sweep: optimistically biased, and never what is promoted by itself."""
    drawn: tuple[Mapping[str, DomainUse], ...]
    """What completed trials drew by domain; of older ones the record does not say."""
    recovered: tuple[str, ...]
    """What an earlier process left behind and what became of it, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """How one full-scale run stands."""

    run: str
    attempts: int
    outcome: str
    last_step: int
    planned_steps: int
    value: float | None
    """Last validation value of the primary metric; None of a confirmatory run until the verdict."""
    device_seconds: float
    drawn: Mapping[str, DomainUse]
    """What it drew by domain; empty unless it ended by itself."""
    computed: Computed | None = None
    """What the training of its last attempt took; None unless that ended by itself."""


@dataclass(frozen=True, kw_only=True)
class LookLine:
    """What one registered look said of the first claim."""

    number: int
    num_seeds: int
    """An arm."""
    outcome: str
    estimate: float | None
    lower: float | None
    upper: float | None
    state: str
    """``go_on``, ``stop`` or ``final``."""
    next_seeds: int | None


@dataclass(frozen=True, kw_only=True)
class RunsReport:
    """What `workbench run` did and found."""

    metric: str
    recovered: tuple[str, ...]
    """What was lost earlier and how it goes on, a sentence each."""
    runs: tuple[RunLine, ...]
    deviations: tuple[str, ...]
    """What differs from the registration."""
    looks: tuple[LookLine, ...]
    """Those that were made so far; a rule with one look leaves it to the verdict."""


class Stages(Protocol):
    """`workbench.experiments.campaign.Campaign`, which takes seconds to import."""

    def sweep(self) -> SweepReport:
        """Run what is left of the sweep."""

    def promote(self) -> Entry:
        """Run the ladder and promote."""

    def run(self) -> RunsReport:
        """Run what is left at full scale."""

    def verdict(self, *, incomplete: bool) -> Entry:
        """Judge by the registered rule."""

    def publish_outcomes(self) -> None:
        """Give MLflow, once there is a verdict, what was held back from it."""
