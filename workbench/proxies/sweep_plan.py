"""A sweep as it is declared, and what it has come to."""

from dataclasses import dataclass
from typing import Literal

from workbench.analysis.claims import Direction
from workbench.canonical import fingerprint
from workbench.proxies.recipe import Recipe
from workbench.registry.entries import Mode, Trial
from workbench.registry.proposal import Proposal, Pruning, Sampler
from workbench.training.results import DivergenceRule


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """A sweep as it was registered, or as it is explored."""

    subject: str
    """Experiment folder ``NNNN-slug``, or ``recipe:NAME@V`` without a proposal."""
    mode: Mode
    registration: str = ""
    """Leaf of the registration; empty when exploratory."""
    recipe: Recipe
    recipe_sha256: str
    metric: str
    direction: Direction
    sampler: Sampler
    budget_trials: int
    """A total, also across interruptions."""
    pruning: Pruning
    failed_trials: Literal["count", "retry_once"]
    divergence: DivergenceRule
    search_url: str
    """SQLAlchemy URL of the search's database."""
    first_trial: Literal["control", "sampled"] = "control"
    """Whether the control's own point opens the sweep, so that every other is seen beside it."""

    @classmethod
    def of(
        cls,
        proposal: Proposal,
        recipe: Recipe,
        *,
        subject: str,
        mode: Mode,
        registration: str,
        recipe_sha256: str,
        search_url: str,
    ) -> "SweepRun":
        """Return the sweep that a proposal declares."""
        return cls(
            subject=subject,
            mode=mode,
            registration=registration,
            recipe=recipe,
            recipe_sha256=recipe_sha256,
            metric=proposal.measures.primary.metric,
            direction=proposal.measures.primary.direction,
            sampler=proposal.sweep.sampler,
            budget_trials=proposal.sweep.budget_trials,
            pruning=proposal.sweep.pruning,
            failed_trials=proposal.sweep.failed_trials,
            divergence=DivergenceRule(
                loss_above=proposal.divergence.loss_above, patience=proposal.divergence.patience
            ),
            search_url=search_url,
        )

    @property
    def scale(self) -> str:
        """The rung at which trials run: the smallest."""
        return self.recipe.scales[0].name

    @property
    def identity(self) -> str:
        """What makes a sweep this one: its registration, or its recipe, sampler and rules."""
        text = self.registration or fingerprint(
            {
                "recipe": self.recipe_sha256,
                "sampler": self.sampler.model_dump(),
                "pruning": self.pruning.model_dump(),
                "metric": self.metric,
                "direction": self.direction,
                "first_trial": self.first_trial,
            }
        )
        return text.removeprefix("sha256:")[:16]


@dataclass(frozen=True, kw_only=True)
class SweepSummary:
    """What a sweep has done so far."""

    root: str
    """Leaf that all its entries refer to: the registration, or an exploration's first start."""
    declared: int
    done: int
    """Trials that used up budget."""
    counts: dict[str, int]
    """Trials by state, also those that were run once more."""
    finished: bool
    trials: tuple[Trial, ...]
    """In the order in which they ended, also those that were run once more."""
    mlflow_run: str
    recovered: tuple[str, ...]
    """What an earlier process left behind and what became of it, a sentence each."""
