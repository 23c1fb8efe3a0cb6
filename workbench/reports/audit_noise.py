"""Whether a noise floor is the one that was registered, and follows from its repeats."""

import math
from collections.abc import Iterator

from workbench.analysis.claims import sample_variance
from workbench.registry.entries import NoiseFloor
from workbench.reports.claim import Claim
from workbench.reports.differences import differs
from workbench.reports.facts import registered_proposal


def floor_faults(claim: Claim) -> Iterator[str]:
    """Yield what is wrong with the noise floor of a rule that needs one."""
    named = claim.proposal.decision.noise_floor
    if claim.verdict.value.noise_floor != named and not claim.is_older:
        yield f"noise floor {claim.verdict.value.noise_floor!r} was registered as {named!r}"
    if claim.proposal.decision.interval != "calibrated_t":
        return
    if claim.proposal.arms_differ_in_data:
        yield "calibrated_t compares arms that differ in their data, whose spreads may differ"
    floor = claim.facts.noise_floor
    if floor is None:
        yield f"the log has no noise floor with the leaf {named!r}"
        return
    if floor.sources[0].sequence > _named_at(claim):
        yield f"the noise floor (entry {floor.sources[0].sequence}) was recorded after it was named"
    yield from spread_faults(floor.value)


def _named_at(claim: Claim) -> int:
    """Return the place of the first registration or amendment that names the floor in force."""
    facts, named = claim.facts, claim.proposal.decision.noise_floor
    original = facts.original
    if original and registered_proposal(original.value).decision.noise_floor == named:
        return original.sources[0].sequence
    for amendment in facts.amendments:
        frozen = amendment.value.frozen
        decision = frozen.get("decision") if isinstance(frozen, dict) else None
        if isinstance(decision, dict) and decision.get("noise_floor") == named:
            return amendment.sources[0].sequence
    return claim.registration.sources[-1].sequence


def spread_faults(floor: NoiseFloor) -> Iterator[str]:
    """Yield where count and spreads of a noise floor are not those of its repeats."""
    completed = [repeat for repeat in floor.repeats if repeat.state == "completed"]
    seeds = [repeat.seed for repeat in floor.repeats if repeat.seed]
    if len(set(seeds)) < len(seeds):
        yield "the noise floor counts a seed twice"
    if floor.num_runs != len(completed):
        yield f"the noise floor says {floor.num_runs} runs, {len(completed)} completed"
    for metric, recorded in floor.spreads.items():
        values = [repeat.values[metric] for repeat in completed if metric in repeat.values]
        complete = len(values) == len(completed) > 1 and all(map(math.isfinite, values))
        found = math.sqrt(sample_variance(values)) if complete else None
        yield from differs(f"spread of {metric} in the noise floor", recorded, found)
