"""What a run ends with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.data.serving.stream import Accounting
from workbench.sentinel.detector import Finding
from workbench.training.checkpoints import Checkpoint, RejectedCheckpoint

EndOutcome: TypeAlias = Literal["completed", "diverged", "pruned"]


@dataclass(frozen=True, kw_only=True)
class DivergenceRule:
    """When a run counts as diverged; a loss that is not finite always does, at once."""

    loss_above: float
    """Training loss, nats a token."""
    patience: int
    """Consecutive steps above it."""


@dataclass(frozen=True, kw_only=True)
class UpdateReport:
    """What was done to a run's updates besides the optimizer's step."""

    skipped: int = 0
    """Of the run, over all its attempts: left out because the gradient norm was not finite."""
    max_logit: float | None = None
    """Largest attention logit of this attempt; None where none was watched."""
    heads_scaled: int = 0
    """How many times QK-Clip scaled a head in this attempt."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How an attempt ended, and what the run then was."""

    outcome: EndOutcome
    reason: str
    """Why it diverged or was pruned; empty when completed."""
    attempt: int
    from_step: int
    """Steps that were already done when the attempt began."""
    parent_checkpoint: str
    """SHA-256 of the checkpoint that it continued; empty for a fresh start."""
    rejected_checkpoints: tuple[RejectedCheckpoint, ...]
    """Newer ones that did not verify; set aside as ``….ckpt.rejected``."""
    last_step: int
    planned_steps: int
    tokens: int
    """Training tokens of this attempt."""
    device_seconds: float
    """Wall time of this attempt times its devices, evaluation and saving included."""
    final: Mapping[str, float] | None
    """Validation metrics at the last step; None unless completed."""
    evaluations: tuple[tuple[int, Mapping[str, float]], ...]
    """(step, validation metrics) of this attempt."""
    curve: tuple[tuple[int, float], ...]
    """(step, training loss) of this attempt, thinned to at most 200 points."""
    findings: tuple[Finding, ...]
    """Signatures of failure that the sentinel saw in this attempt."""
    checkpoint: Checkpoint | None
    """The newest good one."""
    telemetry_sha256: str
    mixture: Accounting
    """Stated and realised shares and epochs of each domain, over the steps that survive."""
    updates: UpdateReport = UpdateReport()
    flops_per_token: int = 0
    """Training FLOPs of a token by the conventions of `workbench.planner.counts`: what the active
    parameters need, forward and backward. Recomputation, padding and the optimizer do not count."""
    peak_memory_bytes: int = 0
    """Of the device; on a CPU the most that the process ever held."""
    warnings: tuple[str, ...] = ()
    """What went wrong beside the training, for example a tracking store that was away."""

    @property
    def flops_per_second(self) -> float:
        """FLOPs of this attempt's tokens a second and device, evaluation and saving timed too.

        0 where the attempt trained nothing.
        """
        if not self.device_seconds:
            return 0.0
        return self.tokens * self.flops_per_token / self.device_seconds

    def utilization(self, peak_flops_per_second: float) -> float:
        """Return the model FLOPs utilization (MFU; Chowdhery et al. 2022, appendix B).

        Args:
            peak_flops_per_second: of one device, dense, in the data type of its products: by its
                data sheet or as measured, which whoever tells the figure has to say.
        """
        return self.flops_per_second / peak_flops_per_second
