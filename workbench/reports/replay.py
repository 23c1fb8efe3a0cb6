"""The registered rule applied again to what each look recorded, in the order of the ledger.

A single claim by Welch's t at a fixed number of seeds is judged here, without numpy and scipy
(docs/decisions/0012). Every other rule is applied by what is passed: `workbench.reports.applied`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from workbench.analysis.claims import Judgement, judge
from workbench.registry.amended import amended
from workbench.registry.entries import (
    ClaimResult,
    NoiseFloor,
    Registration,
    SeedValue,
    Verdict,
)
from workbench.registry.proposal import DecisionRule, Proposal, RegisteredClaim
from workbench.reports.differences import differs
from workbench.reports.facts import ExperimentFacts, registered_proposal

ByArm = Mapping[str, Sequence[SeedValue]]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the registered rule says at one look."""

    number: int
    num_seeds: int
    state: str
    next_seeds: int | None
    by_hypothesis: Mapping[str, Judgement]


class AppliedRule(Protocol):
    """A registered rule, ready to be applied."""

    def looks(self) -> tuple[int, ...]:
        """Return the seeds an arm at each look."""

    def at(self, values: ByArm, num_seeds: int, before: Said | None) -> Said:
        """Return what it says of these values, given the look before.

        Raises:
            ValueError: no look of the rule, or values that it cannot take.
        """


Apply: TypeAlias = Callable[[Proposal, NoiseFloor | None], AppliedRule]
"""Makes a rule of a proposal and the noise floor that it names; ValueError where there is none."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the rule says of the values of one look or verdict."""

    said: Said | None
    fault: str = ""
    """Why it says nothing; empty otherwise."""


@dataclass(frozen=True, kw_only=True)
class PlainRule:
    """One claim by Welch's t at a fixed number of seeds; an `AppliedRule`.

    Values that are absent are left out; `checks.check_seeds` says whether that was allowed.
    """

    proposal: Proposal

    def looks(self) -> tuple[int, ...]:
        """Return the one registered number of seeds.

        Raises:
            ValueError: the design says another.
        """
        looks, most = self.proposal.decision.looks, self.proposal.design.seeds
        if looks != (most,):
            raise ValueError(f"{self.proposal.decision.stopping} with {most} seeds an arm")
        return looks

    def at(self, values: ByArm, num_seeds: int, before: Said | None) -> Said:
        """Return what Welch's t says of these values; nothing comes before it."""
        if before is not None or (num_seeds,) != self.looks():
            raise ValueError(f"the rule looks once, at {self.looks()[0]} seeds, not {num_seeds}")
        rule = self.proposal.decision
        control, treatment = (
            [seed.value for seed in values.get(arm, []) if seed.value is not None]
            for arm in ("control", "treatment")
        )
        judged = judge(
            control,
            treatment,
            direction=self.proposal.measures.primary.direction,
            claim_kind=rule.claim_kind,
            margin=rule.margin,
            alpha=rule.alpha,
        )
        return Said(
            number=1,
            num_seeds=num_seeds,
            state="final",
            next_seeds=None,
            by_hypothesis={rule.hypothesis: judged},
        )


def is_plain(rule: DecisionRule) -> bool:
    """Return whether it is a single claim by Welch's t at a fixed number of seeds."""
    single = rule.multiplicity == "none" and not rule.family
    return rule.interval == "welch_t" and rule.stopping.startswith("fixed") and single


def rule_of(facts: ExperimentFacts, proposal: Proposal, apply: Apply) -> AppliedRule:
    """Return the rule of a proposal, ready to be applied.

    Raises:
        ValueError: what was registered is no rule that can be applied.
    """
    if is_plain(proposal.decision):
        return PlainRule(proposal=proposal)
    return apply(proposal, facts.noise_floor.value if facts.noise_floor else None)


def replayed_looks(facts: ExperimentFacts, apply: Apply) -> list[Replayed]:
    """Return what the rule says at each look, each given the one before it."""
    found: list[Replayed] = []
    for look in facts.looks:
        proposal = _proposal_at(facts, look.sources[0].sequence)
        before = found[-1].said if found else None
        body = look.value
        found.append(_replayed(facts, proposal, apply, body.values, body.num_seeds, before))
    return found


def replayed_verdict(facts: ExperimentFacts, verdict: Verdict, apply: Apply) -> Replayed:
    """Return what the rule in force says of the verdict's own values, given the earlier looks."""
    proposal = facts.proposal
    most = proposal.design.seeds if proposal else 0
    num_seeds = most if verdict.num_seeds is None else verdict.num_seeds
    earlier = [found.said for found in replayed_looks(facts, apply) if found.said is not None]
    before = next((said for said in reversed(earlier) if said.num_seeds < num_seeds), None)
    return _replayed(facts, proposal, apply, verdict.values, num_seeds, before)


def _replayed(
    facts: ExperimentFacts,
    proposal: Proposal | None,
    apply: Apply,
    values: ByArm,
    num_seeds: int,
    before: Said | None,
) -> Replayed:
    if proposal is None:
        return Replayed(said=None, fault="nothing was registered")
    try:
        return Replayed(said=rule_of(facts, proposal, apply).at(values, num_seeds, before))
    except ValueError as error:
        return Replayed(said=None, fault=str(error))


def _proposal_at(facts: ExperimentFacts, sequence: int) -> Proposal | None:
    """Return the front matter that was in force before an entry."""
    registration, proposal = facts.course.registration, facts.proposal
    if not facts.course.late() or registration is None or facts.original is None:
        return proposal
    proposal = registered_proposal(facts.original.value)
    for amendment in facts.course.amendments:
        body = amended(registration, amendment.entry).body
        if amendment.entry.sequence < sequence and isinstance(body, Registration):
            proposal = registered_proposal(body)
    return proposal


def is_shut(values: ByArm, void_reasons: Sequence[str]) -> bool:
    """Return whether nothing was opened, since there was nothing to judge."""
    return bool(void_reasons) and all(
        seed.value is None for seeds in values.values() for seed in seeds
    )


def shut_faults(recorded: Sequence[ClaimResult], proposal: Proposal) -> Iterator[str]:
    """Yield where the results of what was not opened say more than that they are void."""
    rule = proposal.decision
    yield from _static_faults(recorded, proposal.claims())
    for result in recorded:
        numbers = (result.estimate, result.lower, result.upper, result.degrees_of_freedom)
        if result.outcome != "void" or any(number is not None for number in numbers):
            yield f"{result.hypothesis}: {result.outcome} by {numbers}, and nothing was opened"
        if (result.interval, result.alpha) != (rule.interval, rule.alpha):
            yield f"{result.hypothesis}: {result.interval} at {result.alpha:g} of what is void"
        if not result.reason:
            yield f"{result.hypothesis}: void without a reason"


def result_faults(
    recorded: Sequence[ClaimResult], found: Said, claims: Sequence[RegisteredClaim]
) -> Iterator[str]:
    """Yield where the results of a look or verdict are not those that the rule gives."""
    yield from _static_faults(recorded, claims)
    for result in recorded:
        name, judged = result.hypothesis, found.by_hypothesis.get(result.hypothesis)
        if judged is None:
            continue
        if result.outcome != judged.outcome:
            yield f"{name}: recorded {result.outcome}, recomputed {judged.outcome}"
        if result.interval != judged.interval:
            yield f"{name}: bounds by {result.interval}, recomputed by {judged.interval}"
        if bool(result.reason) != bool(judged.reason):
            yield f"{name}: reason {result.reason!r}, recomputed {judged.reason!r}"
        for part in ("alpha", "estimate", "lower", "upper", "degrees_of_freedom"):
            yield from differs(f"{part} of {name}", getattr(result, part), getattr(judged, part))


def _static_faults(
    recorded: Sequence[ClaimResult], claims: Sequence[RegisteredClaim]
) -> Iterator[str]:
    """Yield where results are of other claims than were registered, or in another order."""
    told = [(r.hypothesis, r.claim, r.metric, r.direction) for r in recorded]
    registered = [(c.hypothesis, c.claim, c.metric, c.direction) for c in claims]
    if told != registered:
        yield f"results of {told}, registered were {registered}"
