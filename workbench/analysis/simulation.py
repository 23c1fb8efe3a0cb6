"""How often a rule gives each verdict, by simulation of whole experiments, all rows at once.

Noise is in units of the metric. R experiments, N seeds an arm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.analysis.claims import ClaimKind, Outcome
from workbench.analysis.intervals import Array
from workbench.analysis.looks import rows_bounds
from workbench.analysis.rules import Rule

_FEWEST_REPEATS = 2
_CODES: tuple[Outcome, ...] = ("inconclusive", "supported", "refuted", "void")


class Noise(Protocol):
    """Where the deviations of seeds from their arm's true value come from."""

    sd: float
    """Standard deviation of one seed, in the metric's unit."""

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> Array:
        """Return deviations of shape (num, arms, seeds); the arms of an experiment are alike."""


@dataclass(frozen=True, kw_only=True)
class NormalNoise:
    """Seeds that deviate normally."""

    sd: float

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> Array:
        """Return deviations of shape (num, arms, seeds)."""
        return self.sd * generator.standard_normal((num, arms, seeds))


class ResampledNoise:
    """Deviations drawn with replacement from repeats that were really run.

    Each experiment takes one group of repeats for all its arms. Deviations are from the group's
    mean and divided by its own standard deviation (of the group as a population, since it is
    what is drawn from), so that groups of unlike spread can be mixed and the truth is known.
    """

    def __init__(self, groups: Sequence[Sequence[float]], *, sd: float, fewest: int = 10) -> None:
        """Keep the groups with enough repeats.

        Args:
            groups: Final values of repeats of identical code, a sequence each.
            sd: The standard deviation that the deviations are scaled to.
            fewest: Repeats below which a group is left out: too few show no shape.

        Raises:
            ValueError: no group is left.
        """
        kept = [np.array(group, dtype=float) for group in groups if len(group) >= fewest]
        scaled = [(one - one.mean()) / one.std() for one in kept if one.std() > 0]
        if not scaled:
            raise ValueError(f"no group has {fewest} repeats that differ")
        self.sd = sd
        self.num_groups = len(scaled)
        self._sizes_G = np.array([len(one) for one in scaled])
        self._values_GV = np.zeros((len(scaled), int(self._sizes_G.max())))
        for row, one in zip(self._values_GV, scaled, strict=True):
            row[: len(one)] = one

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> Array:
        """Return deviations of shape (num, arms, seeds)."""
        group_R11 = generator.integers(self.num_groups, size=(num, 1, 1))
        place = generator.random((num, arms, seeds)) * self._sizes_G[group_R11]
        return np.asarray(self.sd * self._values_GV[group_R11, place.astype(int)])


@dataclass(frozen=True, kw_only=True)
class Experiments:
    """Simulated measurements before any effect is added, so that effects can share them."""

    control_RN: Array
    treatment_RN: Array
    floor_sd_R: Array | None
    """A noise floor by experiment, from runs of its own; None for rules that use none."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The shares of simulated experiments by verdict."""

    supported: float
    refuted: float
    inconclusive: float
    void: float
    mean_seeds: float
    """Seeds an arm when the rule stopped."""
    num: int
    """Experiments simulated."""

    def error(self, share: float) -> float:
        """Return the standard error of a share that these many experiments would show."""
        return math.sqrt(share * (1 - share) / self.num)


def experiments(
    rule: Rule, noise: Noise, *, num: int, generator: np.random.Generator, most: int | None = None
) -> Experiments:
    """Return simulated measurements for a rule; both arms have the same noise.

    Raises:
        ValueError: fewer than two experiments, or as `Rule.looks_up_to`.
    """
    if num < _FEWEST_REPEATS:
        raise ValueError(f"{num} experiments show no rate")
    seeds = rule.looks_up_to(most)[-1]
    arms_RAN = noise.draw(num, 2, seeds, generator)
    floor_sd_R = None
    if rule.noise_floor is not None:
        runs_R1V = noise.draw(num, 1, rule.noise_floor.num_runs, generator)
        floor_sd_R = np.std(runs_R1V[:, 0], axis=1, ddof=1)
    return Experiments(
        control_RN=arms_RAN[:, 0], treatment_RN=arms_RAN[:, 1], floor_sd_R=floor_sd_R
    )


def verdict_rates(
    rule: Rule, drawn: Experiments, *, true: float, most: int | None = None
) -> Rates:
    """Return how often each verdict is given when the improvement is truly ``true``.

    Every experiment is looked at as registered and stops when the rule says so. Guard-rails,
    missing seeds and diverged runs are not simulated.

    Raises:
        ValueError: as `Rule.looks_up_to`.
    """
    num = len(drawn.control_RN)
    verdict_R = np.zeros(num, dtype=np.int8)
    seeds_R = np.zeros(num)
    running = np.arange(num)
    for n in rule.looks_up_to(most):
        bounds = rows_bounds(
            rule,
            drawn.control_RN[running, :n],
            drawn.treatment_RN[running, :n] + true,
            rule.look_alpha,
            floor_sd=None if drawn.floor_sd_R is None else drawn.floor_sd_R[running],
        )
        found = _codes(rule.claim_kind, rule.margin, bounds.lower, bounds.upper)
        verdict_R[running], seeds_R[running] = found, n
        running = running[found == 0]
    shares = np.bincount(verdict_R, minlength=len(_CODES)) / num
    return Rates(
        **{name: float(share) for name, share in zip(_CODES, shares, strict=True)},
        mean_seeds=float(seeds_R.mean()),
        num=num,
    )


def detectable_effect(
    rule: Rule, drawn: Experiments, *, power: float, sd: float, most: int | None = None
) -> float:
    """Return the smallest true improvement that supports the claim with this power.

    For ``equivalent`` there is none smaller than no difference: 0 if that has the power.
    Found by bisection on the same simulated experiments, to a hundredth of the spread.

    Args:
        rule: The rule.
        drawn: Simulated experiments.
        power: Wanted chance of ``supported``.
        sd: Spread between seeds: the unit of the search.
        most: Registered seeds, for ``anytime``.

    Raises:
        ValueError: no improvement within 100 spreads has it.
    """

    def supports(true: float) -> bool:
        return verdict_rates(rule, drawn, true=true, most=most).supported >= power

    low, high = _reach(rule, sd)
    if rule.claim_kind == "equivalent":
        high = 0.0
    if not supports(high):
        raise ValueError(f"{rule.text} has no power {power:g} within 100 spreads of {sd:g}")
    while rule.claim_kind != "equivalent" and high - low > sd / 100:
        middle = (low + high) / 2
        low, high = (low, middle) if supports(middle) else (middle, high)
    return high


def _reach(rule: Rule, sd: float) -> tuple[float, float]:
    # Where each claim begins to be true.
    start = {"superior": 0.0, "superior_by": rule.margin, "non_inferior": -rule.margin}
    low = start.get(rule.claim_kind, 0.0)
    return low, low + rule.margin + 100 * sd


def _codes(kind: ClaimKind, margin: float, lower: Array, upper: Array) -> NDArray[np.int8]:
    """Return the places in `_CODES` of what `outcome_of` says of each row; NaN bounds are void."""
    if kind == "superior":
        refuted, supported = upper < margin, lower > 0
    elif kind == "superior_by":
        refuted, supported = upper < margin, lower > margin
    elif kind == "non_inferior":
        refuted, supported = upper < -margin, lower > -margin
    else:
        refuted = (lower > margin) | (upper < -margin)
        supported = (lower > -margin) & (upper < margin)
    codes = np.where(refuted, 2, np.where(supported, 1, 0))
    return np.where(np.isnan(lower), 3, codes).astype(np.int8)
