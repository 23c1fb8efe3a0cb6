"""The schedule of a run, step by step: learning rate, mixture, λ and frozen parts.

Steps count from 1; step ``s`` is the s-th optimizer step. Everything here is a pure function of the
configuration, so a resumed run cannot be out of step with its schedule.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.data.serving.mixture import DomainShares, resolve
from workbench.training.config import FreezablePart, PhaseConfig, RunConfig

Mixture: TypeAlias = Mapping[str, float] | Literal["natural"]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A phase laid out on the step axis; it covers steps ``begin + 1`` to ``end``."""

    phase: PhaseConfig
    begin: int
    end: int
    """Equal to ``begin`` when the phase's share rounds to no step."""
    level: float
    """Share of the peak learning rate that the phase starts from."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """What one step does."""

    step: int
    phase: str
    lr: float
    balance_weight: float
    """λ of the balance loss."""
    mixture: Mixture
    frozen: tuple[FreezablePart, ...]


def stretches(config: RunConfig) -> tuple[Stretch, ...]:
    """Return the phases with the steps that they cover and the level that each starts from."""
    laid: list[Stretch] = []
    begin, level = 0, 0.0
    for phase, end in config.phase_ends():
        # A run that opens at its peak has no level to rise from: warm-up 0 means peak at step 1.
        start = 1.0 if begin == 0 and phase.lr != "linear_up" else level
        laid.append(Stretch(phase=phase, begin=begin, end=end, level=start))
        level = _level_after(laid[-1])
        begin = end
    return tuple(laid)


def phase_at(config: RunConfig, step: int) -> PhaseConfig:
    """Return the phase that the step belongs to.

    Raises:
        ValueError: the step is not one of 1 to ``config.steps``.
    """
    return _stretch_at(config, step).phase


def learning_rate(config: RunConfig, step: int) -> float:
    """Return the learning rate of a step.

    A rise over n steps gives peak·i/n at its i-th step, so it reaches the peak at its last step and
    is never zero. A fall over n steps leaves the level of the step before and reaches ``final`` at
    its last step; one that opens the run starts at the peak itself.

    Raises:
        ValueError: the step is not one of 1 to ``config.steps``.
    """
    stretch = _stretch_at(config, step)
    return config.optimizer.lr * _level(stretch, step)


def balance_weight_at(config: RunConfig, step: int) -> float:
    """Return λ of a step: the phase's, else the run's.

    Raises:
        ValueError: the step is not one of 1 to ``config.steps``.
    """
    own = phase_at(config, step).balance_weight
    return config.balance.weight if own is None else own


def frozen_at(config: RunConfig, step: int) -> tuple[FreezablePart, ...]:
    """Return the parts that a step does not update.

    Raises:
        ValueError: the step is not one of 1 to ``config.steps``.
    """
    return phase_at(config, step).frozen


def mixture_changes(config: RunConfig) -> tuple[tuple[int, Mixture], ...]:
    """Return (first step, mixture) pairs, beginning with step 1, one for each change."""
    changes: list[tuple[int, Mixture]] = []
    for stretch in stretches(config):
        if stretch.end == stretch.begin:
            continue
        mixture = config.mixture if stretch.phase.mixture is None else stretch.phase.mixture
        if not changes or changes[-1][1] != mixture:
            changes.append((stretch.begin + 1, mixture))
    return tuple(changes)


def average_mixture(config: RunConfig, corpus: DomainShares) -> dict[str, float]:
    """Return the share of every domain that the run's mixtures state, averaged over the steps.

    Raises:
        InvalidFileError: a mixture names a domain that the corpus lacks.
    """
    changes = mixture_changes(config)
    ends = [*(first - 1 for first, _ in changes[1:]), config.steps]
    average = dict.fromkeys(corpus.domains, 0.0)
    for (first, mixture), end in zip(changes, ends, strict=True):
        for domain, share in resolve(mixture, corpus).items():
            average[domain] += share * (end - first + 1) / config.steps
    return average


def is_new_level(config: RunConfig, step: int) -> bool:
    """Return whether a step's mixture or λ is not that of the step before.

    There the loss may jump without anything being wrong.

    Raises:
        ValueError: the step or the one before is not one of 1 to ``config.steps``.
    """
    now, before = phase_at(config, step), phase_at(config, step - 1)
    return (now.mixture, now.balance_weight) != (before.mixture, before.balance_weight)


def schedule_rows(config: RunConfig) -> tuple[ScheduleRow, ...]:
    """Return one row for every step of the run."""
    rows = []
    for stretch in stretches(config):
        phase = stretch.phase
        weight = config.balance.weight if phase.balance_weight is None else phase.balance_weight
        rows += [
            ScheduleRow(
                step=step,
                phase=phase.name,
                lr=config.optimizer.lr * _level(stretch, step),
                balance_weight=weight,
                mixture=config.mixture if phase.mixture is None else phase.mixture,
                frozen=phase.frozen,
            )
            for step in range(stretch.begin + 1, stretch.end + 1)
        ]
    return tuple(rows)


def _stretch_at(config: RunConfig, step: int) -> Stretch:
    for stretch in stretches(config):
        if stretch.begin < step <= stretch.end:
            return stretch
    raise ValueError(f"step {step} is not one of 1 to {config.steps}")


def _level(stretch: Stretch, step: int) -> float:
    length = stretch.end - stretch.begin
    index = step - stretch.begin
    if stretch.phase.lr == "constant":
        return stretch.level
    if stretch.phase.lr == "linear_up":
        return stretch.level + (1.0 - stretch.level) * (index / length)
    if stretch.begin == 0:
        # Nothing came before: the first step itself is at the peak.
        share = (index - 1) / (length - 1) if length > 1 else 0.0
    else:
        share = index / length
    if stretch.phase.lr == "cosine_down":
        share = 0.5 * (1.0 - math.cos(math.pi * share))
    return stretch.level + (stretch.phase.final - stretch.level) * share


def _level_after(stretch: Stretch) -> float:
    if stretch.end == stretch.begin:
        return 1.0 if stretch.phase.lr == "linear_up" else stretch.level
    return _level(stretch, stretch.end)
