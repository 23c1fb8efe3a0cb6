"""Which values give each outcome of a registered rule, and how likely each outcome is."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.analysis.claims import ClaimKind, Outcome
from workbench.analysis.power import outcome_chances, seeds_needed
from workbench.errors import Fault
from workbench.experiments.draft import CLAIM, NOISE, SEEDS, UNDERPOWERED, ProposalDraft
from workbench.experiments.noise import Noise

POWER = 0.8
"""Power below which a proposal has to say that it is underpowered."""
UNREACHABLE = 0.001
"""Chance below which an outcome counts as out of reach, whatever the truth is."""
_TOLERANCE = 0.002
"""What `outcome_chances` may be off by."""


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

    claim: str
    metric: str
    seeds: int
    """An arm."""
    alpha: float
    effect: float
    """True improvement that the power refers to: the minimum effect; for superior_by the expected
    improvement; for non_inferior and equivalent no difference."""
    other: float
    """True improvement at which the claim should not be supported."""
    noise: Noise | None
    power: float | None
    """Chance of ``supported`` at `effect`; None while the noise is unknown."""
    seeds_for_power: int | None
    """Fewest seeds an arm with power 0.8; None if unknown or above 100."""
    outcomes: tuple[OutcomeReach, ...]


@dataclass(frozen=True, kw_only=True)
class _Rule:
    kind: ClaimKind
    margin: float
    n: int
    alpha: float
    worth: float
    expected: float | None

    def chances(self, true: float, sd: float) -> dict[Outcome, float]:
        return outcome_chances(self.kind, self.margin, true=true, sd=sd, n=self.n, alpha=self.alpha)

    def effect(self) -> float:
        if self.kind == "superior":
            return self.worth
        return (self.expected or self.worth) if self.kind == "superior_by" else 0.0

    def other(self) -> float:
        return {"superior": 0.0, "superior_by": 0.0, "equivalent": self.margin}.get(
            self.kind, -self.margin
        )


def rule_reach(draft: ProposalDraft, noise: Noise | None) -> RuleReach | None:
    """Return what a proposal's rule can say; None while its parts are not sound."""
    rule = _rule(draft)
    if rule is None or draft.metric is None:
        return None
    effect, other = rule.effect(), rule.other()
    here = rule.chances(effect, noise.sd) if noise else {}
    there = rule.chances(other, noise.sd) if noise else {}
    needed = (
        seeds_needed(
            rule.kind, rule.margin, true=effect, sd=noise.sd, alpha=rule.alpha, power=POWER
        )
        if noise
        else None
    )
    return RuleReach(
        claim=f"{rule.kind}({rule.margin:g})",
        metric=draft.metric,
        seeds=rule.n,
        alpha=rule.alpha,
        effect=effect,
        other=other,
        noise=noise,
        power=here.get("supported"),
        seeds_for_power=needed,
        outcomes=tuple(
            OutcomeReach(
                outcome=outcome,
                given_by=words,
                if_effect=here.get(outcome),
                if_other=there.get(outcome),
            )
            for outcome, words in _given_by(draft, rule).items()
        ),
    )


def _rule(draft: ProposalDraft) -> _Rule | None:
    decided, kind, margin = draft.decided(), draft.claim_kind, draft.margin
    n, alpha = draft.fixed_n, draft.alpha
    if decided is None or kind is None or margin is None or n is None or alpha is None:
        return None
    worth = decided.minimum_effect or 0.0
    usable = math.isfinite(margin) and margin >= 0 and 2 <= n <= 100 and 0 < alpha < 0.5
    if not usable or worth <= 0 or (kind == "equivalent" and margin == 0):
        return None
    return _Rule(
        kind=kind,
        margin=margin,
        n=n,
        alpha=alpha,
        worth=worth,
        expected=draft.expected_improvement,
    )


def _given_by(draft: ProposalDraft, rule: _Rule) -> Mapping[Outcome, str]:
    d = f"{rule.margin:g}"
    supported, refuted = {
        "superior": (f"L > 0 and U >= {d}", f"U < {d}"),
        "superior_by": (f"L > {d}", f"U < {d}"),
        "non_inferior": (f"L > -{d}", f"U < -{d}"),
        "equivalent": (f"L > -{d} and U < {d}", f"L > {d} or U < -{d}"),
    }[rule.kind]
    if draft.bounds:
        supported, refuted = f"{supported}, guardrails held", f"{refuted}, or a guardrail broken"
    diverged = draft.document.get(("divergence", "rule")) == "arm_void"
    return {
        "supported": supported,
        "refuted": refuted,
        "inconclusive": "otherwise",
        "void": "a seed missing or diverged" if diverged else "under 2 seeds left in an arm",
    }


def reach_faults(
    draft: ProposalDraft, noise: Noise | None, ceiling: float | None
) -> Iterator[Fault]:
    """Yield each outcome or rule that cannot fire, and a power that the proposal must own up to.

    Args:
        draft: The proposal.
        noise: The spread between seeds, where it is known or assumed.
        ceiling: Largest value of the metric, whose smallest is 0; None if it is not known.
    """
    rule = _rule(draft)
    if ceiling is not None:
        yield from _bound_faults(draft, ceiling)
    if rule is None:
        return
    if ceiling is not None and rule.margin >= ceiling:
        yield draft.document.fault(
            CLAIM,
            f"{rule.kind}({rule.margin:g}) asks about a difference that no two models have: bits "
            f"per byte lie between 0 and {ceiling:.3g}, an untrained model's",
            f"write {rule.kind}({rule.worth:g})" if rule.worth < ceiling else "give a smaller one",
        )
    elif noise is not None:
        yield from _noise_faults(draft, rule, noise, ceiling)


def _bound_faults(draft: ProposalDraft, ceiling: float) -> Iterator[Fault]:
    for path, bound in draft.bounds:
        if bound <= 0:
            message = f"at_most {bound:g} is broken by every model: supported cannot be reached"
            yield draft.document.fault(path, message, "give a bound above the control's value")
        elif bound >= ceiling:
            message = f"at_most {bound:g} is held by an untrained model: it can never be broken"
            yield draft.document.fault(path, message, f"write less than {ceiling:.3g}")


def _noise_faults(
    draft: ProposalDraft, rule: _Rule, noise: Noise, ceiling: float | None
) -> Iterator[Fault]:
    most = ceiling if ceiling is not None else max(abs(rule.effect()), rule.margin) * 1e3
    truths = (-most, -rule.margin, 0.0, rule.margin, most)
    reached = [rule.chances(true, noise.sd) for true in truths]
    wanted: tuple[Outcome, Outcome] = ("supported", "refuted")
    for outcome in wanted:
        if max(chances[outcome] for chances in reached) < UNREACHABLE:
            yield draft.document.fault(
                CLAIM,
                f"{outcome!r} cannot be reached, whatever the truth is: with {rule.n} seeds an arm "
                f"that vary by {noise.sd:.2g} the interval is too wide for "
                f"{rule.kind}({rule.margin:g})",
                _more_seeds(rule, noise, "or a larger margin"),
            )
            return
    power = rule.chances(rule.effect(), noise.sd)["supported"]
    held_to = noise.is_known and draft.version != "v1"
    if power < POWER - _TOLERANCE and held_to and not draft.underpowered:
        yield draft.document.fault(
            UNDERPOWERED,
            _low_power(rule, noise, power),
            _more_seeds(rule, noise, "or underpowered: true, if that is all you can afford"),
        )


def power_doubts(
    draft: ProposalDraft, noise: Noise | None, measured: Noise | None
) -> Iterator[Fault]:
    """Yield doubts about the stated noise and power: warnings, never refusals."""
    rule = _rule(draft)
    stated = draft.noise_sd
    if measured is not None and stated is not None and stated < measured.lower():
        yield draft.document.fault(
            NOISE,
            f"noise.sd {stated:g} is less than what this lab measured: {measured.sentence()}, at "
            f"least {measured.lower():.2g}",
            f"write {measured.sd:.2g}, or say in source why it is less here",
        )
    if rule is None or noise is None:
        return
    power = rule.chances(rule.effect(), noise.sd)["supported"]
    held_to = noise.is_known and draft.version != "v1"
    if power < POWER - _TOLERANCE and not held_to and not draft.underpowered:
        # Version 1 has no word for it, and a spread from few runs is no ground to refuse.
        where = SEEDS if draft.version == "v1" else UNDERPOWERED
        remedy = _more_seeds(rule, noise, "or expect an inconclusive verdict")
        yield draft.document.fault(where, _low_power(rule, noise, power), remedy)
    if draft.underpowered and power >= POWER:
        message = f"underpowered: true, but the power is {power:.2f} ({noise.sentence()})"
        yield draft.document.fault(UNDERPOWERED, message, "write underpowered: false")


def _low_power(rule: _Rule, noise: Noise, power: float) -> str:
    return (
        f"a true improvement of {rule.effect():g} is shown with a chance of {power:.0%} only: "
        f"{rule.n} seeds an arm vary by {noise.sentence()}"
    )


def _more_seeds(rule: _Rule, noise: Noise, otherwise: str) -> str:
    needed = seeds_needed(
        rule.kind, rule.margin, true=rule.effect(), sd=noise.sd, alpha=rule.alpha, power=POWER
    )
    if needed is None:
        return f"no 100 seeds an arm reach power {POWER:g}: use less noisy runs, {otherwise}"
    return f"write seeds: {needed} and fixed({needed}) for power {POWER:g}, {otherwise}"
