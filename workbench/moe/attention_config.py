"""Which attention a decoder has. Imports no torch, so that a proposal can be checked."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


def _is_zero(width: int) -> bool:
    return width == 0


_NEEDED = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


class AttentionConfig(BaseModel):
    """Grouped queries, or multi-head latent attention (DeepSeek-V2, section 2.1).

    All widths are of ``mla`` and 0 without it; what is 0 is left out when written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["gqa", "mla"] = "gqa"
    """``gqa`` takes its heads from ``num_heads`` and ``num_kv_heads``. ``mla`` keeps one compressed
    vector a token, from which all heads make their keys and values, and one rotary key."""
    q_lora_rank: int = Field(default=0, ge=0, exclude_if=_is_zero)
    """Width to which queries are compressed; 0 makes them from the model width at once."""
    kv_lora_rank: int = Field(default=0, ge=0, exclude_if=_is_zero)
    """Width of the compressed keys and values."""
    qk_nope_head_dim: int = Field(default=0, ge=0, exclude_if=_is_zero)
    """Width of a head's query and key without position."""
    qk_rope_head_dim: int = Field(default=0, ge=0, exclude_if=_is_zero)
    """Width of a head's rotary query, and of the rotary key that all heads share; even."""
    v_head_dim: int = Field(default=0, ge=0, exclude_if=_is_zero)
    """Width of a head's value."""

    @model_validator(mode="after")
    def _widths_fit(self) -> "AttentionConfig":
        if self.kind == "gqa":
            given = [name for name in ("q_lora_rank", *_NEEDED) if getattr(self, name)]
            if given:
                raise ValueError(
                    f"{given[0]} {getattr(self, given[0])} has no meaning with kind gqa -> delete "
                    "it, or write kind: mla"
                )
            return self
        missing = [name for name in _NEEDED if not getattr(self, name)]
        if missing:
            raise ValueError(f"kind mla lacks {', '.join(missing)}")
        if self.qk_rope_head_dim % 2:
            raise ValueError(f"qk_rope_head_dim {self.qk_rope_head_dim} is not even")
        return self
