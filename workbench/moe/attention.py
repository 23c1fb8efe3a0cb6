"""Causal attention with RoPE, optional QK-norm and grouped queries; and the RMSNorm.

Shape suffixes: B sequences, T positions, D model width, H query heads, G key/value heads,
C head width, M = H·C.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.attention_logits import LogitWatch, scale_logits
from workbench.moe.blocked_attention import blocked_attention, is_faster
from workbench.moe.config import ModelConfig, RecomputePolicy
from workbench.moe.documents import Documents
from workbench.moe.native import library
from workbench.moe.native.attention import mixed_values, rotated
from workbench.moe.native.norms import rms_norm
from workbench.moe.recompute import attention_result

NORM_EPS = 1e-6


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x²) + 1e-6) · weight`` over the last dimension (Zhang & Sennrich 2019)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.compiled = False
        """Whether a pass in bf16 on a CPU takes the compiled kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised tensor in the data type of the input."""
        if self.compiled and x.dtype == torch.float32 and library.applies(x):
            return rms_norm(x, self.weight, NORM_EPS)
        return functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), NORM_EPS)


class Attention(nn.Module):
    """Causal self-attention; a position sees itself and those before it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recompute: RecomputePolicy = "none"
        self.num_heads = config.num_heads
        self.num_kv_heads = config.num_kv_heads
        self.head_dim = config.d_model // config.num_heads
        width_kv = self.num_kv_heads * self.head_dim
        self.query = nn.Parameter(torch.zeros(config.d_model, config.d_model))
        self.key = nn.Parameter(torch.zeros(width_kv, config.d_model))
        self.value = nn.Parameter(torch.zeros(width_kv, config.d_model))
        self.output = nn.Parameter(torch.zeros(config.d_model, config.d_model))
        self.query_norm = RMSNorm(self.head_dim) if config.qk_norm else nn.Identity()
        self.key_norm = RMSNorm(self.head_dim) if config.qk_norm else nn.Identity()
        self.watch: LogitWatch | None = None
        """Sees the queries and keys of every training pass where it is set."""
        self.compiled = False
        """Whether a pass in bf16 on a CPU takes the compiled kernels."""

    def forward(
        self, x_BTD: Tensor, rotation: "Rotation", documents: Documents | None = None
    ) -> Tensor:
        """Return the attention output, [B, T, D].

        Args:
            x_BTD: the sub-layer's input.
            rotation: the positions; only their differences matter.
            documents: attention stays within each; None lets a position see all before it.
        """
        mixed_BTM = attention_result(self.recompute, self.mixed, x_BTD, rotation, documents)
        return functional.linear(mixed_BTM, self.output)

    def mixed(
        self, x_BTD: Tensor, rotation: "Rotation", documents: Documents | None = None
    ) -> Tensor:
        """Return the heads' mixed values, [B, T, H·C], before the output matrix."""
        q_BTHC = functional.linear(x_BTD, self.query).unflatten(-1, (self.num_heads, -1))
        k_BTGC = functional.linear(x_BTD, self.key).unflatten(-1, (self.num_kv_heads, -1))
        v_BTGC = functional.linear(x_BTD, self.value).unflatten(-1, (self.num_kv_heads, -1))
        compiled = self.compiled and library.applies(q_BTHC)
        q_BTHC = _placed(q_BTHC, self.query_norm, rotation, compiled)
        k_BTGC = _placed(k_BTGC, self.key_norm, rotation, compiled)
        if self.watch is not None and self.training:
            self.watch.observe(q_BTHC, k_BTGC, documents)
        if compiled:
            return mixed_values(
                q_BTHC, k_BTGC, v_BTGC, None if documents is None else documents.segments_BT
            )
        q_BHTC, k_BGTC, v_BGTC = (x.transpose(1, 2) for x in (q_BTHC, k_BTGC, v_BTGC))
        if is_faster(q_BHTC):
            return blocked_attention(q_BHTC, k_BGTC, v_BGTC, documents).transpose(1, 2).flatten(2)
        mixed_BHTC = functional.scaled_dot_product_attention(
            q_BHTC,
            k_BGTC,
            v_BGTC,
            attn_mask=None if documents is None else documents.visible_B1TT,
            is_causal=documents is None,
            enable_gqa=self.num_heads != self.num_kv_heads,
        )
        return mixed_BHTC.transpose(1, 2).flatten(2)

    def scale_logits(self, factor_H: Tensor) -> None:
        """Scale each head's logits by its factor, in the weights. Means nothing with QK-norm."""
        scale_logits(self.query, self.key, factor_H, self.num_kv_heads)


def _placed(x_BTHC: Tensor, norm: nn.Module, rotation: "Rotation", compiled: bool) -> Tensor:
    if not compiled:
        rotated_BTHC: Tensor = rotation(norm(x_BTHC))
        return rotated_BTHC
    length = x_BTHC.shape[1]
    weight = norm.weight if isinstance(norm, RMSNorm) else None
    cos_TC, sin_TC = rotation.cos_TC[:length], rotation.sin_TC[:length]
    return rotated(x_BTHC, weight, cos_TC, sin_TC, NORM_EPS)


class Rotation(nn.Module):
    """Rotary position embedding (Su et al. 2021, section 3.2.2), the two halves of a head paired.

    Angles are fp32 and are not part of the state: they follow from the configuration.
    """

    cos_TC: Tensor
    sin_TC: Tensor

    def __init__(self, head_dim: int, max_seq_len: int, theta: float) -> None:
        super().__init__()
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        angle = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), theta**-exponent)
        angle_TC = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos_TC", angle_TC.cos().float(), persistent=False)
        self.register_buffer("sin_TC", angle_TC.sin().float(), persistent=False)

    def forward(self, x_BTHC: Tensor) -> Tensor:
        """Return each head vector rotated by its position times its pair's frequency."""
        length = x_BTHC.shape[1]
        cos_T1C = self.cos_TC[:length].unsqueeze(1).to(x_BTHC.dtype)
        sin_T1C = self.sin_TC[:length].unsqueeze(1).to(x_BTHC.dtype)
        first, second = x_BTHC.chunk(2, dim=-1)
        return x_BTHC * cos_T1C + torch.cat((-second, first), dim=-1) * sin_T1C
