"""How much runs differ that differ in nothing but their seed."""

from typing import Literal

from workbench.registry.entries.filing import CodeState
from workbench.registry.entries.record import Body, Number, Record


class Repeat(Record):
    """One run of the repeated configuration."""

    seed: str
    state: Literal["completed", "diverged", "failed"]
    values: dict[str, Number] = {}
    """By metric; empty unless it completed."""
    mlflow_run: str = ""
    device_seconds: Number = 0.0
    """Of all its attempts, also of work that was lost; 0 of an imported one."""
    reason: str = ""
    """Why it did not complete, or what went wrong beside it."""
    commit: str = ""
    """Of the code that ran it; empty of an imported one."""


class NoiseFloor(Body):
    """Repeats of one configuration on several seeds, and their spread by metric.

    It is of one scale, one mixture and one configuration, and says nothing of others.
    """

    kind = "noise_floor"
    signed = True
    recipe: str
    """``name@version``."""
    recipe_sha256: str
    scale: str
    """Of the recipe, or ``full``."""
    experiment: str = ""
    """``NNNN-slug`` whose full.yaml is the scale ``full``; empty for a scale of the recipe."""
    config_sha256: str
    """Of the repeated run configuration."""
    parameters: int = 0
    """Of the repeated model, in total."""
    mixture: dict[str, Number]
    """By domain, averaged over the steps."""
    corpus: str
    """``name@version``."""
    corpus_manifest: str = ""
    evaluation_set: Literal["validation"]
    """The sealed test split is never read for it."""
    origin: Literal["run", "imported"]
    source: str
    """What ran, or name and SHA-256 of the imported file."""
    repeats: list[Repeat]
    num_runs: int
    """Completed repeats, which the spreads are of."""
    spreads: dict[str, Number]
    """Sample standard deviation by metric, with ``num_runs`` - 1 degrees of freedom; none of fewer
    than two completed repeats."""
    device_seconds: Number
    code: CodeState
