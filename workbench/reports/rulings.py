"""What the registered rule said of each claim, look by look, as it is recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from workbench.analysis.claims import IntervalKind, Judgement
from workbench.analysis.explanation import Explanation, explain
from workbench.analysis.rules import Rule
from workbench.registry.entries import ClaimResult, Look, SeedValue, Verdict
from workbench.reports.applied import decision_of
from workbench.reports.facts import Cited, ExperimentFacts, Source

Values = Mapping[str, Sequence[tuple[int, float]]]
"""By arm: seed index and value, of the seeds that have one."""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One claim at one look, or at the verdict of a rule that looks once."""

    number: int
    num_seeds: int
    state: str
    """``go_on``, ``stop`` or ``final``; empty at a verdict without looks."""
    next_seeds: int | None
    result: ClaimResult
    values: Values
    """Of the claim's measure."""
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """One claim with all that was seen of it."""

    rule: Rule | None
    """None where it cannot be read from the record."""
    sightings: tuple[Sighting, ...]
    """In order; never empty."""

    @property
    def last(self) -> Sighting:
        """The newest, which decides once there is a verdict."""
        return self.sightings[-1]

    @property
    def result(self) -> ClaimResult:
        """What was said last."""
        return self.last.result


def rulings_of(facts: ExperimentFacts) -> tuple[Ruling, ...]:
    """Return the claims that were looked at, the first one first; none before any look."""
    rules = _rules(facts)
    sightings = _looked(facts)
    if not sightings and facts.verdict:
        sightings = [_judged(facts.verdict)]
    found: dict[str, list[Sighting]] = {}
    for sighting in (one for look in sightings for one in look):
        found.setdefault(sighting.result.hypothesis, []).append(sighting)
    return tuple(
        Ruling(rule=rules.get(name), sightings=tuple(seen)) for name, seen in found.items()
    )


def _rules(facts: ExperimentFacts) -> dict[str, Rule]:
    if facts.proposal is None:
        return {}
    floor = facts.noise_floor.value if facts.noise_floor else None
    try:
        decision = decision_of(facts.proposal, floor)
    except ValueError:
        return {}
    return {claim.hypothesis: claim.rule for claim in decision.claims}


def _looked(facts: ExperimentFacts) -> list[list[Sighting]]:
    return [found for look in facts.looks if (found := _look_sightings(look))]


def _look_sightings(look: Cited[Look]) -> list[Sighting]:
    body = look.value
    return [
        Sighting(
            number=body.number,
            num_seeds=body.num_seeds,
            state=body.state,
            next_seeds=body.next_seeds,
            result=result,
            values=_values(body.values, result.metric, body.results[0].metric),
            sources=look.sources,
        )
        for result in body.results
    ]


def _judged(verdict: Cited[Verdict]) -> list[Sighting]:
    body = verdict.value
    num_seeds = max((len(seeds) for seeds in body.values.values()), default=0)
    return [
        Sighting(
            number=body.look,
            num_seeds=body.num_seeds if body.num_seeds is not None else num_seeds,
            state="",
            next_seeds=None,
            result=result,
            values=_values(body.values, result.metric, body.metric),
            sources=verdict.sources,
        )
        for result in body.results or [_older_result(body)]
    ]


def _older_result(body: Verdict) -> ClaimResult:
    """Return the one claim of a verdict that is older than results."""
    return ClaimResult(
        hypothesis=body.hypothesis,
        claim=body.claim,
        metric=body.metric,
        direction=body.direction,
        outcome=body.outcome,
        estimate=body.estimate,
        lower=body.lower,
        upper=body.upper,
        degrees_of_freedom=body.degrees_of_freedom,
        interval=next(
            (kind for kind in get_args(IntervalKind) if kind == body.interval), "welch_t"
        ),
        alpha=body.alpha,
        reason="; ".join(body.void_reasons),
    )


def _values(
    values: Mapping[str, Sequence[SeedValue]], metric: str, primary: str
) -> dict[str, list[tuple[int, float]]]:
    return {
        arm: [
            (seed.seed_index, value)
            for seed in seeds
            if (value := seed.value if metric == primary else seed.metrics.get(metric)) is not None
        ]
        for arm, seeds in values.items()
    }


def judgement_of(sighting: Sighting) -> Judgement:
    """Return the recorded result of a claim as the analysis has it."""
    result, values = sighting.result, sighting.values
    seeds = {arm: {index for index, _ in found} for arm, found in values.items()}
    if result.interval == "paired_t" and seeds:
        both = set.intersection(*seeds.values())
        seeds = {arm: found & both for arm, found in seeds.items()}
    return Judgement(
        outcome=result.outcome,
        estimate=result.estimate,
        lower=result.lower,
        upper=result.upper,
        degrees_of_freedom=result.degrees_of_freedom,
        n_control=len(seeds.get("control", ())),
        n_treatment=len(seeds.get("treatment", ())),
        reason=result.reason,
        interval=result.interval,
        alpha=result.alpha,
    )


def explained(
    ruling: Ruling, *, breached: Sequence[str] = (), void_reasons: Sequence[str] = ()
) -> Explanation | None:
    """Return a claim's ruling in three sentences; None where its rule cannot be read.

    Args:
        ruling: The claim with what was seen of it.
        breached: Metrics of the guardrails that did not hold.
        void_reasons: Why the verdict is void, whatever the rule says of the values alone.
    """
    if ruling.rule is None:
        return None
    judged = judgement_of(ruling.last)
    if void_reasons:
        judged = replace(judged, outcome="void", reason="; ".join(void_reasons))
    return explain(ruling.rule, judged, metric=ruling.result.metric, breached=breached)


def verdict_explained(body: Verdict, ruling: Ruling) -> Explanation | None:
    """Return a verdict in three sentences: claimed, seen, and what would have changed it.

    Args:
        body: The verdict.
        ruling: Its first claim, which the registered actions follow.
    """
    breached = [rail.metric for rail in body.guardrails if not rail.held]
    void = body.void_reasons if body.outcome == "void" else ()
    told = explained(ruling, breached=breached, void_reasons=void)
    if told is None or body.outcome != "void" or ruling.result.outcome == "void":
        return told
    otherwise = "No value could have changed that: what made it void is not in the values."
    return replace(told, otherwise=otherwise)
