"""Who looked at outcomes, and what the registered rule says of them."""

from typing import Literal, TypeAlias

from workbench.registry.entries.record import Body, Mode, Number, Record


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
    metrics: dict[str, Number] = {}
    """Every metric on that split, so that no later look opens it for this run; absent in entries
    that are older than the field, and where there is no value."""


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


Ruling: TypeAlias = Literal["supported", "refuted", "inconclusive", "void"]


class ClaimResult(Record):
    """What the registered rule says of one claim at one look."""

    hypothesis: str
    claim: str
    """For example ``superior(0.02)``."""
    metric: str
    direction: Literal["minimize", "maximize"]
    outcome: Ruling
    estimate: Number | None = None
    """Improvement of treatment over control, positive is better."""
    lower: Number | None = None
    upper: Number | None = None
    degrees_of_freedom: Number | None = None
    interval: Literal["welch_t", "paired_t", "calibrated_t", "perm_exact"]
    """What the bounds are: Welch's where the guard of ``calibrated_t`` fell back on them."""
    alpha: Number
    """One-sided error of each bound: the look's and the family's share of the registered α."""
    reason: str = ""
    """Why there is nothing to say: of ``void`` only."""


class Look(Body):
    """A registered look at outcomes before the last seed, and what the rule said of going on."""

    kind = "look"
    signed = True
    mode: Mode
    number: int
    """From 1."""
    num_seeds: int
    """Seeds an arm that it looked at: the first, by index."""
    state: Literal["go_on", "stop", "final"]
    next_seeds: int | None = None
    """Seeds an arm of the next look; absent unless the state is ``go_on``."""
    values: dict[str, list[SeedValue]]
    """By arm; without values where the sealed split stayed shut."""
    results: list[ClaimResult]
    """The claim about the primary metric, then its family."""
    void_reasons: list[str] = []


class Verdict(Body):
    """What the registered rule says of the sealed test values."""

    kind = "verdict"
    signed = True
    mode: Mode
    outcome: Ruling
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
    stopping: str = ""
    """As registered, like ``group(3,5,8)``; absent in entries that are older than the field, whose
    rule was ``fixed``."""
    look: int = 1
    """Which look decided, from 1."""
    num_seeds: int | None = None
    """Seeds an arm at that look; absent in older entries, which had all."""
    results: list[ClaimResult] = []
    """The claim about the primary metric as the rule alone decided it, before guardrails and late
    amendments, then its family; absent in older entries."""
    noise_floor: str = ""
    """Leaf hash of the entry whose spread ``calibrated_t`` used."""
