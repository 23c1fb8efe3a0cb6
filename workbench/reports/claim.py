"""A verdict with everything that it must follow from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from workbench.registry.entries import Registration, SeedValue, Verdict
from workbench.registry.proposal import Proposal
from workbench.reports.facts import Cited, ExperimentFacts
from workbench.reports.replay import Apply, is_plain, rule_of


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A verdict with what it must follow from."""

    facts: ExperimentFacts
    verdict: Cited[Verdict]
    registration: Cited[Registration]
    proposal: Proposal
    apply: Apply
    """Of rules that need the libraries of the analysis."""

    @property
    def is_sequential(self) -> bool:
        """Whether the rule looks more than once, so that looks are entries of their own."""
        try:
            return len(self.looks()) > 1
        except ValueError:  # no rule that can be applied, which check 10 says
            return len(self.proposal.decision.looks) != 1

    def looks(self) -> tuple[int, ...]:
        """Return the registered seeds an arm at each look.

        Raises:
            ValueError: what was registered is no rule that can be applied.
        """
        return rule_of(self.facts, self.proposal, self.apply).looks()

    @property
    def num_seeds(self) -> int:
        """Seeds an arm that a verdict which is not void must be of."""
        if self.is_sequential and self.facts.looks:
            return self.facts.looks[-1].value.num_seeds
        return self.registration.value.num_seeds

    @property
    def is_older(self) -> bool:
        """Whether the verdict lacks the fields that came with looks and families, and may.

        Only one claim by Welch's t at a fixed number of seeds is told in full without them.
        """
        body = self.verdict.value
        newer = (body.stopping, body.num_seeds, body.results, body.noise_floor, body.look != 1)
        metrics = any(seed.metrics for seed in seeds_of(body))
        return is_plain(self.proposal.decision) and not (any(newer) or metrics)


Check: TypeAlias = Callable[[Claim], Iterator[str]]
"""Yields what is wrong; nothing when the claim holds."""


def seeds_of(body: Verdict) -> list[SeedValue]:
    """Return every seed of a verdict, arm by arm."""
    return [seed for seeds in body.values.values() for seed in seeds]
