"""Simulated fp8 against a table of every e4m3 value and loops over blocks."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from workbench.moe.block_scaled import (
    blocks_rounded,
    grouped_fp8,
    linear_fp8,
    tiles_rounded,
    use_block_scaled_fp8,
)
from workbench.moe.config import ModelConfig
from workbench.moe.model import MoEDecoder, initialise, part_of

# Every finite e4m3 value from its definition: subnormals m·2^-9, normals (1 + m/8)·2^(e-7).
POSITIVE = sorted(
    {m * 2.0**-9 for m in range(8)}
    | {(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8)} - {480.0}
)


def nearest(value: float) -> float:
    """The nearest e4m3 value, of two equally near the one with the even mantissa."""
    size = abs(value)
    place = min(range(len(POSITIVE)), key=lambda index: (abs(POSITIVE[index] - size), index % 2))
    return math.copysign(POSITIVE[place], value)


def scaled(block: np.ndarray) -> np.ndarray:
    largest = np.abs(block).max()
    scale = 2.0 ** math.ceil(math.log2(largest / 448)) if largest else 1.0
    return np.vectorize(nearest)(block / scale) * scale if largest else block


def tiles_by_hand(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    for row in range(len(x)):
        for begin in range(0, x.shape[1], 128):
            out[row, begin : begin + 128] = scaled(x[row, begin : begin + 128])
    return out


def blocks_by_hand(weight: np.ndarray) -> np.ndarray:
    out = np.empty_like(weight)
    for row in range(0, weight.shape[0], 128):
        for column in range(0, weight.shape[1], 128):
            part = (slice(row, row + 128), slice(column, column + 128))
            out[part] = scaled(weight[part])
    return out


def values(*shape, seed=0):
    """Six orders of magnitude, so that subnormals and zeros come out too."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 2, size=shape)).astype(np.float32)


@pytest.mark.parametrize("width", [128, 300, 8])
def test_tiles_are_rounded_as_by_hand(width):
    x = values(3, width)
    x[1, :128] = 0.0
    assert np.array_equal(tiles_rounded(torch.from_numpy(x)).numpy(), tiles_by_hand(x))


@pytest.mark.parametrize("shape", [(128, 128), (130, 20), (5, 260)])
def test_blocks_of_stacked_weights_are_rounded_as_by_hand(shape):
    stack = values(2, *shape)
    ours = blocks_rounded(torch.from_numpy(stack)).numpy()
    assert np.array_equal(ours[0], blocks_by_hand(stack[0]))
    assert np.array_equal(ours[1], blocks_by_hand(stack[1]))


@pytest.mark.parametrize("largest", [448.0, 448.001, 224.0, 1e-30, 3e30])
def test_largest_value_of_a_tile_stays_finite_and_near(largest):
    x = torch.full((1, 128), largest)
    assert torch.allclose(tiles_rounded(x), x, rtol=1 / 16)
    assert torch.equal(tiles_rounded(x), tiles_rounded(tiles_rounded(x)))


def test_rounded_values_are_exact_in_bf16():
    x = torch.from_numpy(values(4, 256))
    rounded = tiles_rounded(x)
    assert torch.equal(rounded.bfloat16().float(), rounded)
    assert tiles_rounded(x.bfloat16()).dtype == torch.bfloat16


def test_products_forward_and_backward_are_those_of_rounded_operands():
    """y = Q(x)·Q(w)ᵀ, dx = Q(dy)·Q(w), dw = Q(dy)ᵀ·Q(x)."""
    x, weight, grad = values(6, 48, seed=1), values(16, 48, seed=2), values(6, 16, seed=3)
    leaf = torch.from_numpy(x).requires_grad_()
    matrix = torch.from_numpy(weight).requires_grad_()
    y = linear_fp8(leaf, matrix)
    y.backward(torch.from_numpy(grad))
    qx, qw, qg = tiles_by_hand(x), blocks_by_hand(weight), tiles_by_hand(grad)
    for ours, wanted in (
        (y.detach(), qx @ qw.T),
        (leaf.grad, qg @ qw),
        (matrix.grad, qg.T @ qx),
    ):
        assert np.allclose(ours.numpy(), wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_grouped_products_are_the_single_ones_expert_by_expert():
    x, weight = torch.from_numpy(values(7, 32)), torch.from_numpy(values(3, 16, 32))
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    ours = grouped_fp8(x, weight, ends)
    wanted = torch.cat([linear_fp8(x[:2], weight[0]), linear_fp8(x[2:], weight[2])])
    assert torch.allclose(ours, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def decoder():
    config = ModelConfig(
        vocab_size=300, d_model=32, num_layers=2, num_heads=2, num_kv_heads=2, num_experts=4,
        top_k=2, d_expert=32, num_shared_experts=1, max_seq_len=16,
    )  # fmt: skip
    model = MoEDecoder(config)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def loss_of(model, tokens):
    logits = model(tokens[:, :-1]).logits_BTV
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def test_only_training_passes_round_and_only_experts_products():
    tokens = torch.randint(0, 300, (2, 13), generator=torch.Generator().manual_seed(1))
    plain, rounded = decoder(), decoder()
    use_block_scaled_fp8(rounded.modules())
    assert torch.equal(loss_of(plain.eval(), tokens), loss_of(rounded.eval(), tokens))
    wide, narrow = loss_of(plain.train(), tokens), loss_of(rounded.train(), tokens)
    assert wide != narrow
    assert abs((wide - narrow).item()) < 0.01
    wide.backward()
    narrow.backward()
    for (name, one), other in zip(plain.named_parameters(), rounded.parameters(), strict=True):
        off = float((one.grad - other.grad).norm() / one.grad.norm())
        assert 0 < off < (0.2 if part_of(name) == "experts" else 0.1), name
    # Attention of the first layer sees the same bits: nothing before an expert is rounded.
    with torch.no_grad():
        x = torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(2))
        seen = [m.layers[0].attention(x, m.rotation) for m in (plain, rounded)]
    assert torch.equal(*seen)
