"""What proxies showed, what was promoted from them, and what was forecast."""

from workbench.canonical import Json
from workbench.registry.entries.record import (
    Body,
    Mode,
    Number,
    Record,
    TrialState,
)
from workbench.registry.entries.runs import DomainUse


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
    drawn: dict[str, DomainUse] | None = None
    """By domain, up to ``steps``; absent unless training itself ended, and in older entries."""
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
