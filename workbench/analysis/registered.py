"""A registered decision, of one claim or a family, applied to values of every measure it needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.analysis.claims import Direction
from workbench.analysis.families import decide_family
from workbench.analysis.looks import Comparison, DivergenceRule, Look, Measured, State, decide_look
from workbench.analysis.rules import NoiseFloor, Rule

CONTROL, TREATMENT = "control", "treatment"
ByArm = Mapping[str, Sequence[Measured]]
"""Values of one measure, under ``control`` and ``treatment``."""


class Terms(Protocol):
    """What all claims of one decision share."""

    @property
    def interval(self) -> str:
        """Name of the interval."""

    @property
    def stopping(self) -> str:
        """Like ``group(3,5,8)``."""

    @property
    def alpha(self) -> float:
        """Of each one-sided error, over all looks and claims."""

    @property
    def multiplicity(self) -> str:
        """``none`` or ``holm``."""


class Claimed(Protocol):
    """One claim as it was registered."""

    @property
    def hypothesis(self) -> str:
        """Its id, like ``H1``."""

    @property
    def metric(self) -> str:
        """Name of the measure."""

    @property
    def direction(self) -> Direction:
        """Which way the measure is better."""

    @property
    def claim(self) -> str:
        """Like ``superior(0.02)``."""


@dataclass(frozen=True, kw_only=True)
class PlannedClaim:
    """One claim with its rule."""

    hypothesis: str
    metric: str
    direction: Direction
    rule: Rule


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The claims that the same runs decide; the first is the one that the actions follow.

    Raises:
        ValueError: claims that cannot be decided together, or two of one hypothesis.
    """

    claims: tuple[PlannedClaim, ...]
    most: int
    """Registered seeds an arm, at which every stopping rule ends."""
    divergence: DivergenceRule

    def __post_init__(self) -> None:
        names = [claim.hypothesis for claim in self.claims]
        if len(set(names)) < len(names):
            raise ValueError(f"two claims of one hypothesis: {names}")
        family = {claim.rule.multiplicity for claim in self.claims} == {"holm"}
        if len(self.claims) > 1 and not family:
            raise ValueError(f"{len(self.claims)} claims without multiplicity holm")
        if len(self.claims) == 1 and family:
            raise ValueError("multiplicity holm with one claim: there is nothing to correct for")
        self.looks()

    @classmethod
    def of(
        cls,
        terms: Terms,
        claims: Iterable[Claimed],
        *,
        seeds: int,
        divergence: DivergenceRule,
        data_arms: bool,
        noise_floors: Mapping[str, NoiseFloor] | None = None,
    ) -> "Decision":
        """Return the decision of a proposal.

        Args:
            terms: Interval, stopping, α and multiplicity.
            claims: The first claim, then its family.
            seeds: Registered seeds an arm.
            divergence: What a diverged run does.
            data_arms: Whether the arms differ in their data.
            noise_floors: By metric; only ``calibrated_t`` takes one.

        Raises:
            ValueError: no rule, or rules that do not go together.
        """
        floors = noise_floors or {}
        planned = tuple(
            PlannedClaim(
                hypothesis=claim.hypothesis,
                metric=claim.metric,
                direction=claim.direction,
                rule=Rule.of(
                    claim=claim.claim,
                    interval=terms.interval,
                    stopping=terms.stopping,
                    alpha=terms.alpha,
                    multiplicity=terms.multiplicity,
                    noise_floor=floors.get(claim.metric),
                    data_arms=data_arms,
                ),
            )
            for claim in claims
        )
        return cls(claims=planned, most=seeds, divergence=divergence)

    def looks(self) -> tuple[int, ...]:
        """Return the seeds an arm at each look."""
        return self.claims[0].rule.looks_up_to(self.most)

    def look_at(
        self, values: Mapping[str, ByArm], num_seeds: int, *, before: "JointLook | None" = None
    ) -> "JointLook":
        """Return what the rules say when each arm has its first ``num_seeds`` seeds.

        A claim of a family that an earlier look decided stays as it was decided there: each look
        is a family at its share of α, so that what any of them shows is held to α together.

        Args:
            values: By metric; of these seeds only, None for a run that diverged.
            num_seeds: One of `looks`.
            before: The look before this one; None at the first.

        Raises:
            ValueError: no look of the rule, or values of seeds beyond it, or two of one seed.
        """
        members = {
            claim.hypothesis: Comparison(
                rule=claim.rule,
                direction=claim.direction,
                divergence=self.divergence,
                control=tuple(values[claim.metric][CONTROL]),
                treatment=tuple(values[claim.metric][TREATMENT]),
            )
            for claim in self.claims
        }
        if len(members) > 1:
            found = decide_family(members, num_seeds, most=self.most)
        else:
            found = {
                name: decide_look(member, num_seeds, most=self.most)
                for name, member in members.items()
            }
        looks = self.looks()
        place = looks.index(num_seeds)
        following = looks[place + 1] if place + 1 < len(looks) else None
        return _joint(found, before, number=place + 1, num_seeds=num_seeds, following=following)


@dataclass(frozen=True, kw_only=True)
class JointLook:
    """What all claims say at one look. It goes on while any claim is open."""

    number: int
    """From 1."""
    num_seeds: int
    state: State
    next_seeds: int | None
    by_hypothesis: Mapping[str, Look]
    """The first claim first; of a claim that was decided earlier, the look that decided it."""


def _joint(
    found: Mapping[str, Look],
    before: JointLook | None,
    *,
    number: int,
    num_seeds: int,
    following: int | None,
) -> JointLook:
    decided = {
        name: look
        for name, look in (before.by_hypothesis if before else {}).items()
        if look.judgement.outcome in ("supported", "refuted")
    }
    looks = {name: decided.get(name, look) for name, look in found.items()}
    is_open = any(look.judgement.outcome == "inconclusive" for look in looks.values())
    next_seeds = following if is_open else None
    state: State = "final" if following is None else "stop"
    return JointLook(
        number=number,
        num_seeds=num_seeds,
        state="go_on" if next_seeds is not None else state,
        next_seeds=next_seeds,
        by_hypothesis=looks,
    )
