"""Which kernels a run trains with, and why."""

from dataclasses import dataclass

from workbench.moe.config import ModelConfig
from workbench.moe.native.build import NotBuilt
from workbench.moe.native.library import opened
from workbench.training.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What `kernels_of` found."""

    compiled: bool
    """Whether a pass in bf16 on a CPU takes the compiled kernels."""
    reason: str
    """Why not; empty where they are taken."""

    def __str__(self) -> str:
        return "compiled" if self.compiled else f"portable ({self.reason})"


def kernels_of(config: RunConfig) -> Kernels:
    """Return the kernels of a run; the first call on a machine compiles them, in seconds."""
    if config.precision != "bf16":
        return Kernels(compiled=False, reason=f"precision {config.precision}")
    if config.kernels == "portable":
        return Kernels(compiled=False, reason="kernels: portable")
    odd = _odd_widths(config.model)
    if odd:
        return Kernels(compiled=False, reason=f"{odd} is odd")
    found = opened()
    if isinstance(found, NotBuilt):
        return Kernels(compiled=False, reason=str(found))
    return Kernels(compiled=True, reason="")


def _odd_widths(model: ModelConfig) -> str:
    """Return a width that does not go into pairs, empty where all do."""
    attention = model.attention
    widths = {
        "d_model": model.d_model,
        "d_expert": model.d_expert,
        "vocab_size": model.vocab_size,
        "qk_nope_head_dim": attention.qk_nope_head_dim,
        "qk_rope_head_dim": attention.qk_rope_head_dim,
        "v_head_dim": attention.v_head_dim,
    }
    return next((f"{name} {width}" for name, width in widths.items() if (width or 0) % 2), "")
