"""The typed front matter of ``proposal.md``: every field that a person fills in by hand.

`Proposal` is the newest version of the form and what all other code reads. A version that was used
once stays readable for ever: `proposal_versions` has them all, and how an older one is upgraded.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from workbench.canonical import Json
from workbench.registry.proposal_versions import upgraded

ClaimKind: TypeAlias = Literal["superior", "superior_by", "non_inferior", "equivalent"]

_DATA_KEYS = frozenset({"mixture", "phase_fractions", "phases"})

PLACEHOLDER = "FILL IN"
"""What the scaffold writes where an answer is owed; a proposal that keeps one is refused."""


def changes_data(key: str) -> bool:
    """Return whether a manipulated key changes what an arm is trained on, or in which order."""
    return not _DATA_KEYS.isdisjoint(key.split("."))


def _answered(text: str) -> str:
    if not text.strip() or PLACEHOLDER in text:
        raise ValueError("still to be filled in")
    return text.strip()


_OWED: Json = {"minLength": 1, "not": {"pattern": PLACEHOLDER}}
Text = Annotated[str, AfterValidator(_answered), Field(json_schema_extra=_OWED)]
"""A sentence written by a person: not empty, not the scaffold's placeholder."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Lists(_Strict):
    # YAML lists arrive as Python lists; tuples are only accepted outside strict mode.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Hypothesis(_Strict):
    """One statement that the verdict can support or refute."""

    id: str = Field(pattern=r"^H[1-9][0-9]?$")
    statement: Text
    direction: Literal["treatment_lower", "treatment_higher"]
    """Of the primary metric."""
    mechanism: Text
    would_change_my_mind: Text
    minimum_effect: float = Field(gt=0)
    """Smallest difference of the primary metric worth acting on, in its unit."""


class Design(_Lists):
    """What differs between the arms, what does not, and how often it is repeated."""

    manipulated: tuple[str, ...] = Field(min_length=1)
    """Dotted keys of the run configuration; exactly the keys of the recipe's space."""
    held_fixed: tuple[Text, ...] = Field(min_length=1)
    control_arm: Text
    scales: tuple[str, ...] = Field(min_length=2)
    """The recipe's scales that the ladder runs, rising."""
    seeds: int = Field(ge=1, le=100, strict=True)
    """Full-scale repeats an arm, at most: where the stopping rule ends."""
    pairing: Literal["none", "seed_index"] = "none"
    """``seed_index`` where the arms' runs of one seed are compared with each other."""


class PrimaryMeasure(_Strict):
    """The one number that decides."""

    metric: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    evaluation_set: Literal["sealed_test"]
    evaluation_set_hash: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    """What `DataState.evaluation_sets` must say of that set; empty for whatever is built. Since v2.
    """
    step_rule: Literal["final"]
    direction: Literal["minimize", "maximize"]


class Guardrail(_Strict):
    """A bound that must hold whatever the primary metric says."""

    metric: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    at_most: float


class Measures(_Lists):
    """What is measured."""

    primary: PrimaryMeasure
    secondary: tuple[str, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()


class Sampler(_Strict):
    """How the sweep proposes points."""

    name: Literal["random", "tpe", "qmc"]
    seed: int = Field(ge=0, le=2**31 - 1)


class Pruning(_Strict):
    """When a trial is stopped early."""

    rule: Literal["none", "median"]
    startup_trials: int = Field(default=4, ge=1)
    warmup_evaluations: int = Field(default=1, ge=0)


class Rerun(_Strict):
    """The top of the sweep, run again on seeds that the sweep never saw."""

    top_k: int = Field(ge=1, le=20)
    fresh_seeds: int = Field(ge=2, le=50)


class SweepPlan(_Strict):
    """The registered search."""

    recipe: str = Field(pattern=r"^proxies/[a-z0-9][a-z0-9._-]*\.yaml$")
    sampler: Sampler
    budget_trials: int = Field(ge=1, le=100_000)
    """A total, also across interruptions."""
    pruning: Pruning
    failed_trials: Literal["count", "retry_once"]
    """Whether a failed trial uses up budget at once, or is tried once more first."""
    tie_break: Literal["earlier_trial", "fewer_tokens"]
    rerun: Rerun


class Actions(_Strict):
    """What will be done on each outcome."""

    supported: Text
    refuted: Text
    inconclusive: Text
    void: Text


class Noise(_Strict):
    """How much the primary metric varies between the seeds of one arm at full scale."""

    sd: float = Field(gt=0)
    """Standard deviation, in the metric's unit."""
    source: Text
    """Where the number is from: a run, an experiment, a paper."""


ClaimText = Annotated[
    str, Field(pattern=r"^(superior|superior_by|non_inferior|equivalent)\([0-9.e+-]+\)$")
]
"""A claim with its δ in the metric's unit, like ``superior(0.02)``."""


class FamilyClaim(_Strict):
    """A further claim that the same runs decide, corrected for together with the first."""

    hypothesis: str
    metric: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    direction: Literal["minimize", "maximize"]
    claim: ClaimText


@dataclass(frozen=True, kw_only=True)
class RegisteredClaim:
    """One claim of a proposal with the measure that decides it."""

    hypothesis: str
    metric: str
    direction: Literal["minimize", "maximize"]
    claim: str


class DecisionRule(_Lists):
    """How the verdict follows from the numbers."""

    hypothesis: str
    claim: ClaimText
    interval: Literal["welch_t", "paired_t", "calibrated_t", "perm_exact"]
    """``welch_t`` was the only one before v2; docs/decision-rules.md says when each may be used."""
    stopping: str = Field(pattern=r"^(fixed\([0-9]+\)|group\([0-9]+(, ?[0-9]+)*\)|anytime)$")
    """At how many seeds an arm the rule looks; ``fixed(n)`` was the only form before v2."""
    alpha: float = Field(gt=0, lt=0.5, strict=True)
    multiplicity: Literal["none", "holm"]
    """``holm`` where there is a family, ``none`` for one claim: nothing to correct for."""
    family: tuple[FamilyClaim, ...] = ()
    """Since v2."""
    noise_floor: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """Leaf hash of the noise_floor entry that ``calibrated_t`` takes its spread from. Since v2."""
    noise: Noise | None = None
    """What the power is computed from; absent to take what the lab has measured. Since v2."""
    underpowered: bool = Field(default=False, strict=True)
    """Registered in the knowledge that a true effect will probably not be shown. Since v2."""
    actions: Actions

    @property
    def claim_kind(self) -> ClaimKind:
        """``superior`` and the like."""
        kinds: dict[str, ClaimKind] = {kind: kind for kind in get_args(ClaimKind)}
        return kinds[self.claim.partition("(")[0]]

    @property
    def margin(self) -> float:
        """The δ of the claim, in the primary metric's unit."""
        return float(self.claim.partition("(")[2].rstrip(")"))

    @property
    def looks(self) -> tuple[int, ...]:
        """Seeds an arm at which the rule looks; empty for ``anytime``, which looks after each."""
        return tuple(int(n) for n in re.findall(r"\d+", self.stopping))


class Divergence(_Strict):
    """When a run counts as diverged, and what that does to the verdict."""

    loss_above: float = Field(gt=0)
    """Training loss (nats a token) above this for ``patience`` steps; non-finite always counts."""
    patience: int = Field(ge=1)
    rule: Literal["arm_void", "exclude"]
    """A diverged run makes the verdict void, or is left out and reported."""


class Contingency(_Strict):
    """A planned response to something that may happen."""

    phase: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """A phase of the recipe, or ``any``. Since v2."""
    when: Text
    then: Text
    max_uses: int = Field(ge=1)


class ScalingRule(_Strict):
    """Why a key differs between the proxies and full scale."""

    key: str
    rule: Literal["registered", "power"]
    """``registered``: the value in full.yaml stands. ``power``: proxy × (ratio of ``of``)^exponent,
    from the recipe's base."""
    of: str | None = None
    exponent: float | None = None
    why: Text

    @model_validator(mode="after")
    def _power_is_complete(self) -> "ScalingRule":
        if (self.rule == "power") != (self.of is not None and self.exponent is not None):
            raise ValueError("rule 'power' needs 'of' and 'exponent', rule 'registered' neither")
        return self


class ForecastPlan(_Strict):
    """How the full-scale result will be predicted before it is known."""

    method: Literal["power_law", "last_scale"]
    """``power_law``: the ladder's means against compute; ``last_scale``: the largest proxy's."""
    expected_improvement: float
    """The proposer's own guess, scored beside the method's."""


class PromotionPlan(_Lists):
    """From proxies to full scale."""

    scaling_rules: tuple[ScalingRule, ...] = ()
    budget_device_hours: float = Field(gt=0, strict=True)
    forecast: ForecastPlan


class EmbargoPlan(_Strict):
    """Until when the entries are withheld from the published log."""

    until: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """RFC 3339 date; promised to be revealed by its end, in UTC."""
    reason: Text


class Proposal(_Lists):
    """The front matter of a proposal, version 2.

    Validation upgrades the values of an older version first, so that what was registered under it
    is read as what it would be today.
    """

    proposal: Literal["v2"]
    title: Text
    owner: Text
    kind: Literal["data_mixture", "balance", "schedule", "architecture", "optimizer", "other"]
    parent_question: str = ""
    pilots_seen: Text
    foreknowledge: Literal["none", "related_results", "pilot_outcomes", "these_outcomes"]
    hypotheses: tuple[Hypothesis, ...] = Field(min_length=1)
    design: Design
    measures: Measures
    sweep: SweepPlan
    decision: DecisionRule
    exclusions: tuple[Text, ...] = ()
    divergence: Divergence
    contingencies: tuple[Contingency, ...] = ()
    promotion: PromotionPlan
    budget_cap_device_hours: float = Field(gt=0, strict=True)
    embargo: EmbargoPlan | None = None
    """Since v2."""
    proxy_infidelities: tuple[Text, ...] = Field(min_length=1)
    threats_to_validity: tuple[Text, ...] = Field(min_length=1)

    def claims(self) -> tuple[RegisteredClaim, ...]:
        """Return what the verdict decides: the claim about the primary measure, then its family."""
        primary, decision = self.measures.primary, self.decision
        first = RegisteredClaim(
            hypothesis=decision.hypothesis,
            metric=primary.metric,
            direction=primary.direction,
            claim=decision.claim,
        )
        further = (RegisteredClaim(**claim.model_dump()) for claim in decision.family)
        return (first, *further)

    @property
    def arms_differ_in_data(self) -> bool:
        """Whether the arms see other data, so that no spread of one is known to be the other's.

        Moving the phases moves what is seen where their mixtures differ, so it counts.
        """
        return any(changes_data(key) for key in self.design.manipulated)

    @model_validator(mode="before")
    @classmethod
    def _newest(cls, value: Json) -> Json:
        return upgraded(value)

    @model_validator(mode="after")
    def _consistent(self) -> "Proposal":
        ids = [hypothesis.id for hypothesis in self.hypotheses]
        if self.decision.hypothesis not in ids:
            raise ValueError(
                f"decision.hypothesis {self.decision.hypothesis!r} is not one of {ids}"
            )
        return self
