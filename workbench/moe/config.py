"""Shape of the mixture-of-experts decoder. Imports no torch, so that a proposal can be checked."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workbench.moe.attention_config import AttentionConfig

BALANCE_DEFINITION = "switch-E*sum(f*P)/k@1"
"""Switch loss E·Σ f_i·P_i with f counted over the top-k assignments and divided by k: 1.0 at
balance whatever k (Fedus et al. 2021, eq. 4–6), per layer, fp32, averaged over layers."""


class ModelConfig(BaseModel):
    """A decoder of RMSNorm, RoPE attention and SwiGLU experts with token-choice routing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocab_size: int = Field(ge=257, le=1_000_000)
    d_model: int = Field(ge=8)
    num_layers: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    num_kv_heads: int = Field(ge=1)
    """Fewer than ``num_heads`` is grouped-query attention."""
    num_experts: int = Field(ge=1)
    top_k: int = Field(ge=1)
    d_expert: int = Field(ge=1)
    """Hidden width of one SwiGLU expert."""
    num_shared_experts: int = Field(default=0, ge=0)
    max_seq_len: int = Field(ge=2)
    norm_placement: Literal["pre", "reordered"] = "pre"
    """``reordered`` normalises each sub-layer's output before the residual add (OLMo 2)."""
    attention: AttentionConfig = Field(
        default=AttentionConfig(), exclude_if=lambda attention: attention == AttentionConfig()
    )
    qk_norm: bool = True
    """RMSNorm of each head's queries and keys; not with latent attention, which has its own."""
    rope_theta: float = Field(default=10_000.0, gt=0)
    tie_embeddings: bool = True
    init_std: float = Field(default=0.02, gt=0)

    @property
    def rotary_width(self) -> int:
        """Width of a head that carries its position."""
        return self.attention.qk_rope_head_dim or self.d_model // self.num_heads

    @model_validator(mode="after")
    def _attention_fits(self) -> "ModelConfig":
        if self.attention.kind == "gqa":
            return self
        if self.qk_norm:
            raise ValueError(
                "qk_norm true needs the whole keys, which latent attention does not keep -> write "
                "qk_norm: false"
            )
        if self.num_kv_heads != self.num_heads:
            raise ValueError(
                f"num_kv_heads {self.num_kv_heads} has no meaning with latent attention -> write "
                f"num_kv_heads: {self.num_heads}"
            )
        return self

    @model_validator(mode="after")
    def _shapes_fit(self) -> "ModelConfig":
        is_split = self.attention.kind == "gqa"
        if is_split and (self.d_model % self.num_heads or (self.d_model // self.num_heads) % 2):
            unit = 2 * self.num_heads
            near = max(1, round(self.d_model / unit)) * unit
            raise ValueError(
                f"d_model {self.d_model} must be num_heads {self.num_heads} times an even number"
                f" -> write d_model: {near}, or a num_heads that divides {self.d_model} into even "
                "parts"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}"
            )
        if self.top_k > self.num_experts:
            raise ValueError(f"top_k {self.top_k} exceeds num_experts {self.num_experts}")
        return self


class BalanceConfig(BaseModel):
    """The auxiliary losses of the router; λ is meaningless without its definition beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(ge=0, le=10)
    """λ, the factor of the balance loss."""
    definition: Literal["switch-E*sum(f*P)/k@1"]
    scope: Literal["micro_batch"] = "micro_batch"
    """The tokens over which f and P are taken."""
    z_loss_weight: float = Field(ge=0, le=10)
    """Factor of mean(logsumexp(router logits)²) (ST-MoE, eq. 5)."""
