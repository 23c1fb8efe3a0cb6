"""The decoder: embedding, layers of attention and routed experts, final norm, head.

Shape suffixes: B sequences, T positions, N = B·T tokens, D model width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.attention import Attention, RMSNorm, Rotation
from workbench.moe.config import ModelConfig, RecomputePolicy
from workbench.moe.documents import Documents
from workbench.moe.experts import Experts, SharedExperts
from workbench.moe.latent_attention import LatentAttention
from workbench.moe.recompute import layer_result
from workbench.moe.router import Router, Routing, Turn

Part: TypeAlias = Literal["router", "embeddings", "experts", "attention", "norm", "head"]

_RESIDUAL_WRITERS = ("attention.output", "experts.down", "shared_experts.down")


@dataclass(frozen=True, kw_only=True)
class DecoderOutput:
    """Next-token logits and what each layer's router decided."""

    logits_BTV: Tensor
    """In the compute data type: bf16 under a bf16 autocast."""
    routing: tuple[Routing, ...]
    """One a layer, tokens in the order of ``tokens_BT.flatten()``."""


@dataclass(frozen=True, kw_only=True)
class HiddenOutput:
    """What the head reads, and what each layer's router decided."""

    hidden_BTD: Tensor
    """After the final norm."""
    routing: tuple[Routing, ...]


class Layer(nn.Module):
    """Attention, then routed experts, each added to the residual stream.

    ``pre`` normalises a sub-layer's input, ``reordered`` its output (OLMo 2, section 2.1).
    """

    def __init__(self, config: ModelConfig, number: int = 0) -> None:
        super().__init__()
        self.reordered = config.norm_placement == "reordered"
        self.attention_norm = RMSNorm(config.d_model)
        self.attention = (
            Attention(config) if config.attention.kind == "gqa" else LatentAttention(config)
        )
        self.experts_norm = RMSNorm(config.d_model)
        self.router = Router(
            config.d_model, config.num_experts, config.top_k, config.routing, number
        )
        self.experts = Experts(config.num_experts, config.d_model, config.d_expert)
        self.shared_experts = (
            SharedExperts(config.num_shared_experts, config.d_model, config.d_expert)
            if config.num_shared_experts
            else None
        )

    def forward(
        self,
        x_BTD: Tensor,
        rotation: Rotation,
        mask_N: Tensor | None,
        documents: Documents | None,
        turn: Turn | None = None,
    ) -> tuple[Tensor, Routing]:
        """Return the residual stream after the layer and its routing."""
        if self.reordered:
            x_BTD = x_BTD + self.attention_norm(self.attention(x_BTD, rotation, documents))
            y_BTD, routing = self._experts(x_BTD, mask_N, turn)
            return x_BTD + self.experts_norm(y_BTD), routing
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), rotation, documents)
        y_BTD, routing = self._experts(self.experts_norm(x_BTD), mask_N, turn)
        return x_BTD + y_BTD, routing

    def _experts(
        self, x_BTD: Tensor, mask_N: Tensor | None, turn: Turn | None
    ) -> tuple[Tensor, Routing]:
        x_ND = x_BTD.flatten(0, 1)
        routing = self.router(x_ND, mask_N, turn)
        y_ND = self.experts(x_ND, routing)
        if self.shared_experts is not None:
            y_ND = y_ND + self.shared_experts(x_ND)
        return y_ND.view(x_BTD.shape), routing


class MoEDecoder(nn.Module):
    """A decoder-only mixture-of-experts language model.

    All matrices are zero until `initialise`: building the model draws no random number.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.recompute: RecomputePolicy = "none"
        self.embedding = nn.Parameter(torch.zeros(config.vocab_size, config.d_model))
        self.rotation = Rotation(config.rotary_width, config.max_seq_len, config.rope_theta)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_layers))
        self.final_norm = RMSNorm(config.d_model)
        self.head = (
            None
            if config.tie_embeddings
            else nn.Parameter(torch.zeros(config.vocab_size, config.d_model))
        )

    @property
    def output_embedding(self) -> Tensor:
        """The head's matrix, [V, D]; the embedding itself when tied."""
        return self.embedding if self.head is None else self.head

    def set_recompute(self, policy: RecomputePolicy) -> None:
        """Choose what the backward pass computes again; it changes no bit of the result."""
        self.recompute = policy
        for module in self.modules():
            if isinstance(module, Attention | LatentAttention):
                module.recompute = policy

    def set_compiled(self, compiled: bool) -> None:
        """Choose whether a pass in bf16 on a CPU takes the compiled kernels.

        They round less often than the same pass without them, so that results differ in their last
        bits; whatever the number of threads, they repeat to the bit.
        """
        for module in self.modules():
            if isinstance(module, Attention | LatentAttention | Experts | RMSNorm):
                module.compiled = compiled

    def forward(
        self,
        tokens_BT: Tensor,
        mask_BT: Tensor | None = None,
        segments_BT: Tensor | None = None,
    ) -> DecoderOutput:
        """Return next-token logits and the routing of every layer; arguments as of `hidden`.

        Training and evaluation use `hidden` with `workbench.moe.loss`, which is faster and never
        holds all logits.
        """
        hidden = self.hidden(tokens_BT, mask_BT, segments_BT)
        logits_BTV = functional.linear(hidden.hidden_BTD, self.output_embedding)
        return DecoderOutput(logits_BTV=logits_BTV, routing=hidden.routing)

    def hidden(
        self,
        tokens_BT: Tensor,
        mask_BT: Tensor | None = None,
        segments_BT: Tensor | None = None,
        turn: Turn | None = None,
    ) -> HiddenOutput:
        """Return the final hidden states and the routing of every layer.

        Args:
            tokens_BT: token ids, int64, T at most ``max_seq_len``.
            mask_BT: True for real tokens. It keeps padding out of the routing statistics and
                changes no hidden state: attention is causal, so that padding at the end of a
                sequence never reaches a real token. Padding in front is not supported.
            segments_BT: which document each token belongs to; attention stays within it, so that
                the hidden states are those of each document alone. None is one document a row.
            turn: of a training pass, which noise and drops belong to; None is inference.
        """
        assert tokens_BT.shape[1] <= self.config.max_seq_len, tokens_BT.shape  # noqa: S101
        mask_N = None if mask_BT is None else mask_BT.flatten()
        documents = None if segments_BT is None else Documents(segments_BT)
        x_BTD = functional.embedding(tokens_BT, self.embedding)
        routing: list[Routing] = []
        for layer in self.layers:
            x_BTD, decided = layer_result(
                self.recompute, layer, x_BTD, self.rotation, mask_N, documents, turn
            )
            routing.append(decided)
        return HiddenOutput(hidden_BTD=self.final_norm(x_BTD), routing=tuple(routing))

    def routers(self) -> tuple[Router, ...]:
        """Return the router of every layer."""
        return tuple(layer.router for layer in self.layers)  # type: ignore[misc]

    def refresh_routing(self) -> None:
        """Let the routers choose by their matrices of now, where they hold older ones."""
        for router in self.routers():
            router.refresh()


def initialise(model: MoEDecoder, generator: torch.Generator) -> None:
    """Draw every matrix from N(0, init_std²), the same bits for the same generator state.

    Matrices that write to the residual stream are scaled by 1/√(2·num_layers) (Radford et al.
    2019, section 2.3) where norms stand on the inputs; norm weights become 1.
    """
    config = model.config
    residual = (2 * config.num_layers) ** -0.5 if config.norm_placement == "pre" else 1.0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if part_of(name) == "norm":
                parameter.fill_(1.0)
                continue
            scale = residual if name.endswith(_RESIDUAL_WRITERS) else 1.0
            parameter.normal_(0.0, config.init_std * scale, generator=generator)
    model.refresh_routing()


def part_of(name: str) -> Part:
    """Return which part of the model a parameter of `MoEDecoder` belongs to, by its name.

    Raises:
        ValueError: no parameter of the model is called so.
    """
    pieces = name.split(".")
    if pieces[-2:-1] and pieces[-2].endswith("norm"):
        return "norm"
    parts: dict[str, Part] = {
        "embedding": "embeddings",
        "head": "head",
        "router": "router",
        "experts": "experts",
        "shared_experts": "experts",
        "attention": "attention",
    }
    found = [parts[piece] for piece in pieces if piece in parts]
    if not found:
        raise ValueError(f"{name!r} is not a parameter of the decoder")
    return found[0]
