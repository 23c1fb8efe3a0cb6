"""How often a rule gives each verdict, by simulation of whole experiments, all rows at once.

Noise is in units of the metric. Arrays of an arm have the shape (experiments, seeds).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.analysis.claims import ClaimKind, Outcome
from workbench.analysis.intervals import Array
from workbench.analysis.looks import rows_bounds
from workbench.analysis.rules import Rule, Stopping

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


def detectable_effect(rule: Rule, simulated: Simulated, *, power: float, sd: float) -> float | None:
    """Return the smallest true improvement that supports the claim with this power.

    For ``equivalent`` it is the largest instead: how far apart the arms may truly be. None where
    no improvement within 100 spreads has the power. Found by bisection on the same simulated
    experiments, to a hundredth of the spread.

    Args:
        rule: As was simulated; its claim and margin may be others.
        simulated: The bounds without an effect.
        power: Wanted chance of ``supported``.
        sd: Spread between seeds: the unit of the search.

    Raises:
        ValueError: as `verdict_rates`.
    """

    def supports(true: float) -> bool:
        return verdict_rates(rule, simulated, true=true).supported >= power

    # From where the claim holds most clearly to where it begins to be true.
    begins = {
        "superior": 0.0,
        "superior_by": rule.margin,
        "non_inferior": -rule.margin,
        "equivalent": rule.margin,
    }[rule.claim_kind]
    clear = 0.0 if rule.claim_kind == "equivalent" else begins + rule.margin + 100 * sd
    if not supports(clear):
        return None
    while abs(clear - begins) > sd / 100:
        middle = (clear + begins) / 2
        clear, begins = (middle, begins) if supports(middle) else (clear, middle)
    return clear


@dataclass(frozen=True, kw_only=True)
class SeedPlan:
    """What a number of seeds an arm can show."""

    stopping: str
    detectable: float | None
    """Smallest true improvement that is supported with the wanted power (for ``equivalent`` the
    largest); None if none is."""
    rates: Rates
    """Of each verdict when the improvement is the one that was asked about."""


def seed_plans(
    rule: Rule,
    noise: Noise,
    *,
    counts: Sequence[int],
    true: float,
    power: float,
    num: int,
    generator: np.random.Generator,
    most: int | None = None,
) -> list[SeedPlan]:
    """Return what the rule can show as registered, then what it could with fixed numbers of seeds.

    Args:
        rule: The rule.
        noise: Of a seed, in the metric's unit.
        counts: Seeds an arm to compare with, looked at once.
        true: The improvement asked about: the stated minimum effect.
        power: Wanted chance of ``supported``.
        num: Experiments to simulate of each.
        generator: Source of the noise.
        most: Registered seeds an arm, for ``anytime``.

    Raises:
        ValueError: a count with which the rule's interval can show nothing, or as `simulate`.
    """
    fixed = [Stopping(kind="fixed", looks=(count,)) for count in counts]
    plans = []
    for one in (rule, *(replace(rule, stopping=stopping) for stopping in fixed)):
        at_most = most if one.stopping.kind == "anytime" else None
        simulated = simulate(one, noise, num=num, generator=generator, most=at_most)
        plans.append(
            SeedPlan(
                stopping=one.stopping.text,
                detectable=detectable_effect(one, simulated, power=power, sd=noise.sd),
                rates=verdict_rates(one, simulated, true=true),
            )
        )
    return plans


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
