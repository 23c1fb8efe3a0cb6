"""Shape of the mixture-of-experts decoder. Imports no torch, so that a proposal can be checked."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator
from pydantic_core.core_schema import SerializerFunctionWrapHandler

from workbench.moe.attention_config import AttentionConfig

RecomputePolicy: TypeAlias = Literal["none", "full", "qkv", "qkv_softmax", "selective"]
"""What the backward pass computes again instead of keeping: see `workbench.moe.recompute`."""

BALANCE_DEFINITION = "switch-E*sum(f*P)/k@1"
"""Switch loss E·Σ f_i·P_i with f counted over the top-k assignments and divided by k: 1.0 at
balance whatever k (Fedus et al. 2021, eq. 4–6), per layer, fp32, averaged over layers."""

UNDIVIDED_DEFINITION = "switch-E*sum(f*P)@1"
"""The same with f not divided by k: k at balance, so that the same λ weighs k times as much."""

SEQUENCE_DEFINITION = "sequence-E*sum(f*P)/k@1"
"""E·Σ f_i·P_i within each sequence, f over the k best scores before any bias (DeepSeek-V3, eq.
17-20): 1.0 at balance; mean over sequences by their tokens, then over layers."""

STABILITY_DEFINITION = "kl(P||ema(P))@1"
"""Ours: Σ P_i·ln(P_i / Q_i) in nats, with P the marginal distribution over experts of the tokens
that the scope names and Q the exponential moving average of the marginals of the steps before; 0 in
the first step; gradient through P only; averaged over layers."""


def _is_zero(value: float) -> bool:
    return value == 0


def _is_none(value: object) -> bool:
    return value is None


_KEYS_OF: Mapping[str, tuple[str, ...]] = {
    "token_choice": (
        *("scores", "scale", "groups", "top_groups", "bias", "capacity_factor", "drop"),
        "refresh_every",
    ),
    "expert_choice": ("capacity_factor", "causal_leak"),
    "gumbel": ("capacity_factor", "drop", "inference", "temperature"),
}
"""The keys of `RoutingConfig` that mean something with each kind."""


class RoutingConfig(BaseModel):
    """How tokens and experts find each other. What has its default is left out when written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["token_choice", "expert_choice", "gumbel"] = "token_choice"
    """``token_choice``: each token takes its k best experts. ``expert_choice``: each expert takes
    its best tokens of a pass (Zhou et al. 2022). ``gumbel``: the k best of logits with Gumbel noise
    in training, straight-through (Jang et al. 2017)."""
    scores: Literal["softmax", "sigmoid"] = "softmax"
    """``sigmoid``: each expert is scored by itself (DeepSeek-V3, eq. 15)."""
    scale: float = Field(default=1.0, gt=0, le=100)
    """Factor of the weights of the chosen experts (DeepSeek-V3 uses 2.5)."""
    groups: int = Field(default=1, ge=1)
    """Experts stand in this many groups of neighbours."""
    top_groups: int = Field(default=1, ge=1)
    """A token may only choose within its best groups: those whose two best scores sum highest."""
    bias: bool = False
    """Each expert has a bias that takes part in the choice only (``balance.bias_rate``)."""
    capacity_factor: float | None = Field(default=None, gt=0, le=1000)
    """In training an expert takes at most this multiple of its even share of a pass; None drops
    nothing. Under expert choice, where None is 1, each takes just as many, always."""
    drop: Literal["weight", "position"] = "weight"
    """Whom a full expert keeps: the tokens of the largest weight, which looks at later tokens, or
    those that come first."""
    causal_leak: Literal["accepted"] | None = None
    """Expert choice compares a token with later ones, so that a causal model learns from what it
    must foretell. It is refused unless that is stated here."""
    inference: Literal["hard", "soft"] = "hard"
    """Gumbel without noise: ``hard`` mixes the k best alike, as training does; ``soft`` mixes all
    experts by their probability, at E/k times the products."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """Of the softmax that the straight-through gradient goes through."""
    refresh_every: int = Field(default=1, ge=1)
    """Steps between two refreshes of the rule that chooses: a copy of the router's matrix. Weights
    always come from the matrix itself. While the router is frozen nothing is refreshed."""

    @model_serializer(mode="wrap")
    def _what_differs(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {name: value for name, value in plain.items() if value != ROUTING_OFF[name]}

    @model_validator(mode="after")
    def _fits_together(self) -> "RoutingConfig":
        if self.kind == "expert_choice" and self.causal_leak is None:
            raise ValueError(
                "kind expert_choice lets a token's experts depend on later tokens -> write "
                "causal_leak: accepted, or kind: token_choice"
            )
        if self.top_groups > self.groups:
            raise ValueError(f"top_groups {self.top_groups} exceeds groups {self.groups}")
        for name, value in self.model_dump().items():
            if name not in ("kind", *_KEYS_OF[self.kind]):
                raise ValueError(
                    f"{name} {value!r} has no meaning with kind {self.kind} -> delete it"
                )
        return self


ROUTING_OFF: Mapping[str, Any] = {
    name: field.default for name, field in RoutingConfig.model_fields.items()
}
"""What each key of `RoutingConfig` is while it is not written."""


class ModelConfig(BaseModel):
    """A decoder of RMSNorm, RoPE attention and routed SwiGLU experts."""

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
    routing: RoutingConfig = Field(
        default=RoutingConfig(), exclude_if=lambda routing: routing == RoutingConfig()
    )
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
        self._groups_fit()
        return self

    def _groups_fit(self) -> None:
        groups, top_groups = self.routing.groups, self.routing.top_groups
        if self.num_experts % groups:
            raise ValueError(
                f"num_experts {self.num_experts} is not a multiple of routing.groups {groups}"
            )
        within = self.num_experts // groups * top_groups
        if self.top_k > within:
            raise ValueError(
                f"top_k {self.top_k} exceeds the {within} experts of routing.top_groups "
                f"{top_groups} -> write top_groups: {-(-self.top_k * groups // self.num_experts)}"
            )


class BalanceConfig(BaseModel):
    """The auxiliary losses of the router; a weight is meaningless without its definition."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(ge=0, le=10)
    """λ, the factor of the balance loss."""
    definition: Literal["switch-E*sum(f*P)/k@1", "switch-E*sum(f*P)@1"]
    """`BALANCE_DEFINITION` or `UNDIVIDED_DEFINITION`."""
    scope: Literal["micro_batch", "global_batch"] = "micro_batch"
    """The tokens over which f and P are taken. ``global_batch``: all of an optimizer step, over
    micro-batches and ranks; with several micro-batches it costs a second forward pass."""
    z_loss_weight: float = Field(ge=0, le=10)
    """Factor of mean(logsumexp(router logits)²) (ST-MoE, eq. 5)."""
    sequence_weight: float = Field(default=0.0, ge=0, le=10, exclude_if=_is_zero)
    """Factor of the sequence-wise loss (DeepSeek-V3: 1e-4)."""
    sequence_definition: Literal["sequence-E*sum(f*P)/k@1"] | None = Field(
        default=None, exclude_if=_is_none
    )
    bias_rate: float = Field(default=0.0, ge=0, le=1, exclude_if=_is_zero)
    """γ: after each step the bias of an expert with more tokens than the mean falls by it, that of
    one with fewer rises (DeepSeek-V3: 0.001, then 0). Needs ``model.routing.bias``."""
    stability_weight: float = Field(default=0.0, ge=0, le=10, exclude_if=_is_zero)
    """Factor of the routing-stability penalty."""
    stability_definition: Literal["kl(P||ema(P))@1"] | None = Field(
        default=None, exclude_if=_is_none
    )
    stability_decay: float = Field(
        default=0.99, ge=0, lt=1, exclude_if=lambda decay: decay == BALANCE_OFF["stability_decay"]
    )
    """Share that the moving average of the marginals keeps at each step."""

    @model_validator(mode="after")
    def _weights_are_defined(self) -> "BalanceConfig":
        for name, weight, definition, known in (
            ("sequence", self.sequence_weight, self.sequence_definition, SEQUENCE_DEFINITION),
            ("stability", self.stability_weight, self.stability_definition, STABILITY_DEFINITION),
        ):
            if weight and definition is None:
                raise ValueError(
                    f"{name}_weight {weight:g} has no {name}_definition -> write "
                    f"{name}_definition: {known!r}"
                )
        return self


BALANCE_OFF: Mapping[str, Any] = {
    name: field.default
    for name, field in BalanceConfig.model_fields.items()
    if field.exclude_if is not None
}
"""What each key of `BalanceConfig` is that is left out while it is not written."""
