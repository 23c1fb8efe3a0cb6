"""Everything that is known of a proposal's decision rule before anything runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.analysis.rules import NoiseFloor
from workbench.errors import Fault
from workbench.experiments.doubts import about_noise
from workbench.experiments.draft import ProposalDraft
from workbench.experiments.expected_noise import NoiseSources
from workbench.experiments.floor_faults import floor_faults, usable_floors
from workbench.experiments.planned_rules import PlannedRule, decision_of, planned_rules
from workbench.experiments.reachability import (
    RuleReach,
    bound_faults,
    noise_doubts,
    power_doubts,
    reach_faults,
    rule_reach,
)
from workbench.experiments.rule_faults import rule_faults
from workbench.registry.log import LogSource
from workbench.registry.proposal import Proposal


@dataclass(frozen=True, kw_only=True)
class RulePlan:
    """The rules of the claims, the noise that is known, and what each rule can say with it."""

    draft: ProposalDraft
    own_faults: tuple[Fault, ...]
    """Of the rule by itself and of the noise floor that it names."""
    floors: Mapping[str, NoiseFloor]
    """By metric, of the noise floor that the proposal names."""
    has_log: bool
    noises: NoiseSources
    planned: tuple[PlannedRule, ...]
    """Of every claim; empty while the rule or any claim is not sound."""

    @cached_property
    def reaches(self) -> tuple[RuleReach, ...]:
        """What each of them can say; it is simulated where there is no closed form."""
        return tuple(
            rule_reach(self.draft, one, self.noises.taken(one.claim)) for one in self.planned
        )

    @classmethod
    def of(
        cls,
        draft: ProposalDraft,
        *,
        source: LogSource | None,
        corpus: str | None,
        control: str | None,
        subject: str,
    ) -> "RulePlan":
        """Return the plan of a proposal's rule.

        Args:
            draft: The proposal.
            source: The log, for measured noise and the noise floor; None to do without.
            corpus: ``name@version`` of the recipe's; None if unknown.
            control: Hash of the control's full-scale configuration; None if unknown.
            subject: ``NNNN-slug``.
        """
        floors = usable_floors(draft, source)
        noises = NoiseSources(
            draft=draft, source=source, corpus=corpus, subject=subject, floors=floors
        )
        return cls(
            draft=draft,
            own_faults=(
                *rule_faults(draft, measure=f"workbench noise {subject[:4]}"),
                *floor_faults(draft, source, subject, corpus=corpus, control=control),
            ),
            floors=floors,
            has_log=source is not None,
            noises=noises,
            planned=planned_rules(draft, floors),
        )

    def faults(self, ceiling: float | None) -> Iterator[Fault]:
        """Yield why the rule cannot be registered as it stands.

        Args:
            ceiling: Largest value of a metric, whose smallest is 0; None if it is not known.
        """
        yield from self.own_faults
        yield from bound_faults(self.draft, ceiling)
        for one, reach in zip(self.planned, self.reaches, strict=True):
            yield from reach_faults(self.draft, one, reach, ceiling)

    def left_over(self, proposal: Proposal) -> Iterator[Fault]:
        """Yield what `Decision.of` refuses of a proposal that has no other fault."""
        if self.draft.interval == "calibrated_t" and not self.has_log:
            return
        try:
            decision_of(proposal, self.floors)
        except ValueError as error:
            yield self.draft.document.fault(("decision",), f"decision is no rule: {error}")

    def doubts(self) -> Iterator[Fault]:
        """Yield what is to be doubted of noise and power."""
        measured = self.noises.measured(self.draft.claims[0])
        yield from noise_doubts(self.draft, measured)
        yield from about_noise(self.draft, measured)
        yield from power_doubts(self.draft, self.planned, self.reaches)
