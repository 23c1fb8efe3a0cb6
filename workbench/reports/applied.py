"""Every registered rule, applied: interval, stopping and family, with their libraries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis import looks as numbers
from workbench.analysis.looks import Measured, State
from workbench.analysis.registered import Decision, JointLook
from workbench.analysis.rules import NoiseFloor
from workbench.registry import entries
from workbench.registry.entries import SeedValue
from workbench.registry.proposal import Proposal
from workbench.reports.replay import ByArm, Said

ARMS = ("control", "treatment")


@dataclass(frozen=True, kw_only=True)
class RegisteredRule:
    """A decision of any kind; an `AppliedRule`."""

    decision: Decision

    def looks(self) -> tuple[int, ...]:
        """Return the seeds an arm at each look."""
        return self.decision.looks()

    def at(self, values: ByArm, num_seeds: int, before: Said | None) -> Said:
        """Return what it says of these values, given the look before.

        Raises:
            ValueError: no look of the rule, or values that it cannot take.
        """
        first, *_ = self.decision.claims
        measured = {
            claim.metric: _measured(values, claim.metric, first.metric)
            for claim in self.decision.claims
        }
        earlier = _joint(before) if before is not None else None
        found = self.decision.look_at(measured, num_seeds, before=earlier)
        return Said(
            number=found.number,
            num_seeds=found.num_seeds,
            state=found.state,
            next_seeds=found.next_seeds,
            by_hypothesis={name: look.judgement for name, look in found.by_hypothesis.items()},
        )


def applied(proposal: Proposal, floor: entries.NoiseFloor | None) -> RegisteredRule:
    """Return the rule of a proposal.

    Raises:
        ValueError: what was registered is no rule that can be applied.
    """
    return RegisteredRule(decision=decision_of(proposal, floor))


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


def _measured(
    values: Mapping[str, Sequence[SeedValue]], metric: str, primary: str
) -> dict[str, list[Measured]]:
    return {
        arm: [
            Measured(seed_index=seed.seed_index, value=_value(seed, metric, primary))
            for seed in values.get(arm, [])
        ]
        for arm in ARMS
    }


def _value(seed: SeedValue, metric: str, primary: str) -> float | None:
    if seed.value is None or metric == primary:
        return seed.value
    if metric not in seed.metrics:
        raise ValueError(f"{seed.run} has no value of {metric}, which the family needs")
    return seed.metrics[metric]


def _joint(said: Said) -> JointLook:
    """Return a look as the rule needs it to keep what it decided."""
    states: dict[str, State] = {"go_on": "go_on", "stop": "stop", "final": "final"}
    state = states[said.state]
    looks = {
        name: numbers.Look(
            number=said.number,
            num_seeds=said.num_seeds,
            state=state,
            next_seeds=said.next_seeds,
            judgement=judgement,
        )
        for name, judgement in said.by_hypothesis.items()
    }
    return JointLook(
        number=said.number,
        num_seeds=said.num_seeds,
        state=state,
        next_seeds=said.next_seeds,
        by_hypothesis=looks,
    )
