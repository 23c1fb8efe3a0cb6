"""Who looked at outcomes, and what the registered rule says of them."""

from typing import Literal

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
