"""Parameters, training FLOPs and key/value cache of a decoder's shape. Pure Python.

Conventions. One multiply-add is two FLOPs; a backward pass costs twice a forward pass, so that a
training token costs three forward passes; only matrix products count (no norms, softmax, rotary
embedding, activations, embedding look-up, optimizer). The head counts whether tied or not.
Attention counts the causal half: a position sees (seq_len + 1)/2 positions on average. Nothing is
recomputed. A capacity below the even share counts the choices that have a place at most; one above
it, and the empty places that it leaves, change nothing. Under expert choice a token is taken by
``capacity_factor`` · k experts on average.
"""

# ruff: noqa: D102 -- the shape's names are documented in ModelConfig

from typing import Protocol


class AttentionShape(Protocol):
    """`workbench.moe.attention_config.AttentionConfig`; all widths are 0 with kind ``gqa``."""

    @property
    def kind(self) -> str: ...
    @property
    def q_lora_rank(self) -> int: ...
    @property
    def kv_lora_rank(self) -> int: ...
    @property
    def qk_nope_head_dim(self) -> int: ...
    @property
    def qk_rope_head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...


class RoutingShape(Protocol):
    """`workbench.moe.config.RoutingConfig`."""

    @property
    def kind(self) -> str: ...
    @property
    def capacity_factor(self) -> float | None: ...


class DecoderShape(Protocol):
    """The sizes that counts depend on; `workbench.moe.config.ModelConfig` has them."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def attention(self) -> AttentionShape: ...
    @property
    def num_experts(self) -> int: ...
    @property
    def top_k(self) -> int: ...
    @property
    def routing(self) -> RoutingShape: ...
    @property
    def d_expert(self) -> int: ...
    @property
    def num_shared_experts(self) -> int: ...
    @property
    def qk_norm(self) -> bool: ...
    @property
    def tie_embeddings(self) -> bool: ...


def total_parameters(shape: DecoderShape) -> int:
    """Return every parameter of the decoder; tied embeddings count once."""
    layer = _attention(shape) + _router(shape) + 2 * shape.d_model + _attention_norms(shape)
    layer += (shape.num_experts + shape.num_shared_experts) * _expert(shape)
    matrices = 1 if shape.tie_embeddings else 2
    return shape.num_layers * layer + matrices * _embedding(shape) + shape.d_model


def active_parameters(shape: DecoderShape) -> int:
    """Return the parameters that one token uses: the total without the experts not chosen."""
    idle = (shape.num_experts - shape.top_k) * _expert(shape)
    return total_parameters(shape) - shape.num_layers * idle


def training_flops_per_token(shape: DecoderShape, seq_len: int) -> int:
    """Return forward and backward FLOPs a training token, by this module's conventions.

    6 × (attention, router and used experts of every layer + head) + 3·L·H·(c + v)·(seq_len + 1) for
    the products with keys and values, c and v wide for each of H heads.
    """
    used = (_experts_a_token(shape) + shape.num_shared_experts) * _expert(shape)
    layer = _attention(shape) + _router(shape) + used
    # Scores and mixing: (c + v) × 2 FLOPs × (seq_len + 1)/2 positions, three times, each head.
    positions = 3 * sum(_head_widths(shape)) * shape.num_heads * (seq_len + 1)
    return round(shape.num_layers * (6 * layer + positions) + 6 * _embedding(shape))


def kv_cache_bytes_per_token(shape: DecoderShape, bytes_per_value: int = 2) -> int:
    """Return the bytes that inference keeps for each token of context; 2 a value in bf16.

    Latent attention keeps the compressed vector and the shared rotary key.
    """
    latent = shape.attention
    if latent.kind == "mla":
        width = latent.kv_lora_rank + latent.qk_rope_head_dim
        return shape.num_layers * width * bytes_per_value
    return 2 * shape.num_layers * shape.num_kv_heads * _head_dim(shape) * bytes_per_value


def _experts_a_token(shape: DecoderShape) -> float:
    """Return how many routed experts a token has in training, on average or at most."""
    factor = shape.routing.capacity_factor
    if factor is None:
        return shape.top_k
    most = 1.0 if shape.routing.kind != "expert_choice" else shape.num_experts / shape.top_k
    return shape.top_k * min(factor, most)


def _head_dim(shape: DecoderShape) -> int:
    return shape.d_model // shape.num_heads


def _head_widths(shape: DecoderShape) -> tuple[int, int]:
    """Return the width of a head's query and key, and that of its value."""
    latent = shape.attention
    if latent.kind == "mla":
        return latent.qk_nope_head_dim + latent.qk_rope_head_dim, latent.v_head_dim
    return _head_dim(shape), _head_dim(shape)


def _attention_norms(shape: DecoderShape) -> int:
    latent = shape.attention
    if latent.kind == "mla":
        return latent.q_lora_rank + latent.kv_lora_rank
    return 2 * _head_dim(shape) if shape.qk_norm else 0


def _attention(shape: DecoderShape) -> int:
    latent = shape.attention
    if latent.kind == "mla":
        width, value = _head_widths(shape)
        compressed = latent.q_lora_rank or shape.d_model
        queries = shape.num_heads * width * compressed + latent.q_lora_rank * shape.d_model
        down = (latent.kv_lora_rank + latent.qk_rope_head_dim) * shape.d_model
        up = shape.num_heads * (latent.qk_nope_head_dim + value) * latent.kv_lora_rank
        return queries + down + up + shape.num_heads * value * shape.d_model
    return 2 * shape.d_model * (shape.d_model + shape.num_kv_heads * _head_dim(shape))


def _router(shape: DecoderShape) -> int:
    return shape.d_model * shape.num_experts


def _expert(shape: DecoderShape) -> int:
    return 3 * shape.d_model * shape.d_expert


def _embedding(shape: DecoderShape) -> int:
    return shape.vocab_size * shape.d_model
