"""The schedule of a run, step by step: learning rate, mixture, λ and frozen parts.

Steps count from 1; step ``s`` is the s-th optimizer step. Everything here is a pure function of the
configuration, so a resumed run cannot be out of step with its schedule.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.data.mixture import DomainShares, resolve
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
    is_fresh: bool
    """Whether no step before it had a learning rate to go on from: it opens the run, or jumps."""


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
    begin, level, is_open = 0, 0.0, False
    for phase, end in config.phase_ends():
        start = level
        if phase.jump is not None:
            start = phase.jump
        elif not is_open and phase.lr != "linear_up":
            # A run that opens at its peak has no level to rise from: warm-up 0 means peak at once.
            start = 1.0
        is_fresh = not is_open or phase.jump is not None
        stretch = Stretch(phase=phase, begin=begin, end=end, level=start, is_fresh=is_fresh)
        if end > begin and phase.lr != "none":
            level, is_open = _level(stretch, end), True
        laid.append(stretch)
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
    its last step; one that opens the run, or jumps, has its level at its first step. With the share
    s of the fall's steps, a line falls by s, a cosine by (1 - cos πs)/2, and 1-sqrt by √s (Hägele
    et al. 2024). A pre-warm has the rate 0.

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
    return _frozen(phase_at(config, step))


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
    """Return whether a step's mixture or λ is not that of the step before, or its rate jumps.

    There the loss may jump without anything being wrong.

    Raises:
        ValueError: the step or the one before is not one of 1 to ``config.steps``.
    """
    now, before = phase_at(config, step), phase_at(config, step - 1)
    jumps = now is not before and now.jump is not None
    return jumps or (now.mixture, now.balance_weight) != (before.mixture, before.balance_weight)


def schedule_rows(config: RunConfig, steps: Iterable[int] | None = None) -> tuple[ScheduleRow, ...]:
    """Return one row for every step of the run, or for the given steps, which must rise.

    Raises:
        ValueError: a step is not one of 1 to ``config.steps``, or not above the one before.
    """
    laid = iter([stretch for stretch in stretches(config) if stretch.end > stretch.begin])
    stretch, last = next(laid), 0
    rows = []
    for step in range(1, config.steps + 1) if steps is None else steps:
        if not last < step <= config.steps:
            raise ValueError(f"step {step} is not one of {last + 1} to {config.steps}")
        last = step
        while step > stretch.end:
            stretch = next(laid)
        rows.append(_row(config, stretch, step))
    return tuple(rows)


def _row(config: RunConfig, stretch: Stretch, step: int) -> ScheduleRow:
    phase = stretch.phase
    return ScheduleRow(
        step=step,
        phase=phase.name,
        lr=config.optimizer.lr * _level(stretch, step),
        balance_weight=(
            config.balance.weight if phase.balance_weight is None else phase.balance_weight
        ),
        mixture=config.mixture if phase.mixture is None else phase.mixture,
        frozen=_frozen(phase),
    )


def _frozen(phase: PhaseConfig) -> tuple[FreezablePart, ...]:
    return ("all",) if phase.lr == "none" else phase.frozen


def _stretch_at(config: RunConfig, step: int) -> Stretch:
    for stretch in stretches(config):
        if stretch.begin < step <= stretch.end:
            return stretch
    raise ValueError(f"step {step} is not one of 1 to {config.steps}")


def _level(stretch: Stretch, step: int) -> float:
    length = stretch.end - stretch.begin
    index = step - stretch.begin
    shape = stretch.phase.lr
    if shape == "none":
        return 0.0
    if shape == "constant":
        return stretch.level
    if shape == "linear_up":
        return stretch.level + (1.0 - stretch.level) * (index / length)
    if stretch.is_fresh:
        share = (index - 1) / (length - 1) if length > 1 else 0.0
    else:
        share = index / length
    if shape == "cosine_down":
        share = 0.5 * (1.0 - math.cos(math.pi * share))
    elif shape == "one_minus_sqrt_down":
        share = math.sqrt(share)
    return stretch.level + (stretch.phase.final - stretch.level) * share
