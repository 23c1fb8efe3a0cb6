"""Decision rules as they are registered: claim, interval, stopping, error and family."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

from workbench.analysis.claims import (
    CLAIM_KINDS,
    LARGEST,
    ClaimKind,
    IntervalKind,
    check_rule,
    sample_variance,
)
from workbench.analysis.eprocess import critical_t
from workbench.analysis.permutation import MOST_SPLITS, num_splits, smallest_p

StoppingKind: TypeAlias = Literal["fixed", "group", "anytime"]
Multiplicity: TypeAlias = Literal["none", "holm"]

INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
FEWEST_FLOOR_RUNS = 10
"""Repeats below which a noise floor is too uncertain to lend its spread to others."""
_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_CLAIM = re.compile(rf"({'|'.join(CLAIM_KINDS)})\(({_NUMBER})\)")
_RULE = re.compile(
    rf"(?P<claim>\S+) +(?P<interval>\S+) +(?P<stopping>\S+) +alpha +(?P<alpha>{_NUMBER})"
    r"(?: +(?P<multiplicity>\S+))?"
)


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """The spread of repeats of identical code, measured apart from the arms.

    Raises:
        ValueError: fewer than 10 runs, or a spread that is not positive and finite.
    """

    sd: float
    num_runs: int

    def __post_init__(self) -> None:
        if self.num_runs < FEWEST_FLOOR_RUNS:
            raise ValueError(
                f"a noise floor of {self.num_runs} runs is too uncertain: it takes at least "
                f"{FEWEST_FLOOR_RUNS}"
            )
        if not (math.isfinite(self.sd) and self.sd > 0):
            raise ValueError(f"noise floor {self.sd!r} must be finite and positive")

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the floor of repeats' final values.

        Raises:
            ValueError: too few values, no variation, or one that is not finite.
        """
        if not all(math.isfinite(value) for value in values):
            raise ValueError("a noise floor needs finite values: leave no run out silently")
        if any(abs(value) > LARGEST for value in values):
            raise ValueError(f"a noise floor needs values within {LARGEST:g}")
        spread = sample_variance(values) if len(values) > 1 else 0.0
        return cls(sd=math.sqrt(spread), num_runs=len(values))

    @property
    def degrees_of_freedom(self) -> int:
        """Of the spread."""
        return self.num_runs - 1


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """When a rule looks at the outcomes.

    ``fixed(n)`` looks once, ``group(a,b,c)`` at each of its numbers of seeds with an equal share
    of α, ``anytime`` after any seed.

    Raises:
        ValueError: looks below 2 seeds, not rising, or of the wrong number.
    """

    kind: StoppingKind
    looks: tuple[int, ...]
    """Seeds an arm at each look, rising; empty for ``anytime``."""

    def __post_init__(self) -> None:
        fewest = {"fixed": 1, "group": 2, "anytime": 0}[self.kind]
        most = {"fixed": 1, "group": len(self.looks), "anytime": 0}[self.kind]
        if not fewest <= len(self.looks) <= most:
            raise ValueError(f"stopping {self.text} has {len(self.looks)} looks")
        rising = all(a < b for a, b in zip(self.looks, self.looks[1:], strict=False))
        if not rising or any(n < 2 for n in self.looks):
            raise ValueError(f"stopping {self.text}: looks must rise and have 2 seeds at least")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what ``fixed(5)``, ``group(3,5,8)`` or ``anytime`` says.

        Raises:
            ValueError: none of these forms.
        """
        if text == "anytime":
            return cls(kind="anytime", looks=())
        if found := re.fullmatch(r"fixed\(([0-9]+)\)", text):
            return cls(kind="fixed", looks=(int(found[1]),))
        if found := re.fullmatch(r"group\(([0-9]+(?:, *[0-9]+)*)\)", text):
            return cls(kind="group", looks=tuple(int(n) for n in found[1].split(",")))
        raise ValueError(f"stopping {text!r} is not fixed(n), group(a,b,c) or anytime")

    @property
    def text(self) -> str:
        """The registered form."""
        return f"{self.kind}({','.join(map(str, self.looks))})" if self.looks else self.kind


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a verdict follows from the numbers; nothing in it depends on them.

    Raises:
        ValueError: a part that no rule can have, or parts that do not go together.
    """

    claim_kind: ClaimKind
    margin: float
    """The δ of the claim, in the metric's unit."""
    interval: IntervalKind
    stopping: Stopping
    alpha: float
    """Of each one-sided error, over all looks and the whole family."""
    multiplicity: Multiplicity = "none"
    noise_floor: NoiseFloor | None = None
    """Only of ``calibrated_t``."""
    data_arms: bool | None = None
    """Whether the arms differ in their data; ``calibrated_t`` must be told, the others need not."""

    def __post_init__(self) -> None:
        check_rule(self.claim_kind, self.margin, self.alpha)
        if self.claim_kind == "equivalent" and self.margin == 0:
            raise ValueError("equivalent(0) can never be supported: state what is close enough")
        if self.interval not in INTERVAL_KINDS:
            raise ValueError(f"interval {self.interval!r} is not one of {list(INTERVAL_KINDS)}")
        if self.multiplicity not in get_args(Multiplicity):
            raise ValueError(f"multiplicity {self.multiplicity!r} is neither 'none' nor 'holm'")
        self._check_anytime()
        self._check_floor()
        self._check_attainable()

    @classmethod
    def of(
        cls,
        *,
        claim: str,
        interval: str,
        stopping: str,
        alpha: float,
        multiplicity: str = "none",
        noise_floor: NoiseFloor | None = None,
        data_arms: bool | None = None,
    ) -> Self:
        """Return the rule of a proposal's text fields.

        Raises:
            ValueError: a field that cannot be read, or as the class.
        """
        found = _CLAIM.fullmatch(claim)
        if not found:
            raise ValueError(f"claim {claim!r} is not {'(δ), '.join(CLAIM_KINDS)}(δ) with δ >= 0")
        return cls(
            claim_kind=_one_of(found[1], CLAIM_KINDS),
            margin=float(found[2]),
            # Unknown words are refused by the class, which names those there are.
            interval=interval,  # type: ignore[arg-type]
            stopping=Stopping.parse(stopping),
            alpha=alpha,
            multiplicity=multiplicity,  # type: ignore[arg-type]
            noise_floor=noise_floor,
            data_arms=data_arms,
        )

    @classmethod
    def parse(
        cls, text: str, *, noise_floor: NoiseFloor | None = None, data_arms: bool | None = None
    ) -> Self:
        """Return the rule of one line, ``superior(0.02) welch_t fixed(5) alpha 0.05 [holm]``.

        Raises:
            ValueError: another form, or as the class.
        """
        found = _RULE.fullmatch(text.strip())
        if not found:
            raise ValueError(
                f"rule {text!r} is not of the form 'superior(0.02) welch_t fixed(5) alpha 0.05'"
            )
        return cls.of(
            claim=found["claim"],
            interval=found["interval"],
            stopping=found["stopping"],
            alpha=float(found["alpha"]),
            multiplicity=found["multiplicity"] or "none",
            noise_floor=noise_floor,
            data_arms=data_arms,
        )

    @property
    def claim(self) -> str:
        """The registered form of the claim."""
        return f"{self.claim_kind}({self.margin:g})"

    @property
    def text(self) -> str:
        """The rule in one line, which `parse` reads."""
        family = "" if self.multiplicity == "none" else f" {self.multiplicity}"
        return f"{self.claim} {self.interval} {self.stopping.text} alpha {self.alpha:g}{family}"

    @property
    def look_alpha(self) -> float:
        """The share of α that one look has: α/K for K looks (Bonferroni), α otherwise.

        ``anytime`` spends nothing: its bounds hold at all looks together.
        """
        return self.alpha / max(1, len(self.stopping.looks))

    def looks_up_to(self, most: int | None) -> tuple[int, ...]:
        """Return the seeds an arm at each look.

        ``anytime`` looks first where its evidence can reach 1/α at all: an earlier look would
        expose the outcomes and could show nothing.

        Args:
            most: Registered seeds an arm: where ``anytime`` ends. The other forms say it
                themselves, and may be given none.

        Raises:
            ValueError: ``anytime`` without a number of seeds or with too few to show anything, or
                a number that the form contradicts.
        """
        stopping = self.stopping
        if stopping.looks:
            if most not in (None, stopping.looks[-1]):
                raise ValueError(
                    f"stopping {stopping.text} ends at {stopping.looks[-1]} seeds, not {most}"
                )
            return stopping.looks
        if most is None:
            raise ValueError("anytime needs the registered number of seeds")
        able = (n for n in range(2, most + 1) if math.isfinite(critical_t(n, self.alpha)))
        looks = tuple(range(next(able, most + 1), most + 1))
        if not looks:
            raise ValueError(f"anytime can show nothing with {most} seeds at alpha {self.alpha:g}")
        return looks

    def _check_anytime(self) -> None:
        if self.stopping.kind == "anytime" and self.interval != "paired_t":
            raise ValueError(
                f"anytime with {self.interval}: its e-process is of the differences by seed index, "
                "so write interval paired_t (arms that share nothing but the index may be paired)"
            )

    def _check_floor(self) -> None:
        if self.interval != "calibrated_t":
            if self.noise_floor is not None:
                raise ValueError(f"interval {self.interval} uses no noise floor")
            return
        if self.data_arms is None:
            raise ValueError("calibrated_t must be told whether the arms differ in their data")
        if self.data_arms:
            raise ValueError(
                "calibrated_t is refused for arms that differ in their data: spread differs by "
                "mixture, so a floor of one says nothing of the other; write welch_t"
            )
        if self.noise_floor is None:
            raise ValueError("calibrated_t needs a measured noise floor, which was not given")

    def _check_attainable(self) -> None:
        if self.interval != "perm_exact":
            return
        for n in self.stopping.looks:
            # There are more than 2**n splits, and counting those of a huge n would never end.
            if n > MOST_SPLITS.bit_length() or num_splits(n, n) > MOST_SPLITS:
                raise ValueError(f"perm_exact at {n} seeds an arm is too many splits to enumerate")
            if smallest_p(n, n) > self.look_alpha * (1 + 1e-9):
                raise ValueError(
                    f"perm_exact at {n} seeds an arm cannot reach alpha {self.look_alpha:g} of "
                    f"{self.stopping.text}: its smallest p is {smallest_p(n, n):.4g}"
                )


def _one_of(text: str, kinds: Sequence[ClaimKind]) -> ClaimKind:
    return next(kind for kind in kinds if kind == text)
