"""The kinds of ledger entry and the fields of their bodies.

A body is written once, validated here, and read back through the same model. Numbers that are not
integers travel as decimal strings (`workbench.canonical.decimal`), absent values are left out.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from workbench.canonical import Json, decimal, freeze, from_decimal
from workbench.errors import InvalidFileError


def _number(value: Json) -> float:
    return from_decimal(value) if isinstance(value, str) else float(value)


Number: TypeAlias = Annotated[float, BeforeValidator(_number), PlainSerializer(decimal)]
"""A double, in JSON as its shortest decimal string; non-finite values are marked as such."""

Mode: TypeAlias = Literal["confirmatory", "exploratory"]
Outcome: TypeAlias = Literal["completed", "failed", "killed", "lost", "diverged"]
TrialState: TypeAlias = Literal["completed", "pruned", "failed", "diverged", "lost"]


class Record(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Body(Record):
    """The body of one entry kind."""

    kind: ClassVar[str]
    signed: ClassVar[bool] = False
    """Whether the author signs the entry's leaf hash."""

    def to_json(self) -> Json:
        """Return the body in the ledger's JSON profile."""
        return freeze(self.model_dump(mode="python", exclude_none=True))


class Document(Record):
    """A file as it was frozen: the ledger's copy is the one that runs."""

    path: str
    """Relative to the lab's root."""
    sha256: str
    text: str


class CodeState(Record):
    """The version of the code that a registration or attempt used."""

    commit: str
    """Git commit of the lab's work tree; ``none`` outside git."""
    dirty: bool
    workbench: str
    """Version of the installed workbench package."""


class DataState(Record):
    """The corpus behind an experiment."""

    corpus: str
    """``name@version`` of the corpus recipe."""
    manifest: str
    """Fingerprint over sources, filters, tokenizer, splits and every shard's hash."""
    documents: dict[str, int]
    """Documents by split and domain, keys ``train_code`` and the like."""
    tokens: dict[str, int]
    duplicates_removed: int
    natural_mixture: dict[str, Number]
    """Share of each domain in the training split's bytes."""
    builder: dict[str, str] = {}
    """Versions of what the built-in text came from (Python, packages)."""


class Genesis(Body):
    """The first entry of a log: which keys speak for it."""

    kind = "genesis"
    lab: str
    record_format: str
    log_key: str
    """C2SP verifier key of the tree heads."""
    author_key: str
    """C2SP verifier key of the author signatures."""


class Registration(Body):
    """A frozen proposal. Everything that runs under it is read from here, not from the files."""

    kind = "registration"
    signed = True
    experiment: str
    title: str
    proposal: Document
    recipe: Document
    full: Document
    frozen: Json
    """The proposal's front matter as typed values (model `Proposal`)."""
    control: dict[str, Json]
    """The control arm's values of the manipulated keys, as a nested configuration fragment."""
    code: CodeState
    environment: dict[str, str]
    """Package versions, Python, platform; keys in snake_case."""
    data: DataState
    arms: list[str]
    num_seeds: int


class Anchor(Body):
    """A signed tree head kept in the log itself: the registration it covers came before it."""

    kind = "anchor"
    method: Literal["embedded"]
    head: str
    """The signed note, verbatim. The time-locked seeds derive from its SHA-256."""
    tree_size: int


class SweepStarted(Body):
    """A sweep, or its continuation, began."""

    kind = "sweep_started"
    mode: Mode
    recipe: str
    """``name@version``."""
    recipe_sha256: str
    sampler: str
    sampler_seed: str
    budget_trials: int
    already_done: int
    mlflow_run: str


class Trial(Body):
    """One proxy of a sweep ended."""

    kind = "trial"
    mode: Mode
    number: int
    state: TrialState
    scale: str
    params: dict[str, Json]
    """The values tried, unrounded, as a nested configuration fragment."""
    seed: str
    metric: str
    value: Number | None = None
    """Validation value by the registered step rule; absent unless the trial completed."""
    last_value: Number | None = None
    """Last validation value seen of a pruned, failed or diverged trial; never used to select."""
    steps: int
    tokens: int
    device_seconds: Number
    mlflow_run: str
    reason: str = ""


class SweepEnded(Body):
    """A sweep used up its registered budget, or stopped."""

    kind = "sweep_ended"
    mode: Mode
    declared: int
    counts: dict[str, int]
    """Trials by state."""
    finished: bool
    reason: str = ""


class ProxyRun(Body):
    """A candidate or the control re-run on a fresh seed at one scale of the ladder."""

    kind = "proxy_run"
    mode: Mode
    candidate: str
    """``control`` or ``trial-NN``."""
    scale: str
    parameters: int
    """Total parameters of the model at this scale."""
    seed_index: int
    seed: str
    params: dict[str, Json]
    state: TrialState
    metric: str
    value: Number | None = None
    steps: int
    tokens: int
    device_seconds: Number
    mlflow_run: str
    reason: str = ""


class Candidate(Record):
    """One option of a promotion with what the re-runs showed."""

    name: str
    params: dict[str, Json]
    sweep_value: Number | None = None
    """Best-of-sweep figure: optimistically biased, shown beside the re-run mean."""
    rerun_mean: Number | None = None
    rerun_sd: Number | None = None
    rerun_n: int
    improvement: Number | None = None
    """Control mean minus this mean in the registered direction; positive is better."""
    lower: Number | None = None
    upper: Number | None = None
    """Two one-sided (1-alpha) bounds of the improvement."""
    feasible: bool
    reason: str = ""


class KeyChange(Record):
    """A key whose full-scale value differs from the proxy's."""

    key: str
    proxy: Json
    full: Json
    explained_by: str
    """``scaling rule: …`` or ``deviation: …``."""
    deviation: bool


class Promotion(Body):
    """The candidate chosen by the registered rule, and the full-scale configuration."""

    kind = "promotion"
    signed = True
    mode: Mode
    chosen: str
    """A candidate's name, or ``none`` when no candidate may be promoted."""
    rule: str
    candidates: list[Candidate]
    changes: list[KeyChange]
    configs: dict[str, Json]
    """Full run configuration of each arm."""
    config_sha256: dict[str, str]
    reason: str = ""


class Interval(Record):
    """A prediction interval."""

    level: int
    """Per cent: 50, 80 or 95."""
    lower: Number
    upper: Number


class ScalePoint(Record):
    """What one scale contributed to a forecast."""

    scale: str
    parameters: int
    tokens: int
    compute_flops: Number
    mean: Number
    sd: Number | None = None
    n: int


class Forecast(Body):
    """A full-scale result predicted from proxies, before the full-scale runs."""

    kind = "forecast"
    mode: Mode
    target: str
    """``treatment``, ``control`` or ``improvement``."""
    metric: str
    method: str
    point: Number
    intervals: list[Interval]
    spread: Number
    """Standard deviation of the predictive distribution, for CRPS."""
    scales: list[ScalePoint]
    extrapolation_ratio: Number
    """Full-scale training FLOPs divided by those of the largest proxy."""
    baselines: dict[str, Number]
    """``no_effect`` and ``last_scale`` predictions of the same target."""
    assumptions: list[str]


class RunStarted(Body):
    """One process life of a full-scale run began."""

    kind = "run_started"
    mode: Mode
    run: str
    """``arm/seed-N``."""
    arm: str
    seed_index: int
    seed: str
    attempt: int
    from_step: int
    parent_checkpoint: str = ""
    """SHA-256 of the checkpoint that it continues; empty for a fresh start."""
    config_sha256: str
    code: CodeState
    host: dict[str, str]
    """Device, threads, torch version; keys in snake_case."""
    mlflow_run: str


class CurvePoint(Record):
    """A thinned point of a training curve."""

    step: int
    loss: Number


class EvaluationPoint(Record):
    """Validation metrics at a step."""

    step: int
    values: dict[str, Number]


class DomainUse(Record):
    """What a run drew from one domain, beside what its mixtures said."""

    tokens: int
    share: Number
    stated: Number
    """Averaged over the steps."""
    epochs: Number
    """How many times the domain's training text was gone through."""


class RunEnded(Body):
    """One process life of a full-scale run ended, or was found dead."""

    kind = "run_ended"
    mode: Mode
    run: str
    attempt: int
    outcome: Outcome
    last_step: int
    surviving_step: int
    """Last step that the canonical curve keeps; later ones of this attempt are discarded."""
    planned_steps: int
    tokens: int
    device_seconds: Number
    checkpoint_sha256: str = ""
    """Of the last good checkpoint; empty when none was written."""
    telemetry_sha256: str = ""
    curve: list[CurvePoint] = []
    evaluations: list[EvaluationPoint] = []
    drawn: dict[str, DomainUse] = {}
    """By domain, over all attempts that survive; empty unless the run completed."""
    reason: str = ""


class Decision(Body):
    """A choice by a person or by a rule, with what would reverse it."""

    kind = "decision"
    signed = True
    question: str
    options: list[str]
    chosen: str
    basis: Literal["rule", "judgement"]
    evidence: list[str]
    """Each an entry id or a sentence."""
    dissent: str = ""
    owner: str
    reversible: bool
    rollback: str = ""
    would_reverse: str


class Note(Body):
    """A free remark in the logbook."""

    kind = "note"
    text: str


class Deviation(Body):
    """Something differs from what was registered; detected by the system."""

    kind = "deviation"
    what: str
    """The key, file or fact."""
    registered: str
    found: str
    effect: str
    """Consequence for the inference."""


class Incident(Body):
    """Something went wrong during a run."""

    kind = "incident"
    run: str
    attempt: int
    severity: Literal["note", "warning", "critical"]
    category: str
    """Signature name, for example ``non_finite_loss`` or ``corrupt_checkpoint``."""
    layer: Literal["objective", "architecture", "optimizer", "operations"]
    began_step: int
    detected_step: int
    symptom: str
    excerpt: str = ""
    action: str
    lost_steps: int
    lost_tokens: int
    lost_device_seconds: Number


class Exposure(Body):
    """Outcomes were looked at."""

    kind = "exposure"
    what: Literal["sealed_test", "validation_outcomes"]
    by: str
    purpose: str
    runs: list[str]


class SeedValue(Record):
    """One seed's value of the primary metric on the sealed test split."""

    seed_index: int
    value: Number | None = None
    """Absent when the run diverged or is missing."""
    run: str
    checkpoint_sha256: str = ""


class ForecastScore(Record):
    """How a forecast did against what happened."""

    target: str
    observed: Number
    error: Number
    """Observed minus point."""
    covered: dict[str, bool]
    """Keys ``p50``, ``p80``, ``p95``."""
    interval_score_80: Number
    crps: Number
    crps_baselines: dict[str, Number]
    grade: str
    """``uncalibrated, n<30`` until enough forecasts are scored."""


class GuardrailResult(Record):
    """Whether a registered bound held; one that did not turns ``supported`` into ``refuted``."""

    metric: str
    at_most: Number
    treatment_mean: Number
    held: bool


class Verdict(Body):
    """What the registered rule says of the sealed test values."""

    kind = "verdict"
    signed = True
    mode: Mode
    outcome: Literal["supported", "refuted", "inconclusive", "void"]
    hypothesis: str
    claim: str
    """For example ``superior(0.02)``."""
    interval: str
    alpha: Number
    metric: str
    direction: Literal["minimize", "maximize"]
    values: dict[str, list[SeedValue]]
    """By arm."""
    estimate: Number | None = None
    """Improvement of treatment over control, positive is better."""
    lower: Number | None = None
    upper: Number | None = None
    degrees_of_freedom: Number | None = None
    per_metric: dict[str, dict[str, Number]] = {}
    """Means by arm of the secondary metrics, keys in snake_case."""
    guardrails: list[GuardrailResult] = []
    void_reasons: list[str] = []
    action: str
    """What was registered to happen on this outcome."""
    scores: list[ForecastScore] = []


BODIES: dict[str, type[Body]] = {
    body.kind: body
    for body in (
        Genesis,
        Registration,
        Anchor,
        SweepStarted,
        Trial,
        SweepEnded,
        ProxyRun,
        Promotion,
        Forecast,
        RunStarted,
        RunEnded,
        Decision,
        Note,
        Deviation,
        Incident,
        Exposure,
        Verdict,
    )
}


def parse_body(kind: str, value: Json) -> Body:
    """Return the typed body of an entry.

    Raises:
        InvalidFileError: the kind is unknown or the value does not fit it.
    """
    model = BODIES.get(kind)
    if model is None:
        raise InvalidFileError(f"entry kind {kind!r} is unknown (known: {', '.join(BODIES)})")
    try:
        return model.model_validate(value)
    except ValueError as error:
        raise InvalidFileError(f"the body of a {kind} entry is malformed: {error}") from error
