"""What can be known of a proposal, its recipe and its full scale while parts of them are wrong.

Each field is read by itself, so that a placeholder in one does not hide a contradiction between
two others. A field that does not fit its type is None here; the schema's own fault names it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from workbench.analysis.claims import CLAIM_KINDS, ClaimKind, IntervalKind
from workbench.analysis.rules import INTERVAL_KINDS, StoppingKind
from workbench.canonical import Json
from workbench.proxies.recipe import nested, with_values
from workbench.proxies.recipe_faults import base_config
from workbench.registry.located import Located, Path
from workbench.registry.proposal import PLACEHOLDER, ScalingRule
from workbench.registry.proposal_versions import version_of
from workbench.registry.schema_faults import part
from workbench.training.config import RunConfig

T = TypeVar("T")
_CLAIM = re.compile(r"([a-z_]+)\(([^()]*)\)\Z")
_LOOKS = re.compile(r"(fixed|group)\(([0-9]{1,18}(?:, ?[0-9]{1,18})*)\)\Z")

CLAIM: Path = ("decision", "claim")
INTERVAL: Path = ("decision", "interval")
STOPPING: Path = ("decision", "stopping")
MULTIPLICITY: Path = ("decision", "multiplicity")
FAMILY: Path = ("decision", "family")
NOISE_FLOOR: Path = ("decision", "noise_floor")
PAIRING: Path = ("design", "pairing")
SEEDS: Path = ("design", "seeds")
SCALES: Path = ("design", "scales")
MANIPULATED: Path = ("design", "manipulated")
RULES: Path = ("promotion", "scaling_rules")
METRIC: Path = ("measures", "primary", "metric")
DIRECTION: Path = ("measures", "primary", "direction")
EXPECTED: Path = ("promotion", "forecast", "expected_improvement")
HYPOTHESIS: Path = ("decision", "hypothesis")
UNDERPOWERED: Path = ("decision", "underpowered")
NOISE: Path = ("decision", "noise", "sd")
EMBARGO: Path = ("embargo", "until")


@dataclass(frozen=True, kw_only=True)
class HypothesisDraft:
    """One hypothesis, as far as it is filled in."""

    path: Path
    id: str | None
    direction: str | None
    minimum_effect: float | None


@dataclass(frozen=True, kw_only=True)
class ClaimDraft:
    """One claim that the verdict decides, as far as it is filled in, and where its parts stand."""

    path: Path
    hypothesis_path: Path
    metric_path: Path
    direction_path: Path
    hypothesis: str | None
    metric: str | None
    direction: str | None
    kind: ClaimKind | None
    margin: float | None
    """The claim's δ; NaN when it is written but no number."""

    @property
    def text(self) -> str:
        """The claim as the form has it."""
        return f"{self.kind}({self.margin:g})"


@dataclass(frozen=True, kw_only=True)
class ProposalDraft:
    """The fields of a proposal that something else must agree with."""

    document: Located
    hypotheses: tuple[HypothesisDraft, ...]
    manipulated: tuple[str, ...] | None
    scales: tuple[str, ...] | None
    seeds: int | None
    pairing: str | None
    secondary: tuple[str, ...]
    guardrails: tuple[tuple[Path, str], ...]
    """Path and metric of each."""
    bounds: tuple[tuple[Path, float], ...]
    """Path and largest value of each guardrail."""
    budget_trials: int | None
    pruning: str | None
    startup_trials: int | None
    warmup_evaluations: int | None
    top_k: int | None
    fresh_seeds: int | None
    claims: tuple[ClaimDraft, ...]
    """The claim about the primary measure, then its family."""
    interval: IntervalKind | None
    stopping: StoppingKind | None
    looks: tuple[int, ...]
    """Seeds an arm at which the rule says that it looks, as written; empty for ``anytime``."""
    alpha: float | None
    multiplicity: str | None
    noise_floor: str | None
    loss_above: float | None
    rules: tuple[tuple[Path, ScalingRule], ...]
    rule_keys: tuple[tuple[Path, str], ...]
    """Every scaling rule's key, also of rules that are otherwise at fault."""
    expected_improvement: float | None
    promotion_hours: float | None
    cap_hours: float | None
    foreknowledge: str | None
    pilots_seen: str | None
    version: str
    """Of the form, as `proposal_versions` names it."""
    noise_sd: float | None
    noise_source: str | None
    underpowered: bool
    phases: tuple[tuple[Path, str], ...]
    """Path and phase of each contingency."""
    embargo_until: str | None

    @property
    def metric(self) -> str | None:
        """The primary metric."""
        return self.claims[0].metric

    @property
    def hypothesis(self) -> str | None:
        """The one that is decided first, which the actions follow."""
        return self.claims[0].hypothesis

    @property
    def claim_kind(self) -> ClaimKind | None:
        """Of the first claim."""
        return self.claims[0].kind

    @property
    def margin(self) -> float | None:
        """The first claim's δ; NaN when it is written but no number."""
        return self.claims[0].margin

    def decided(self, claim: ClaimDraft | None = None) -> HypothesisDraft | None:
        """Return the hypothesis that a claim names; the first claim's if none is given."""
        wanted = (claim or self.claims[0]).hypothesis
        named = [h for h in self.hypotheses if h.id is not None and h.id == wanted]
        return named[0] if named else None


@dataclass(frozen=True, kw_only=True)
class RecipeDraft:
    """The parts of a recipe that a proposal must agree with."""

    document: Located
    identity: str | None
    space: tuple[str, ...]
    scales: tuple[str, ...]
    """Names, in the recipe's order."""
    domains: tuple[str, ...]
    tokenizer_vocabulary: int | None
    base: RunConfig | None

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that the recipe's corpus gives."""
        return ("bpb_macro", *(f"bpb_{domain}" for domain in self.domains))

    def ceiling(self) -> float | None:
        """Return the most bits per byte of any model that is worth calling one.

        An untrained model gives each token log2(vocabulary) bits, and a token is a byte or more.
        """
        return math.log2(self.base.model.vocab_size) if self.base else None


@dataclass(frozen=True, kw_only=True)
class FullDraft:
    """The parts of ``full.yaml`` that proposal and recipe must agree with."""

    document: Located
    extends: str | None
    overrides: Mapping[str, Json]

    def config(self, base: RunConfig) -> RunConfig | None:
        """Return the control arm's configuration, None where an override is at fault."""
        try:
            return with_values(base, nested(self.overrides))
        except ValueError:
            return None


def proposal_draft(document: Located) -> ProposalDraft:
    """Return what can be known of a proposal."""
    read = _Reader(document)
    stopping, looks = _stopping(read.text(STOPPING))
    return ProposalDraft(
        document=document,
        hypotheses=tuple(read.hypothesis(path) for path in read.items(("hypotheses",))),
        manipulated=read.texts(MANIPULATED),
        scales=read.texts(SCALES),
        seeds=read.whole(SEEDS),
        pairing=read.text(PAIRING),
        secondary=read.texts(("measures", "secondary")) or (),
        guardrails=read.named(("measures", "guardrails"), "metric"),
        bounds=tuple(
            ((*path, "at_most"), bound)
            for path in read.items(("measures", "guardrails"))
            if (bound := read.number((*path, "at_most"))) is not None
        ),
        budget_trials=read.whole(("sweep", "budget_trials")),
        pruning=read.text(("sweep", "pruning", "rule")),
        startup_trials=read.whole(("sweep", "pruning", "startup_trials")),
        warmup_evaluations=read.whole(("sweep", "pruning", "warmup_evaluations")),
        top_k=read.whole(("sweep", "rerun", "top_k")),
        fresh_seeds=read.whole(("sweep", "rerun", "fresh_seeds")),
        claims=(
            read.claim(CLAIM, HYPOTHESIS, METRIC, DIRECTION),
            *(
                read.claim(
                    *((*path, key) for key in ("claim", "hypothesis", "metric", "direction"))
                )
                for path in read.items(FAMILY)
            ),
        ),
        interval=next((kind for kind in INTERVAL_KINDS if kind == read.text(INTERVAL)), None),
        stopping=stopping,
        looks=looks,
        alpha=read.number(("decision", "alpha")),
        multiplicity=read.text(MULTIPLICITY),
        noise_floor=read.text(NOISE_FLOOR),
        loss_above=read.number(("divergence", "loss_above")),
        rules=tuple(
            (path, rule)
            for path in read.items(RULES)
            if (rule := part(document, path, TypeAdapter(ScalingRule))) is not None
        ),
        rule_keys=read.named(RULES, "key"),
        expected_improvement=read.number(EXPECTED),
        promotion_hours=read.number(("promotion", "budget_device_hours")),
        cap_hours=read.number(("budget_cap_device_hours",)),
        foreknowledge=read.text(("foreknowledge",)),
        pilots_seen=read.text(("pilots_seen",)),
        version=version_of(document.value),
        noise_sd=read.number(NOISE),
        noise_source=read.text(("decision", "noise", "source")),
        underpowered=document.get(UNDERPOWERED) is True,
        phases=read.named(("contingencies",), "phase"),
        embargo_until=read.text(EMBARGO),
    )


def recipe_draft(document: Located) -> RecipeDraft:
    """Return what can be known of a recipe."""
    read = _Reader(document)
    return RecipeDraft(
        document=document,
        identity=read.text(("recipe",)),
        space=read.keys(("space",)),
        scales=tuple(name for _, name in read.named(("scales",), "name")),
        domains=read.keys(("corpus", "sources")),
        tokenizer_vocabulary=read.whole(("corpus", "tokenizer", "vocab_size")),
        base=base_config(document),
    )


def full_draft(document: Located) -> FullDraft:
    """Return what can be known of a full-scale configuration."""
    overrides = document.get(("overrides",))
    return FullDraft(
        document=document,
        extends=_Reader(document).text(("extends",)),
        overrides=overrides if isinstance(overrides, Mapping) else {},
    )


class _Reader:
    def __init__(self, document: Located) -> None:
        self.document = document

    def text(self, path: Path) -> str | None:
        value = self.document.get(path)
        return value if isinstance(value, str) and PLACEHOLDER not in value else None

    def number(self, path: Path) -> float | None:
        value = self.document.get(path)
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if fits else None

    def whole(self, path: Path) -> int | None:
        value = self.document.get(path)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def texts(self, path: Path) -> tuple[str, ...] | None:
        return part(self.document, path, TypeAdapter(tuple[str, ...]))

    def keys(self, path: Path) -> tuple[str, ...]:
        value = self.document.get(path)
        return tuple(value) if isinstance(value, Mapping) else ()

    def items(self, path: Path) -> list[Path]:
        value = self.document.get(path)
        return [(*path, i) for i in range(len(value))] if isinstance(value, list) else []

    def hypothesis(self, path: Path) -> HypothesisDraft:
        return HypothesisDraft(
            path=path,
            id=self.text((*path, "id")),
            direction=self.text((*path, "direction")),
            minimum_effect=self.number((*path, "minimum_effect")),
        )

    def claim(self, path: Path, hypothesis: Path, metric: Path, direction: Path) -> ClaimDraft:
        kind, margin = _claim(self.text(path))
        return ClaimDraft(
            path=path,
            hypothesis_path=hypothesis,
            metric_path=metric,
            direction_path=direction,
            hypothesis=self.text(hypothesis),
            metric=self.text(metric),
            direction=self.text(direction),
            kind=kind,
            margin=margin,
        )

    def named(self, path: Path, field: str) -> tuple[tuple[Path, str], ...]:
        found = [(item, self.text((*item, field))) for item in self.items(path)]
        return tuple((item, name) for item, name in found if name is not None)


def _claim(text: str | None) -> tuple[ClaimKind | None, float | None]:
    match = _CLAIM.match(text or "")
    kinds = [kind for kind in CLAIM_KINDS if match and kind == match[1]]
    if match is None or not kinds:
        return None, None
    try:
        return kinds[0], float(match[2])
    except ValueError:
        return kinds[0], math.nan


def _stopping(text: str | None) -> tuple[StoppingKind | None, tuple[int, ...]]:
    if text == "anytime":
        return "anytime", ()
    match = _LOOKS.match(text or "")
    if match is None:
        return None, ()
    looks = tuple(int(n) for n in match[2].split(","))
    if match[1] == "group":
        return "group", looks
    # fixed(3,5) has no meaning; the schema's fault says which forms there are.
    return ("fixed", looks) if len(looks) == 1 else (None, ())
