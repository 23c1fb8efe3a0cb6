"""The rules that a proposal would be decided by, and the truths that their power is about."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.analysis.planning import Outlook, fewest_seeds
from workbench.analysis.registered import Decision
from workbench.analysis.rules import NoiseFloor, Rule, Stopping
from workbench.experiments.draft import ClaimDraft, ProposalDraft
from workbench.registry.proposal import Proposal, changes_data

POWER = 0.8
"""Power below which a proposal has to say that it is underpowered."""


@dataclass(frozen=True, kw_only=True)
class PlannedRule:
    """One claim's rule at its share of α, with what it is to show."""

    claim: ClaimDraft
    hypothesis: str
    metric: str
    rule: Rule
    """With α over the number of claims: the first step of Holm, which each must pass by itself."""
    alpha: float
    """As registered, over all claims."""
    num_claims: int
    seeds: int
    """An arm, at most."""
    worth: float
    """The hypothesis' minimum effect."""
    expected: float | None
    """Improvement that the proposer expects; of the primary metric only."""

    @cached_property
    def outlook(self) -> Outlook:
        """What the rule will say; simulated once."""
        return Outlook.of(self.rule, most=self.seeds)

    @property
    def effect(self) -> float:
        """True improvement that the power refers to."""
        if self.rule.claim_kind == "superior":
            return self.worth
        expected = self.expected or self.worth
        return expected if self.rule.claim_kind == "superior_by" else 0.0

    @property
    def other(self) -> float:
        """True improvement at which the claim should not be supported."""
        margins = {"superior": 0.0, "superior_by": 0.0, "equivalent": self.rule.margin}
        return margins.get(self.rule.claim_kind, -self.rule.margin)

    def seeds_for_power(self, sd: float) -> int | None:
        """Return the fewest seeds an arm, at most, with power 0.8; None if too many."""
        return fewest_seeds(self.rule, true=self.effect, sd=sd, power=POWER)


def planned_rules(
    draft: ProposalDraft, floors: Mapping[str, NoiseFloor]
) -> tuple[PlannedRule, ...]:
    """Return the rule of every claim; none while the rule or any claim is not sound.

    Args:
        draft: The proposal.
        floors: By metric, where the proposal names a noise floor.
    """
    found = [_planned(draft, claim, floors) for claim in draft.claims]
    sound = tuple(rule for rule in found if rule is not None)
    return sound if len(sound) == len(found) else ()


def decision_of(proposal: Proposal, floors: Mapping[str, NoiseFloor]) -> Decision:
    """Return the decision of a proposal, as the verdict will make it.

    Raises:
        ValueError: its parts make no rule, or rules that do not go together.
    """
    return Decision.of(
        proposal.decision,
        proposal.claims(),
        seeds=proposal.design.seeds,
        divergence=proposal.divergence.rule,
        data_arms=proposal.arms_differ_in_data,
        noise_floors=floors,
    )


def _planned(
    draft: ProposalDraft, claim: ClaimDraft, floors: Mapping[str, NoiseFloor]
) -> PlannedRule | None:
    decided, kind, margin = draft.decided(claim), claim.kind, claim.margin
    seeds, alpha, metric = draft.seeds, draft.alpha, claim.metric
    worth = decided.minimum_effect if decided else None
    if decided is None or decided.id is None or worth is None or not worth > 0 or metric is None:
        return None
    if kind is None or margin is None or seeds is None or not 2 <= seeds <= 100 or alpha is None:
        return None
    if draft.interval is None or draft.stopping is None or not math.isfinite(margin):
        return None
    if max(draft.looks, default=seeds) != seeds:
        return None
    floor = floors.get(metric) if draft.interval == "calibrated_t" else None
    try:
        rule = Rule(
            claim_kind=kind,
            margin=margin,
            interval=draft.interval,
            stopping=Stopping(kind=draft.stopping, looks=draft.looks),
            alpha=alpha / len(draft.claims),
            noise_floor=floor,
            data_arms=any(changes_data(key) for key in draft.manipulated or ()),
        )
        rule.looks_up_to(seeds)
    except ValueError:
        return None  # `rule_faults` tells what is wrong, at its line
    return PlannedRule(
        claim=claim,
        hypothesis=decided.id,
        metric=metric,
        rule=rule,
        alpha=alpha,
        num_claims=len(draft.claims),
        seeds=seeds,
        worth=worth,
        expected=draft.expected_improvement if claim is draft.claims[0] else None,
    )
