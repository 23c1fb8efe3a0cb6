"""What the record keeps of the work of an attempt."""

from workbench.registry.entries import Computed
from workbench.training.results import RunResult


def computed(result: RunResult) -> Computed:
    """Return the figures of speed and memory, and what was done to the updates."""
    return Computed(
        flops_per_token=result.flops_per_token,
        flops_per_second=result.flops_per_second,
        peak_memory_bytes=result.peak_memory_bytes,
        skipped_updates=result.updates.skipped,
        heads_scaled=result.updates.heads_scaled,
    )
