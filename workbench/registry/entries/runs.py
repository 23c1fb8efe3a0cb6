"""The process lives of full-scale runs, and what went wrong in them."""

from typing import Literal

from workbench.registry.entries.data_account import SetOverlap
from workbench.registry.entries.filing import CodeState
from workbench.registry.entries.record import Body, Mode, Number, Outcome, Record


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


class ServedOverlap(Record):
    """Overlap of evaluation sets with the text that a run was served."""

    ngram: int
    """Words."""
    threshold: Number
    one_in: int
    """One n-gram in so many was looked for, chosen by its hash; 1 is all of them."""
    windows: int
    """Different windows of text served."""
    measured_windows: int
    """Of them looked through, chosen by a hash of their place. Where fewer, what was found is a
    lower bound."""
    sets: dict[str, SetOverlap]
    """``validation``, ``test`` and the named ones."""


class Computed(Record):
    """What an attempt's training took and did, besides its outcomes."""

    flops_per_token: int
    """Forward and backward through the active parameters and the attention
    (`workbench.planner.counts`); recomputation, padding and the optimizer do not count."""
    flops_per_second: Number
    """Of a device, over the whole attempt: evaluation and saving are timed too."""
    peak_memory_bytes: int
    """Of the device; on a CPU the most that the process ever held."""
    skipped_updates: int = 0
    """Of the run so far: left out because the gradient norm was not finite."""
    heads_scaled: int = 0
    """How many times QK-Clip scaled a head in this attempt."""


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
    served: ServedOverlap | None = None
    """Of all text that the run drew; none unless it completed, and in older entries."""
    computed: Computed | None = None
    """None where the attempt did not end by itself, and in older entries."""
    reason: str = ""


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
