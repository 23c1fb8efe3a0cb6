"""Multi-head latent attention (DeepSeek-V2, section 2.1.2 and 2.1.3; DeepSeek-V3, eq. 1-11).

Shape suffixes: B sequences, T positions, D model width, H heads, R width of the compressed keys
and values, N width of a head without position, P rotary width, C = N + P, V width of a value,
M = H·V.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.moe.attention import RMSNorm, Rotation
from workbench.moe.attention_logits import LogitWatch
from workbench.moe.config import ModelConfig, RecomputePolicy
from workbench.moe.documents import Documents
from workbench.moe.native import library
from workbench.moe.native.attention import mixed_values
from workbench.moe.recompute import attention_result


class LatentAttention(nn.Module):
    """Causal self-attention whose keys and values come from one compressed vector a token.

    The rotary part of the key is the same for all heads. Inference has to keep the compressed
    vector, after its norm, and the rotary key: R + P values a token and layer. Rotary pairs are the
    two halves of the rotary part, as everywhere here; published weights pair neighbours.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recompute: RecomputePolicy = "none"
        widths = config.attention
        self.num_heads = config.num_heads
        self.width_nope, self.width_rope = widths.qk_nope_head_dim, widths.qk_rope_head_dim
        self.width_latent = widths.kv_lora_rank
        width_query = self.width_nope + self.width_rope
        rows = config.num_heads
        self.query_down = (
            nn.Parameter(torch.zeros(widths.q_lora_rank, config.d_model))
            if widths.q_lora_rank
            else None
        )
        self.query_norm = RMSNorm(widths.q_lora_rank) if widths.q_lora_rank else nn.Identity()
        self.query = nn.Parameter(
            torch.zeros(rows * width_query, widths.q_lora_rank or config.d_model)
        )
        """By head: first the rows without position, then the rotary ones."""
        self.key_value_down = nn.Parameter(
            torch.zeros(self.width_latent + self.width_rope, config.d_model)
        )
        """First the compressed keys and values, then the shared rotary key."""
        self.key_value_norm = RMSNorm(self.width_latent)
        self.key_up = nn.Parameter(torch.zeros(rows * self.width_nope, self.width_latent))
        self.value_up = nn.Parameter(torch.zeros(rows * widths.v_head_dim, self.width_latent))
        self.output = nn.Parameter(torch.zeros(config.d_model, rows * widths.v_head_dim))
        self.watch: LogitWatch | None = None
        """Sees the queries and keys of every training pass where it is set."""
        self.compiled = False
        """Whether a pass in bf16 on a CPU takes the compiled kernels."""

    def forward(
        self, x_BTD: Tensor, rotation: Rotation, documents: Documents | None = None
    ) -> Tensor:
        """Return the attention output, [B, T, D]; arguments as of `workbench.moe.attention`."""
        mixed_BTM = attention_result(self.recompute, self.mixed, x_BTD, rotation, documents)
        return functional.linear(mixed_BTM, self.output)

    def mixed(
        self, x_BTD: Tensor, rotation: Rotation, documents: Documents | None = None
    ) -> Tensor:
        """Return the heads' mixed values, [B, T, H·V], before the output matrix."""
        q_BTHC = self._queries(x_BTD, rotation)
        latent_BTR, rope_BTP = functional.linear(x_BTD, self.key_value_down).split(
            (self.width_latent, self.width_rope), dim=-1
        )
        latent_BTR = self.key_value_norm(latent_BTR)
        rope_BT1P = rotation(rope_BTP.unsqueeze(2))
        nope_BTHN = functional.linear(latent_BTR, self.key_up).unflatten(-1, (self.num_heads, -1))
        k_BTHC = torch.cat((nope_BTHN, rope_BT1P.expand(-1, -1, self.num_heads, -1)), dim=-1)
        if self.watch is not None and self.training:
            self.watch.observe(q_BTHC, k_BTHC, documents)
        v_BTHV = functional.linear(latent_BTR, self.value_up).unflatten(-1, (self.num_heads, -1))
        if self.compiled and library.applies(q_BTHC):
            segments_BT = None if documents is None else documents.segments_BT
            return mixed_values(q_BTHC, k_BTHC, v_BTHV, segments_BT)
        mixed_BHTV = _attention(
            q_BTHC.transpose(1, 2),
            k_BTHC.transpose(1, 2),
            v_BTHV.transpose(1, 2),
            None if documents is None else documents.visible_B1TT,
        )
        return mixed_BHTV.transpose(1, 2).flatten(2)

    def scale_logits(self, factor_H: Tensor) -> None:
        """Scale each head's logits by its factor, in the weights (Kimi K2, section 2.1).

        The parts without position share the factor, √ each; of the rotary part only the head's own
        query takes it, because the rotary key belongs to all heads.
        """
        factor_H11 = factor_H.view(-1, 1, 1)
        with torch.no_grad():
            query_HCR = self.query.view(self.num_heads, -1, self.query.shape[1])
            query_HCR[:, : self.width_nope] *= factor_H11.sqrt()
            query_HCR[:, self.width_nope :] *= factor_H11
            self.key_up.view(self.num_heads, -1, self.width_latent).mul_(factor_H11.sqrt())

    def _queries(self, x_BTD: Tensor, rotation: Rotation) -> Tensor:
        if self.query_down is not None:
            x_BTD = self.query_norm(functional.linear(x_BTD, self.query_down))
        q_BTHC = functional.linear(x_BTD, self.query).unflatten(-1, (self.num_heads, -1))
        nope_BTHN, rope_BTHP = q_BTHC.split((self.width_nope, self.width_rope), dim=-1)
        return torch.cat((nope_BTHN, rotation(rope_BTHP)), dim=-1)


def _attention(
    q_BHTC: Tensor, k_BHTC: Tensor, v_BHTV: Tensor, visible_B1TT: Tensor | None
) -> Tensor:
    """Return softmax(q·k/√C)·v under the mask, [B, H, T, V]."""
    width, width_value = q_BHTC.shape[-1], v_BHTV.shape[-1]
    if q_BHTC.device.type == "cpu":
        # The fused kernel of the CPU wants one width; without it all T² scores would be kept.
        most = max(width, width_value)
        q_BHTC, k_BHTC = (functional.pad(x, (0, most - width)) for x in (q_BHTC, k_BHTC))
        v_BHTV = functional.pad(v_BHTV, (0, most - width_value))
    mixed_BHTV = functional.scaled_dot_product_attention(
        q_BHTC,
        k_BHTC,
        v_BHTV,
        attn_mask=visible_B1TT,
        is_causal=visible_B1TT is None,
        scale=width**-0.5,
    )
    return mixed_BHTV[..., :width_value]
