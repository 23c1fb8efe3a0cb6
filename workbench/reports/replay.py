"""The registered rule applied again to what each look recorded, in the order of the ledger."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.looks import Measured
from workbench.analysis.registered import Decision, JointLook
from workbench.analysis.rules import NoiseFloor
from workbench.registry import entries
from workbench.registry.amended import amended
from workbench.registry.entries import ClaimResult, Registration, SeedValue, Verdict
from workbench.registry.proposal import Proposal, RegisteredClaim
from workbench.reports.differences import differs
from workbench.reports.facts import ExperimentFacts, registered_proposal

ARMS = ("control", "treatment")
ByArm = Mapping[str, Sequence[SeedValue]]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the rule says of the values of one look or verdict."""

    look: JointLook | None
    fault: str = ""
    """Why it says nothing; empty otherwise."""


def decision_of(proposal: Proposal, floor: entries.NoiseFloor | None) -> Decision:
    """Return what was registered to be decided, ready to be applied.

    Args:
        proposal: As it is in force.
        floor: The noise floor that it names.

    Raises:
        ValueError: no rule that can be applied.
    """
    spreads = floor.spreads if floor else {}
    wanted = {claim.metric for claim in proposal.claims()}
    calibrated = proposal.decision.interval == "calibrated_t"
    return Decision.of(
        terms=proposal.decision,
        claims=proposal.claims(),
        seeds=proposal.design.seeds,
        divergence=proposal.divergence.rule,
        data_arms=proposal.arms_differ_in_data,
        noise_floors={
            metric: NoiseFloor(sd=spreads[metric], num_runs=floor.num_runs)
            for metric in wanted & set(spreads)
            if calibrated and floor
        },
    )


def replayed_looks(facts: ExperimentFacts) -> list[Replayed]:
    """Return what the rule says at each look, each given the one before it."""
    found: list[Replayed] = []
    for look in facts.looks:
        proposal = _proposal_at(facts, look.sources[0].sequence)
        before = found[-1].look if found else None
        body = look.value
        found.append(_replayed(facts, proposal, body.values, body.num_seeds, before))
    return found


def replayed_verdict(facts: ExperimentFacts, verdict: Verdict) -> Replayed:
    """Return what the rule in force says of the verdict's own values, given the earlier looks."""
    proposal = facts.proposal
    most = proposal.design.seeds if proposal else 0
    num_seeds = most if verdict.num_seeds is None else verdict.num_seeds
    earlier = [found.look for found in replayed_looks(facts) if found.look is not None]
    before = next((look for look in reversed(earlier) if look.num_seeds < num_seeds), None)
    return _replayed(facts, proposal, verdict.values, num_seeds, before)


def _replayed(
    facts: ExperimentFacts,
    proposal: Proposal | None,
    values: ByArm,
    num_seeds: int,
    before: JointLook | None,
) -> Replayed:
    if proposal is None:
        return Replayed(look=None, fault="nothing was registered")
    floor = facts.noise_floor.value if facts.noise_floor else None
    try:
        decision = decision_of(proposal, floor)
        measured = _measured(values, proposal.claims())
        return Replayed(look=decision.look_at(measured, num_seeds, before=before))
    except ValueError as error:
        return Replayed(look=None, fault=str(error))


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


def _measured(
    values: ByArm, claims: Sequence[RegisteredClaim]
) -> dict[str, dict[str, list[Measured]]]:
    primary = claims[0].metric
    return {
        claim.metric: {
            arm: [
                Measured(seed_index=seed.seed_index, value=_value(seed, claim.metric, primary))
                for seed in values.get(arm, [])
            ]
            for arm in ARMS
        }
        for claim in claims
    }


def _value(seed: SeedValue, metric: str, primary: str) -> float | None:
    if seed.value is None or metric == primary:
        return seed.value
    if metric not in seed.metrics:
        raise ValueError(f"{seed.run} has no value of {metric}, which the family needs")
    return seed.metrics[metric]


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
    recorded: Sequence[ClaimResult], found: JointLook, claims: Sequence[RegisteredClaim]
) -> Iterator[str]:
    """Yield where the results of a look or verdict are not those that the rule gives."""
    yield from _static_faults(recorded, claims)
    for result in recorded:
        name, look = result.hypothesis, found.by_hypothesis.get(result.hypothesis)
        if look is None:
            continue
        judged = look.judgement
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
