"""Which values give each outcome of a registered rule, and how likely each outcome is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.claims import Outcome
from workbench.errors import Fault
from workbench.experiments.draft import NOISE, SEEDS, UNDERPOWERED, ProposalDraft
from workbench.experiments.noise import Noise
from workbench.experiments.planned_rules import POWER, PlannedRule
from workbench.experiments.rule_faults import most_seeds, stopping_text

UNREACHABLE = 0.001
"""Chance below which an outcome counts as out of reach, whatever the truth is."""
_TOLERANCE, _TOLERANCE_SIMULATED = 0.002, 0.01
"""What a chance in closed form and a simulated one may be off by."""


@dataclass(frozen=True, kw_only=True)
class OutcomeReach:
    """One outcome of the rule."""

    outcome: Outcome
    given_by: str
    """Of the improvement's bounds L and U."""
    if_effect: float | None
    """Chance when the improvement is truly `RuleReach.effect`; None while the noise is unknown."""
    if_other: float | None
    """Chance when it is truly `RuleReach.other`."""


@dataclass(frozen=True, kw_only=True)
class RuleReach:
    """A claim's rule with what it can say."""

    hypothesis: str
    claim: str
    metric: str
    interval: str
    stopping: str
    seeds: int
    """An arm, at most."""
    alpha: float
    """As registered, over all looks and claims."""
    share: float
    """The claim's own part of α, which the chances are for: all of it, or in a family of m claims
    α/m, the first step of Holm. Later steps only add to its power."""
    effect: float
    """True improvement that the power refers to: the minimum effect; for superior_by the expected
    improvement; for non_inferior and equivalent no difference."""
    other: float
    """True improvement at which the claim should not be supported."""
    noise: Noise | None
    power: float | None
    """Chance of ``supported`` at `effect`; None while the noise is unknown."""
    seeds_for_power: int | None
    """Fewest seeds an arm, at most, with power 0.8, where only the last look is moved; None if
    unknown or above what the interval allows."""
    simulated: int | None
    """Experiments that the chances were counted in; None for a closed form or no chances."""
    mean_seeds: float | None
    """Seeds an arm when the rule stops, at `effect`; None while the noise is unknown."""
    mean_seeds_other: float | None
    """The same at `other`."""
    outcomes: tuple[OutcomeReach, ...]

    @property
    def is_low(self) -> bool:
        """Whether the power is known and below 0.8, by more than it may be off."""
        tolerance = _TOLERANCE if self.simulated is None else _TOLERANCE_SIMULATED
        return self.power is not None and self.power < POWER - tolerance

    @property
    def is_sequential(self) -> bool:
        """Whether it may stop before its last seed."""
        return not self.stopping.startswith("fixed")


def rule_reach(draft: ProposalDraft, planned: PlannedRule, noise: Noise | None) -> RuleReach:
    """Return what one claim's rule can say.

    Args:
        draft: The proposal.
        planned: The rule.
        noise: Between the seeds of an arm, in the claim's metric; None if unknown.
    """
    rule, effect, other = planned.rule, planned.effect, planned.other
    here = planned.outlook.at(effect, sd=noise.sd) if noise else None
    there = planned.outlook.at(other, sd=noise.sd) if noise else None
    return RuleReach(
        hypothesis=planned.hypothesis,
        claim=rule.claim,
        metric=planned.metric,
        interval=rule.interval,
        stopping=rule.stopping.text,
        seeds=planned.seeds,
        alpha=planned.alpha,
        share=rule.alpha,
        effect=effect,
        other=other,
        noise=noise,
        power=here.power if here else None,
        seeds_for_power=planned.seeds_for_power(noise.sd) if noise else None,
        simulated=planned.outlook.num if noise else None,
        mean_seeds=here.mean_seeds if here else None,
        mean_seeds_other=there.mean_seeds if there else None,
        outcomes=tuple(
            OutcomeReach(
                outcome=outcome,
                given_by=words,
                if_effect=here.chances.get(outcome) if here else None,
                if_other=there.chances.get(outcome) if there else None,
            )
            for outcome, words in _given_by(draft, planned).items()
        ),
    )


def _given_by(draft: ProposalDraft, planned: PlannedRule) -> Mapping[Outcome, str]:
    d = f"{planned.rule.margin:g}"
    supported, refuted = {
        "superior": (f"L > 0 and U >= {d}", f"U < {d}"),
        "superior_by": (f"L > {d}", f"U < {d}"),
        "non_inferior": (f"L > -{d}", f"U < -{d}"),
        "equivalent": (f"L > -{d} and U < {d}", f"L > {d} or U < -{d}"),
    }[planned.rule.claim_kind]
    if draft.bounds and planned.claim is draft.claims[0]:
        supported, refuted = f"{supported}, guardrails held", f"{refuted}, or a guardrail broken"
    diverged = draft.document.get(("divergence", "rule")) == "arm_void"
    return {
        "supported": supported,
        "refuted": refuted,
        "inconclusive": "otherwise",
        "void": "a seed missing or diverged" if diverged else "under 2 seeds left in an arm",
    }


def bound_faults(draft: ProposalDraft, ceiling: float | None) -> Iterator[Fault]:
    """Yield each guardrail that every model breaks, or none.

    Args:
        draft: The proposal.
        ceiling: Largest value of any metric, whose smallest is 0; None if it is not known.
    """
    for path, bound in draft.bounds if ceiling is not None else ():
        if bound <= 0:
            message = f"at_most {bound:g} is broken by every model: supported cannot be reached"
            yield draft.document.fault(path, message, "give a bound above the control's value")
        elif ceiling is not None and bound >= ceiling:
            message = f"at_most {bound:g} is held by an untrained model: it can never be broken"
            yield draft.document.fault(path, message, f"write less than {ceiling:.3g}")


def reach_faults(
    draft: ProposalDraft, planned: PlannedRule, reach: RuleReach, ceiling: float | None
) -> Iterator[Fault]:
    """Yield an outcome of a claim that cannot fire, and a power that must be owned up to.

    Args:
        draft: The proposal.
        planned: The claim's rule.
        reach: What it can say.
        ceiling: Largest value of the metric, whose smallest is 0; None if it is not known.
    """
    rule = planned.rule
    if ceiling is not None and rule.margin >= ceiling:
        smaller = f"write {rule.claim_kind}({planned.worth:g})"
        yield draft.document.fault(
            planned.claim.path,
            f"{rule.claim} asks about a difference that no two models have: bits "
            f"per byte lie between 0 and {ceiling:.3g}, an untrained model's",
            smaller if planned.worth < ceiling else "give a smaller one",
        )
    elif reach.noise is not None:
        yield from _noise_faults(draft, planned, reach, reach.noise, ceiling)


def _noise_faults(
    draft: ProposalDraft,
    planned: PlannedRule,
    reach: RuleReach,
    noise: Noise,
    ceiling: float | None,
) -> Iterator[Fault]:
    rule = planned.rule
    most = ceiling if ceiling is not None else max(abs(reach.effect), rule.margin) * 1e3
    truths = (-most, -rule.margin, 0.0, rule.margin, most)
    reached = [planned.outlook.at(true, sd=noise.sd).chances for true in truths]
    wanted: tuple[Outcome, Outcome] = ("supported", "refuted")
    for outcome in wanted:
        if max(chances[outcome] for chances in reached) < UNREACHABLE:
            yield draft.document.fault(
                planned.claim.path,
                f"{outcome!r} cannot be reached, whatever the truth is: with {reach.seeds} seeds "
                f"an arm that vary by {noise.sd:.2g} the interval is too wide for {rule.claim}",
                _more_seeds(planned, reach, "or a larger margin"),
            )
            return
    is_first = planned.claim is draft.claims[0]
    if is_first and reach.is_low and _is_held_to(draft, noise) and not draft.underpowered:
        yield draft.document.fault(
            UNDERPOWERED,
            _low_power(draft, reach, noise),
            _more_seeds(planned, reach, "or underpowered: true, if that is all you can afford"),
        )


def _is_held_to(draft: ProposalDraft, noise: Noise) -> bool:
    # Version 1 has no word for it, and a spread from few runs is no ground to refuse.
    return noise.is_known and draft.version != "v1"


def noise_doubts(draft: ProposalDraft, measured: Noise | None) -> Iterator[Fault]:
    """Yield the doubt about a stated noise that is less than the measured one."""
    stated = draft.noise_sd
    if measured is not None and stated is not None and stated < measured.lower():
        yield draft.document.fault(
            NOISE,
            f"noise.sd {stated:g} is less than what this lab measured: {measured.sentence()}, at "
            f"least {measured.lower():.2g}",
            f"write {measured.sd:.2g}, or say in source why it is less here",
        )


def power_doubts(
    draft: ProposalDraft, planned: Sequence[PlannedRule], reaches: Sequence[RuleReach]
) -> Iterator[Fault]:
    """Yield doubts about the power: warnings, never refusals."""
    for one, reach in zip(planned, reaches, strict=True):
        noise = reach.noise
        if noise is None or not reach.is_low or draft.underpowered:
            continue
        is_first = one.claim is draft.claims[0]
        if is_first and _is_held_to(draft, noise):
            continue  # refused, not doubted
        own = SEEDS if draft.version == "v1" else UNDERPOWERED
        remedy = _more_seeds(one, reach, "or expect an inconclusive verdict")
        where = own if is_first else one.claim.path
        yield draft.document.fault(where, _low_power(draft, reach, noise), remedy)
    known = [reach.power for reach in reaches if reach.power is not None]
    if draft.underpowered and known and min(known) >= POWER:
        noise = reaches[0].noise
        source = f" ({noise.sentence()})" if noise else ""
        message = f"underpowered: true, but the power is {min(known):.2f}{source}"
        yield draft.document.fault(UNDERPOWERED, message, "write underpowered: false")


def _low_power(draft: ProposalDraft, reach: RuleReach, noise: Noise) -> str:
    several = len(draft.claims) > 1
    share = f" at its share {reach.share:.3g} of alpha" if several else ""
    return (
        f"{f'{reach.hypothesis}: ' if several else ''}a true improvement of {reach.effect:g} is "
        f"shown with a chance of {reach.power or 0:.0%} only{share}: {reach.seeds} seeds an arm "
        f"vary by {noise.sentence()}"
    )


def _more_seeds(planned: PlannedRule, reach: RuleReach, otherwise: str) -> str:
    needed, looks = reach.seeds_for_power, planned.rule.stopping.looks
    if needed is None:
        most = most_seeds(planned.rule.interval)
        return f"no {most} seeds an arm reach power {POWER:g}: use less noisy runs, {otherwise}"
    stopping = f" and {stopping_text([*looks[:-1], needed])}" if looks else ""
    return f"write seeds: {needed}{stopping} for power {POWER:g}, {otherwise}"
