"""What a rule is expected to say, before anything runs: in closed form, else by simulation.

Both arms have normal noise of one spread and share nothing, so that pairing gains nothing, and a
noise floor is drawn from the same noise. Improvements and spreads are in the metric's unit. The
simulation is the same in every call, so that its figures repeat; it is done once, with spread 1,
and scaled. Two standard errors of a chance are at most 0.007.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from workbench.analysis.claims import Outcome
from workbench.analysis.eprocess import critical_t
from workbench.analysis.intervals import Array
from workbench.analysis.looks import rows_bounds
from workbench.analysis.permutation import num_splits
from workbench.analysis.power import outcome_chances, seeds_needed
from workbench.analysis.rules import Rule, Stopping
from workbench.analysis.simulation import (
    Rates,
    Simulated,
    simulate,
    verdict_codes,
    verdict_rates,
)

NUM = 20_000
MOST_ENUMERATED = 5
"""Seeds an arm up to which a permutation test is simulated by enumeration.

Beyond, Welch's bounds at the level that the permutations reach stand in for it: the chances differ
by less than 0.01 (0.007 at 6 seeds, 0.004 at 8), and enumeration would take minutes.
"""
FEWEST, MOST_SEEDS = 2, 100
_SUPPORTED = 1
"""In `verdict_codes`."""
_SEED = 20_261_130


@dataclass(frozen=True, kw_only=True)
class Nested:
    """Normal noise that is drawn seed after seed: more seeds leave the first ones as they are."""

    sd: float = 1.0

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> Array:
        """Return deviations of shape (num, arms, seeds)."""
        drawn = self.sd * generator.standard_normal((seeds, arms, num))
        return np.asarray(drawn.transpose(2, 1, 0))


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What a rule is expected to say if the improvement is truly so much."""

    true: float
    chances: Mapping[Outcome, float]
    """Of ``supported``, ``refuted`` and ``inconclusive``; nothing is void here."""
    mean_seeds: float
    """Seeds an arm when the rule stops."""
    stopped: Mapping[int, float]
    """Chance of stopping at each look, by its seeds an arm."""

    @property
    def power(self) -> float:
        """Chance of ``supported``."""
        return self.chances["supported"]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """A rule with what is needed to say what it will show."""

    rule: Rule
    looks: tuple[int, ...]
    """Seeds an arm."""
    simulated: Simulated | None
    """With spread 1; None where there is a closed form: Welch's t, looked at once."""

    @classmethod
    def of(cls, rule: Rule, *, most: int | None = None) -> "Outlook":
        """Return the outlook of a rule; simulates where it must.

        Args:
            rule: Of one claim; in a family, with the claim's own share of α.
            most: Registered seeds an arm, for ``anytime``.

        Raises:
            ValueError: as `Rule.looks_up_to`.
        """
        closed = rule.interval == "welch_t" and rule.stopping.kind == "fixed"
        return cls(
            rule=rule,
            looks=rule.looks_up_to(most),
            simulated=None if closed else _simulated(rule, most),
        )

    @property
    def num(self) -> int | None:
        """Experiments that were simulated; None for a closed form."""
        return None if self.simulated is None else self.simulated.lower.shape[1]

    def at(self, true: float, *, sd: float) -> Prospect:
        """Return what the rule says when the improvement is truly ``true``.

        Args:
            true: In the metric's unit.
            sd: Spread between the seeds of an arm.

        Raises:
            ValueError: the spread is not positive.
        """
        if not sd > 0:
            raise ValueError(f"no chances for {sd=}")
        rule = self.rule
        if self.simulated is None:
            (n,) = self.looks
            chances = outcome_chances(
                rule.claim_kind, rule.margin, true=true, sd=sd, n=n, alpha=rule.alpha
            )
            return Prospect(true=true, chances=chances, mean_seeds=float(n), stopped={n: 1.0})
        found = self.simulated
        scaled = replace(found, lower=found.lower * sd, upper=found.upper * sd)
        return _prospect(true, verdict_rates(rule, scaled, true=true), self.looks)

    def detectable(self, *, power: float, sd: float) -> float | None:
        """Return the smallest true improvement that supports the claim with this power.

        For ``equivalent`` it is the largest instead: how far apart the arms may truly be. None
        where no improvement within 100 spreads has the power. Found by bisection, to a hundredth
        of the spread.

        Args:
            power: Wanted chance of ``supported``.
            sd: Spread between the seeds of an arm.
        """

        def supports(true: float) -> bool:
            return self.at(true, sd=sd).power >= power

        rule = self.rule
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

    def largest_sd(self, true: float, *, power: float) -> float | None:
        """Return the largest spread between seeds at which the claim is supported with this power.

        Found by bisection to a thousandth; None where no spread gives it, or every one.

        Args:
            true: The improvement, in the metric's unit.
            power: Wanted chance of ``supported``.
        """
        scale = max(abs(true), self.rule.margin)
        low, high = scale / 1000, scale * 1000
        if not scale or self.at(true, sd=low).power < power or self.at(true, sd=high).power > power:
            return None
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            enough = self.at(true, sd=middle).power >= power
            low, high = (middle, high) if enough else (low, middle)
        return low


def fewest_seeds(rule: Rule, *, true: float, sd: float, power: float) -> int | None:
    """Return the fewest registered seeds an arm with this power; None if above 100.

    Looks before the last stay as they are, and the last is moved.

    Args:
        rule: Of one claim; in a family, with the claim's own share of α.
        true: The improvement, in the metric's unit.
        sd: Spread between the seeds of an arm.
        power: Wanted chance of ``supported``.
    """
    if rule.stopping.kind == "anytime":
        return _fewest_anytime(rule, true=true, sd=sd, power=power)
    guess = seeds_needed(
        rule.claim_kind, rule.margin, true=true, sd=sd, alpha=rule.look_alpha, power=power
    )
    if rule.interval == "welch_t" and rule.stopping.kind == "fixed":
        return guess

    def reaches(n: int) -> bool:
        found = ended_at(rule, n)
        return found is not None and Outlook.of(found).at(true, sd=sd).power >= power

    ends = [n for n in range(FEWEST, MOST_SEEDS + 1) if ended_at(rule, n)]
    start = min(max(guess or MOST_SEEDS, ends[0]), ends[-1])
    return _fewest(reaches, start, ends[0], ends[-1])


def _fewest(reaches: Callable[[int], bool], guess: int, first: int, last: int) -> int | None:
    """Return the smallest number that reaches, by bisection that begins near a guess."""
    low, high = first - 1, last + 1
    for near in (guess, guess - 2, guess + 2):
        if low < near < high:
            low, high = (low, near) if reaches(near) else (near, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high if high <= last else None


def _fewest_anytime(rule: Rule, *, true: float, sd: float, power: float) -> int | None:
    """Return it from one simulation: where the rule would end changes nothing before that."""
    simulated = _watched(rule, MOST_SEEDS)
    codes = verdict_codes(
        rule.claim_kind, rule.margin, simulated.lower * sd + true, simulated.upper * sd + true
    )
    decided = codes != 0
    first = np.where(decided.any(axis=0), np.argmax(decided, axis=0), len(codes))
    places, rows = np.arange(len(codes)), np.arange(codes.shape[1])
    won = codes[np.minimum(first, len(codes) - 1), rows] == _SUPPORTED
    shares = ((first[None] <= places[:, None]) & won[None]).mean(axis=1)
    enough = np.flatnonzero(shares >= power)
    return simulated.seeds[enough[0]] if len(enough) else None


@dataclass(frozen=True, kw_only=True)
class SeedPlan:
    """What a number of seeds an arm can show."""

    stopping: str
    seeds: int
    """An arm, at most."""
    detectable: float | None
    """As `Outlook.detectable`."""
    power: float
    """Chance of ``supported`` at the improvement that was asked about."""
    mean_seeds: float
    """Seeds an arm when the rule stops, there."""


def seed_plan(outlook: Outlook, *, true: float, sd: float, power: float) -> SeedPlan:
    """Return what a rule can show with its seeds.

    Args:
        outlook: Of the rule.
        true: The improvement asked about.
        sd: Spread between the seeds of an arm.
        power: Wanted chance of ``supported``.
    """
    prospect = outlook.at(true, sd=sd)
    return SeedPlan(
        stopping=outlook.rule.stopping.text,
        seeds=outlook.looks[-1],
        detectable=outlook.detectable(power=power, sd=sd),
        power=prospect.power,
        mean_seeds=prospect.mean_seeds,
    )


def ended_at(rule: Rule, most: int) -> Rule | None:
    """Return a rule with its last look moved to this number of seeds; None where none can be.

    ``anytime`` ends wherever it is told to.
    """
    looks = rule.stopping.looks
    if not looks:
        return rule
    try:
        return stopped_by(rule, Stopping(kind=rule.stopping.kind, looks=(*looks[:-1], most)))
    except ValueError:
        return None


def stopped_by(rule: Rule, stopping: Stopping) -> Rule | None:
    """Return the rule with another stopping rule; None where its interval allows it not."""
    try:
        return replace(rule, stopping=stopping)
    except ValueError:
        return None


def _prospect(true: float, rates: Rates, looks: tuple[int, ...]) -> Prospect:
    chances: dict[Outcome, float] = {
        "supported": rates.supported,
        "refuted": rates.refuted,
        "inconclusive": rates.inconclusive,
    }
    return Prospect(
        true=true,
        chances=chances,
        mean_seeds=rates.mean_seeds,
        stopped=dict(zip(looks, rates.stopped, strict=True)),
    )


def _simulated(rule: Rule, most: int | None) -> Simulated:
    if rule.stopping.kind == "anytime":
        return _watched(rule, most)
    generator = np.random.default_rng(_SEED)
    if rule.interval == "perm_exact":
        return _permuted(rule, generator)
    return simulate(rule, Nested(), num=NUM, generator=generator)


def _watched(rule: Rule, most: int | None) -> Simulated:
    """Simulate a look after every seed, by running sums: `simulate` would take a hundred passes."""
    looks = rule.looks_up_to(most)
    arms = Nested().draw(NUM, 2, looks[-1], np.random.default_rng(_SEED))
    differences = (arms[:, 1] - arms[:, 0]).T
    n = np.arange(1, looks[-1] + 1)[:, None]
    sums, squares = np.cumsum(differences, axis=0), np.cumsum(differences**2, axis=0)
    means = sums / n
    errors = np.sqrt((squares - sums * means) / np.maximum(n - 1, 1) / n)
    places = np.array(looks) - 1
    reach = np.array([[critical_t(look, rule.alpha)] for look in looks]) * errors[places]
    return Simulated(
        rule=rule, seeds=looks, lower=means[places] - reach, upper=means[places] + reach
    )


def _permuted(rule: Rule, generator: np.random.Generator) -> Simulated:
    looks = rule.stopping.looks
    arms = Nested().draw(NUM, 2, looks[-1], generator)
    found = []
    for n in looks:
        level, bounds_of = rule.look_alpha, rule
        if n > MOST_ENUMERATED:
            splits = num_splits(n, n)
            level = math.floor(level * splits + 1e-9) / splits
            bounds_of = replace(rule, interval="welch_t")
        found.append(rows_bounds(bounds_of, arms[:, 0, :n], arms[:, 1, :n], level))
    return Simulated(
        rule=rule,
        seeds=looks,
        lower=np.stack([bounds.lower for bounds in found]),
        upper=np.stack([bounds.upper for bounds in found]),
    )
