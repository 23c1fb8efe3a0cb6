"""Whether a verdict follows from its values, and its values agree with each other."""

import math
from collections.abc import Iterator, Mapping, Sequence

from workbench.registry.entries import GuardrailResult, Look, SeedValue, Verdict
from workbench.reports.claim import Claim, seeds_of
from workbench.reports.differences import differs
from workbench.reports.facts import Cited
from workbench.reports.replay import (
    Replayed,
    Said,
    is_shut,
    replayed_looks,
    replayed_verdict,
    result_faults,
    shut_faults,
)

TREATMENT = "treatment"


def check_outcome(claim: Claim) -> Iterator[str]:
    """7. The registered rule, applied to the values of each look, gives what was recorded."""
    for look, found in zip(
        claim.facts.looks, replayed_looks(claim.facts, claim.apply), strict=True
    ):
        yield from _look_faults(claim, look, found)
    body = claim.verdict.value
    yield from _metric_faults(claim, "the verdict", seeds_of(body))
    if body.void_reasons and body.outcome != "void":
        yield f"{body.outcome} although void: {'; '.join(body.void_reasons)}"
    if is_shut(body.values, body.void_reasons):
        yield from _shut_faults(claim)
        return
    replayed = replayed_verdict(claim.facts, body, claim.apply)
    if replayed.said is None:
        yield f"the rule cannot be applied to the verdict's values: {replayed.fault}"
        return
    yield from _verdict_faults(claim, replayed.said)


def _look_faults(claim: Claim, look: Cited[Look], replayed: Replayed) -> Iterator[str]:
    body, name = look.value, f"look {look.value.number}"
    seeds = [seed for arm in body.values.values() for seed in arm]
    yield from _metric_faults(claim, name, seeds)
    if is_shut(body.values, body.void_reasons):
        yield from (f"{name}: {fault}" for fault in shut_faults(body.results, claim.proposal))
        if body.state == "go_on" or body.next_seeds is not None:
            yield f"{name} goes on although void: {'; '.join(body.void_reasons)}"
        return
    found = replayed.said
    if found is None:
        yield f"the rule cannot be applied at {name}: {replayed.fault}"
        return
    for fault in result_faults(body.results, found, claim.proposal.claims()):
        yield f"{name}: {fault}"
    first = found.by_hypothesis[claim.proposal.decision.hypothesis]
    if body.void_reasons and first.outcome != "void":
        yield f"{name} tells values although void: {'; '.join(body.void_reasons)}"
    if (body.state, body.next_seeds) != (found.state, found.next_seeds):
        yield (
            f"{name}: recorded {body.state} with next {body.next_seeds}, recomputed "
            f"{found.state} with next {found.next_seeds}"
        )


def _shut_faults(claim: Claim) -> Iterator[str]:
    """Yield where a verdict that opened nothing is more than void."""
    body = claim.verdict.value
    if body.outcome != "void":
        yield f"recorded {body.outcome}, and nothing was opened"
    for name in ("estimate", "lower", "upper", "degrees_of_freedom"):
        yield from differs(name, getattr(body, name), None)
    if not claim.is_older:
        yield from shut_faults(body.results, claim.proposal)


def _verdict_faults(claim: Claim, found: Said) -> Iterator[str]:
    body, late = claim.verdict.value, claim.facts.course.late()
    first = found.by_hypothesis[claim.proposal.decision.hypothesis]
    outcome = "void" if late or _is_abandoned(claim) else first.outcome
    if outcome == "supported" and not all(rail.held for rail in body.guardrails):
        outcome = "refuted"
    if outcome != body.outcome:
        yield f"recorded {body.outcome}, recomputed {outcome}"
    for name in ("estimate", "lower", "upper", "degrees_of_freedom"):
        yield from differs(name, getattr(body, name), getattr(first, name))
    if not claim.is_older:
        yield from result_faults(body.results, found, claim.proposal.claims())


def _is_abandoned(claim: Claim) -> bool:
    """Return whether the runs of a further look, which the last one asked for, are given up."""
    looks, body = claim.facts.looks, claim.verdict.value
    return bool(looks and looks[-1].value.state == "go_on" and body.void_reasons)


def _metric_faults(claim: Claim, name: str, seeds: Sequence[SeedValue]) -> Iterator[str]:
    """Yield seeds whose metrics are missing or say another value."""
    metric = claim.proposal.measures.primary.metric
    for seed in seeds:
        if seed.value is None and seed.metrics:
            yield f"{name}: {seed.run} has metrics and no value"
        if seed.value is None or claim.is_older:
            continue
        if metric not in seed.metrics:
            yield f"{name}: the metrics of {seed.run} are without {metric}"
        else:
            yield from differs(f"{metric} of {seed.run}", seed.value, seed.metrics[metric])


def check_guardrails(claim: Claim) -> Iterator[str]:
    """8. Every registered bound was looked at, and held or not as its mean says."""
    body = claim.verdict.value
    registered = [(rail.metric, rail.at_most) for rail in claim.proposal.measures.guardrails]
    if [(rail.metric, rail.at_most) for rail in body.guardrails] != registered:
        yield "the guardrails are not the registered ones"
    means = body.per_metric if claim.is_older else _means(body)
    if not claim.is_older:
        yield from _mean_faults(body, means)
    for rail in body.guardrails:
        if rail.held != (rail.treatment_mean <= rail.at_most):
            yield f"guardrail {rail.metric}: {rail.treatment_mean!r} against {rail.at_most!r}"
        yield from _rail_faults(claim, rail, means)


def _rail_faults(
    claim: Claim, rail: GuardrailResult, means: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    found = means.get(rail.metric, {}).get(TREATMENT)
    if found is None and claim.is_older and not means.get(rail.metric):
        return
    if found is None and not claim.is_older and math.isnan(rail.treatment_mean):
        return  # a bound of what was not measured is not held
    yield from differs(f"guardrail {rail.metric}", rail.treatment_mean, found)


def _means(body: Verdict) -> dict[str, dict[str, float]]:
    """Return the mean of every metric by arm, over the seeds that have a value."""
    found: dict[str, dict[str, float]] = {}
    for arm, seeds in body.values.items():
        told = [seed.metrics for seed in seeds if seed.value is not None]
        for metric in dict.fromkeys(name for metrics in told for name in metrics):
            values = [metrics[metric] for metrics in told if metric in metrics]
            if len(values) == len(told):
                found.setdefault(metric, {})[arm] = sum(values) / len(values)
    return found


def _mean_faults(body: Verdict, means: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    untold = set(means) - set(body.per_metric) - {body.metric}
    if untold:
        yield f"the means of {sorted(untold)} are not told"
    for metric, arms in body.per_metric.items():
        found = means.get(metric, {})
        if set(arms) != set(found):
            yield f"means of {metric} for {sorted(arms)}, values are of {sorted(found)}"
        for arm in sorted(set(arms) & set(found)):
            yield from differs(f"mean {metric} of {arm}", arms[arm], found[arm])
