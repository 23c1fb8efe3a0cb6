"""Counts equal the real model's and the published ones."""

import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from workbench.moe.attention_config import AttentionConfig
from workbench.moe.config import ModelConfig, RoutingConfig
from workbench.moe.model import MoEDecoder
from workbench.planner.counts import (
    active_parameters,
    kv_cache_bytes_per_token,
    total_parameters,
    training_flops_per_token,
)

GROUPED = AttentionConfig()
TOKEN_CHOICE = RoutingConfig()
EXPERT_CHOICE = RoutingConfig(kind="expert_choice", causal_leak="accepted", capacity_factor=1.5)


@dataclass(frozen=True, kw_only=True)
class Shape:
    vocab_size: int = 300
    d_model: int = 32
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    attention: AttentionConfig = GROUPED
    num_experts: int = 6
    top_k: int = 2
    routing: RoutingConfig = TOKEN_CHOICE
    d_expert: int = 20
    num_shared_experts: int = 1
    max_seq_len: int = 16
    qk_norm: bool = True
    tie_embeddings: bool = True


LATENT = AttentionConfig(
    kind="mla",
    q_lora_rank=20,
    kv_lora_rank=12,
    qk_nope_head_dim=6,
    qk_rope_head_dim=4,
    v_head_dim=7,
)
DEEPSEEK_V3 = AttentionConfig(
    kind="mla",
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
SHAPES = [
    Shape(),
    Shape(tie_embeddings=False, qk_norm=False, num_shared_experts=0),
    Shape(num_kv_heads=4, top_k=6, num_shared_experts=3),
    Shape(num_experts=1, top_k=1, num_layers=1),
    Shape(routing=EXPERT_CHOICE),
    Shape(attention=LATENT, num_kv_heads=4, qk_norm=False),
    Shape(attention=LATENT.model_copy(update={"q_lora_rank": 0}), num_kv_heads=4, qk_norm=False),
]


def model_of(shape: Shape) -> MoEDecoder:
    return MoEDecoder(ModelConfig.model_validate(vars(shape)))


@pytest.mark.parametrize("shape", SHAPES)
def test_total_parameters_any_shape_equals_the_models(shape):
    assert total_parameters(shape) == sum(p.numel() for p in model_of(shape).parameters())


@pytest.mark.parametrize("shape", SHAPES)
def test_active_parameters_any_shape_leaves_out_the_experts_not_chosen(shape):
    idle = 0
    for name, parameter in model_of(shape).named_parameters():
        if ".experts." in name:
            idle += (shape.num_experts - shape.top_k) * parameter[0].numel()
    assert active_parameters(shape) == total_parameters(shape) - idle


@pytest.mark.parametrize("shape", SHAPES)
def test_training_flops_matrix_products_equal_those_that_run(shape):
    # Torch's counter knows no grouped kernel; an odd width runs as single products.
    shape = replace(shape, d_expert=21)
    model, sequences, seq_len = model_of(shape), 2, 16
    tokens = torch.randint(0, shape.vocab_size, (sequences, seq_len))
    with FlopCounterMode(display=False) as counter:
        model(tokens).logits_BTV.sum().backward()
    # Each position multiplies with the keys and the values of itself and those before it.
    pairs = sum(position + 1 for position in range(seq_len))
    latent = shape.attention
    widths = 2 * shape.d_model
    if latent.kind == "mla":
        width = latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim
        widths = shape.num_heads * width
    attention = sequences * shape.num_layers * 3 * 2 * widths * pairs
    counted = counter.get_total_flops() + attention
    assert training_flops_per_token(shape, seq_len) * sequences * seq_len == counted


@pytest.mark.parametrize(("factor", "of_dropless"), [(0.5, 0.5), (1.0, 1.0), (4.0, 1.0)])
def test_capacity_takes_what_finds_no_place_and_adds_nothing(factor, of_dropless):
    shape = Shape(num_shared_experts=0, routing=RoutingConfig(capacity_factor=factor))
    without = replace(shape, num_experts=0, top_k=0, routing=TOKEN_CHOICE)
    routers = 6 * shape.num_layers * shape.d_model * shape.num_experts
    base = training_flops_per_token(without, 16) + routers
    dropless = training_flops_per_token(replace(shape, routing=TOKEN_CHOICE), 16) - base
    assert training_flops_per_token(shape, 16) - base == of_dropless * dropless


@pytest.mark.parametrize(
    ("layers", "kv_heads", "heads", "d_model", "published"),
    [(126, 8, 128, 16_384, 516_096), (80, 8, 64, 8_192, 327_680)],
    ids=["llama-3.1-405b", "qwen-2.5-72b"],
)
def test_kv_cache_published_systems_match(layers, kv_heads, heads, d_model, published):
    shape = Shape(num_layers=layers, num_kv_heads=kv_heads, num_heads=heads, d_model=d_model)
    assert kv_cache_bytes_per_token(shape) == published


def test_kv_cache_of_deepseek_v3_matches():
    shape = Shape(num_layers=61, num_heads=128, d_model=7168, attention=DEEPSEEK_V3)
    assert kv_cache_bytes_per_token(shape) == 70_272


def test_attention_parameters_of_deepseek_v3_match():
    """Its five matrices and two norms a layer, by the published widths."""
    heads = {"num_heads": 128, "num_kv_heads": 128, "qk_norm": False}
    shape = Shape(num_layers=1, d_model=7168, attention=DEEPSEEK_V3, num_shared_experts=0, **heads)
    rest = 300 * 7168 + 7168 + 2 * 7168 + 6 * 7168 + 6 * 3 * 7168 * 20
    assert total_parameters(shape) - rest == 187_107_328


def test_counts_import_no_torch():
    code = "import sys, workbench.planner.counts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
