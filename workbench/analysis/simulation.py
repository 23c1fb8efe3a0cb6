"""How often a rule gives each verdict, by simulation of whole experiments, all rows at once.

Noise is in units of the metric. Arrays of an arm have the shape (experiments, seeds).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.analysis.claims import ClaimKind, Outcome
from workbench.analysis.intervals import Array
from workbench.analysis.looks import rows_bounds
from workbench.analysis.rules import Rule

_FEWEST = 2
_CODES: tuple[Outcome, ...] = ("inconclusive", "supported", "refuted", "void")


class Noise(Protocol):
    """Where the deviations of seeds from their arm's true value come from."""

    @property
    def sd(self) -> float:
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
        self._sizes = np.array([len(one) for one in scaled])
        self._values = np.zeros((len(scaled), int(self._sizes.max())))
        for row, one in zip(self._values, scaled, strict=True):
            row[: len(one)] = one

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> Array:
        """Return deviations of shape (num, arms, seeds)."""
        group = generator.integers(self.num_groups, size=(num, 1, 1))
        place = generator.random((num, arms, seeds)) * self._sizes[group]
        return np.asarray(self.sd * self._values[group, place.astype(int)])


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Bounds of simulated experiments in which the arms do not differ.

    Every interval moves with its values: a true improvement only shifts its bounds, so one
    simulation serves every claim and every effect.
    """

    rule: Rule
    seeds: tuple[int, ...]
    """Seeds an arm at each look."""
    lower: Array
    """Shape (looks, experiments); NaN where nothing varied."""
    upper: Array


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The shares of simulated experiments by verdict."""

    supported: float
    refuted: float
    inconclusive: float
    void: float
    mean_seeds: float
    """Seeds an arm when the rule stopped."""
    stopped: tuple[float, ...]
    """Share that stopped at each look, in order."""
    num: int
    """Experiments simulated."""


def simulate(
    rule: Rule, noise: Noise, *, num: int, generator: np.random.Generator, most: int | None = None
) -> Simulated:
    """Return the bounds of simulated experiments; both arms have the same noise.

    A noise floor is drawn anew for every experiment, from as many runs as the rule's has.

    Args:
        rule: Its interval, stopping and α.
        noise: Of a seed.
        num: Experiments.
        generator: Source of the noise.
        most: Registered seeds an arm, for ``anytime``.

    Raises:
        ValueError: fewer than two experiments, or as `Rule.looks_up_to`.
    """
    if num < _FEWEST:
        raise ValueError(f"{num} experiments show no rate")
    looks = rule.looks_up_to(most)
    arms = noise.draw(num, 2, looks[-1], generator)
    floors = None
    if rule.noise_floor is not None:
        runs = noise.draw(num, 1, rule.noise_floor.num_runs, generator)
        floors = np.std(runs[:, 0], axis=1, ddof=1)
    found = [
        rows_bounds(rule, arms[:, 0, :n], arms[:, 1, :n], rule.look_alpha, floor_sd=floors)
        for n in looks
    ]
    return Simulated(
        rule=rule,
        seeds=looks,
        lower=np.stack([bounds.lower for bounds in found]),
        upper=np.stack([bounds.upper for bounds in found]),
    )


def verdict_rates(rule: Rule, simulated: Simulated, *, true: float) -> Rates:
    """Return how often each verdict is given when the improvement is truly ``true``.

    Every experiment is looked at as registered and stops when the rule says so. Guard-rails,
    missing seeds and diverged runs are not simulated.

    Args:
        rule: As was simulated; its claim and margin may be others.
        simulated: The bounds without an effect.
        true: The improvement, in the unit of the noise.

    Raises:
        ValueError: another interval, stopping or α was simulated.
    """
    _refuse_other(rule, simulated.rule)
    codes = verdict_codes(
        rule.claim_kind, rule.margin, simulated.lower + true, simulated.upper + true
    )
    # The first look that decides, or the last.
    last = len(simulated.seeds) - 1
    places = np.where((codes != 0).any(axis=0), np.argmax(codes != 0, axis=0), last)
    verdicts = np.take_along_axis(codes, places[None], axis=0)[0]
    shares = np.bincount(verdicts, minlength=len(_CODES)) / len(verdicts)
    return Rates(
        **{name: float(share) for name, share in zip(_CODES, shares, strict=True)},
        mean_seeds=float(np.mean(np.array(simulated.seeds)[places])),
        stopped=tuple(
            float(share)
            for share in np.bincount(places, minlength=len(simulated.seeds)) / len(verdicts)
        ),
        num=len(verdicts),
    )


def _refuse_other(rule: Rule, simulated: Rule) -> None:
    parts = [(r.interval, r.stopping, r.alpha, r.noise_floor) for r in (rule, simulated)]
    if parts[0] != parts[1]:
        raise ValueError(f"simulated was {simulated.text}, which says nothing of {rule.text}")


def verdict_codes(kind: ClaimKind, margin: float, lower: Array, upper: Array) -> NDArray[np.int8]:
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
