"""The compiled kernels against slow obvious references in fp64."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional

from tests.moe.test_model import LATENT, PACKED, build, segments_of, some_tokens
from workbench.moe.loss import summed_nats
from workbench.moe.native import build as building
from workbench.moe.native.attention import mixed_values, rotated
from workbench.moe.native.build import NotBuilt, library_path
from workbench.moe.native.experts import mixed_experts, plan
from workbench.moe.native.library import opened
from workbench.moe.native.norms import rms_norm

needs_kernels = pytest.mark.skipif(
    isinstance(opened(), NotBuilt), reason=f"no kernels on this machine: {opened()}"
)
ROUNDING = 2**-8
"""Of bf16: half a unit in the last place, relative, is 2^-9."""


def off(found, expected):
    """Return the distance of two tensors relative to the expected one."""
    found, expected = found.detach().double(), expected.detach()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-30))


def drawn(*shape, seed=0, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def slow_experts(x, weights, chosen, gate, up, down, keep=None):
    """Return the mixed outputs one assignment at a time."""
    rows = []
    for n, row in enumerate(x):
        mixed = torch.zeros_like(row)
        for k, e in enumerate(chosen[n].tolist()):
            if e == len(gate) or (keep is not None and not keep[n * chosen.shape[1] + k]):
                continue
            hidden = functional.silu(gate[e] @ row) * (up[e] @ row)
            mixed = mixed + weights[n, k] * (down[e] @ hidden)
        rows.append(mixed)
    return torch.stack(rows)


CHOICES = {
    "even": torch.arange(140).view(70, 2) % 5,
    "an expert that nobody chose": torch.tensor([[0, 2]]).repeat(70, 1),
    "one token": torch.tensor([[3, 1]]),
    "places without an expert": torch.tensor([[0, 5], [5, 5], [4, 0]]).repeat(30, 1),
    "one expert takes most": torch.cat((torch.zeros(150, 1), torch.ones(150, 1)), 1).long(),
}


@needs_kernels
@pytest.mark.parametrize("widths", [(32, 48), (6, 10), (16, 130)])
@pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)
def test_experts_and_gradients_are_those_of_one_assignment_at_a_time(chosen, widths):
    width, inner = widths
    parts = [
        drawn(len(chosen), width),
        drawn(*chosen.shape, seed=1).abs(),
        drawn(5, inner, width, seed=2, scale=width**-0.5),
        drawn(5, inner, width, seed=3, scale=width**-0.5),
        drawn(5, width, inner, seed=4, scale=inner**-0.5),
    ]
    ours = [part.clone().requires_grad_() for part in parts]
    slow = [part.double().requires_grad_() for part in parts]
    mixed = mixed_experts(*ours[:2], plan(chosen, 5, None), *ours[2:])
    expected = slow_experts(*slow[:2], chosen, *slow[2:])
    assert off(mixed, expected) < 2 * ROUNDING
    towards = drawn(len(chosen), width, seed=5)
    mixed.backward(towards)
    expected.backward(towards.double())
    # The gradient of a single weight is one sum in which much cancels.
    most = 3 if len(chosen) > 1 else 12
    for found, wanted in zip(ours, slow, strict=True):
        assert off(found.grad, wanted.grad) < most * ROUNDING


@needs_kernels
def test_experts_that_are_full_add_nothing_and_get_no_gradient():
    chosen = torch.arange(40).view(20, 2) % 4
    keep = torch.arange(40) % 3 > 0
    parts = [drawn(20, 8), drawn(20, 2, seed=1), *(drawn(4, 8, 8, seed=s) for s in (2, 3, 4))]
    ours = [part.clone().requires_grad_() for part in parts]
    rows = plan(chosen, 4, keep)
    assert rows.ends_E[-1] == keep.sum()
    assert (rows.place_M[~keep] == -1).all()
    mixed = mixed_experts(*ours[:2], rows, *ours[2:])
    slow = [part.double() for part in parts]
    assert off(mixed, slow_experts(*slow[:2], chosen, *slow[2:], keep=keep)) < 2 * ROUNDING
    mixed.sum().backward()
    assert (ours[1].grad.flatten()[~keep] == 0).all()


@needs_kernels
def test_plan_is_the_stable_order_by_expert():
    chosen = torch.randint(6, (300, 2), generator=torch.Generator().manual_seed(1))
    rows = plan(chosen, 6, None)
    assert torch.equal(rows.order_A, chosen.flatten().argsort(stable=True))
    assert torch.equal(rows.order_A[rows.place_M], torch.arange(600))
    assert torch.equal(rows.ends_E, chosen.flatten().bincount(minlength=6).cumsum(0))


def slow_attention(q, k, v, segments=None):
    """Return the mixed values one head and one query at a time, [B, T, H·V]."""
    group = q.shape[2] // k.shape[2]
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=q.dtype)
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            for t in range(q.shape[1]):
                scores = k[b, : t + 1, h // group] @ q[b, t, h] * q.shape[3] ** -0.5
                if segments is not None:
                    scores = torch.where(segments[b, : t + 1] == segments[b, t], scores, -torch.inf)
                out[b, t, h] = scores.softmax(0) @ v[b, : t + 1, h // group]
    return out.flatten(2)


@needs_kernels
@pytest.mark.parametrize("length", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("segmented", [False, True])
def test_attention_and_gradients_are_those_of_one_query_at_a_time(length, segmented):
    q, k, v = (
        drawn(2, length, 4, 16),
        drawn(2, length, 2, 16, seed=1),
        drawn(2, length, 2, 6, seed=2),
    )
    segments = torch.arange(length).div(37, rounding_mode="floor").expand(2, -1)
    segments = segments if segmented else None
    exact = [each.bfloat16().double().requires_grad_() for each in (q, k, v)]
    ours = [each.bfloat16().requires_grad_() for each in (q, k, v)]
    mixed = mixed_values(*ours, segments)
    expected = slow_attention(*exact, segments)
    assert off(mixed, expected) < 2 * ROUNDING
    towards = drawn(2, length, 24, seed=3).bfloat16()
    mixed.backward(towards)
    expected.backward(towards.double())
    for found, wanted in zip(ours, exact, strict=True):
        if wanted.grad.norm() > 1e-9:  # a single position's softmax moves nothing
            assert off(found.grad, wanted.grad) < 3 * ROUNDING


@needs_kernels
@pytest.mark.parametrize("changed", [40, 100, 149])
def test_attention_before_a_changed_position_is_the_same_to_the_bit(changed):
    q, k, v = (drawn(1, 150, 2, 8, seed=seed) for seed in range(3))
    before = mixed_values(q, k, v, None)
    for each in (q, k, v):
        each[:, changed:] = drawn(1, 150 - changed, 2, 8, seed=9)
    after = mixed_values(q, k, v, None)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert not torch.equal(before[:, changed:], after[:, changed:])


@needs_kernels
@pytest.mark.parametrize(("tokens", "vocabulary"), [(1, 258), (33, 300), (100, 1026), (4200, 514)])
@pytest.mark.parametrize("masked", [False, True])
def test_cross_entropy_and_gradients_are_those_of_whole_logits(tokens, vocabulary, masked):
    hidden, head = drawn(tokens, 24), drawn(vocabulary, 24, seed=1)
    targets = torch.randint(vocabulary, (tokens,), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(tokens) % 3 > 0) if masked else torch.ones(tokens, dtype=torch.bool)
    ours = [each.clone().requires_grad_() for each in (hidden, head)]
    if masked:
        ours[0].data[~mask] = torch.nan
    exact = [each.bfloat16().double().requires_grad_() for each in (hidden, head)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nats = summed_nats(*ours, targets, mask if masked else None, compiled=True)
    expected = functional.cross_entropy(exact[0] @ exact[1].T, targets, reduction="none")[
        mask
    ].sum()
    torch.testing.assert_close(nats.double(), expected, rtol=1e-5, atol=1e-5)
    nats.backward()
    expected.backward()
    if mask.any():
        assert off(ours[0].grad, exact[0].grad) < 2 * ROUNDING
        assert off(ours[1].grad, exact[1].grad) < 2 * ROUNDING
    assert (ours[0].grad[~mask] == 0).all()


@needs_kernels
@pytest.mark.parametrize("width", [6, 32, 40])
def test_norm_and_gradients_are_those_of_fp64(width):
    x, weight = drawn(600, width), 1 + drawn(width, seed=1, scale=0.1)
    ours = [each.clone().requires_grad_() for each in (x, weight)]
    exact = [each.double().requires_grad_() for each in (x, weight)]
    found = rms_norm(*ours, 1e-6)
    expected = functional.rms_norm(exact[0], (width,), exact[1], 1e-6)
    towards = drawn(600, width, seed=2)
    found.backward(towards)
    expected.backward(towards.double())
    assert off(found, expected) < 1e-6
    for one, other in zip(ours, exact, strict=True):
        assert off(one.grad, other.grad) < 1e-5


@needs_kernels
@pytest.mark.parametrize("normed", [False, True])
def test_rotation_and_gradients_are_those_of_fp64(normed):
    x, weight = drawn(2, 70, 3, 8).bfloat16(), 1 + drawn(8, seed=1, scale=0.1)
    angle = torch.outer(torch.arange(70.0), 10.0 ** -torch.arange(4.0)).repeat(1, 2)
    ours = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    exact = [each.double().requires_grad_() for each in (x, weight)]
    found = rotated(ours[0], ours[1] if normed else None, angle.cos(), angle.sin(), 1e-6)
    inner = functional.rms_norm(exact[0], (8,), exact[1], 1e-6) if normed else exact[0]
    first, second = inner.chunk(2, -1)
    cos, sin = (t.double()[:, None] for t in (angle.cos(), angle.sin()))
    expected = inner * cos + torch.cat((-second, first), -1) * sin
    towards = drawn(2, 70, 3, 8, seed=2).bfloat16()
    found.backward(towards)
    expected.backward(towards.double())
    assert off(found, expected) < ROUNDING
    assert off(ours[0].grad, exact[0].grad) < ROUNDING
    if normed:
        assert off(ours[1].grad, exact[1].grad) < 1e-4


@needs_kernels
def test_a_value_that_is_not_finite_stays_visible():
    x = drawn(70, 8)
    x[5, 0], x[6, 1] = torch.nan, torch.inf
    chosen = torch.arange(140).view(70, 2) % 4
    mixed = mixed_experts(x, torch.ones(70, 2), plan(chosen, 4, None), *(drawn(4, 8, 8),) * 3)
    bad = ~mixed.isfinite().all(1)
    assert bad[5]
    assert bad[6]
    assert bad.sum() == 2
    values = drawn(1, 70, 1, 8)
    values[0, 30] = torch.nan
    mixed = mixed_values(values, values, values, None)
    assert mixed[0, 30:].isnan().any(1).all()


MODELS = {
    "grouped": {},
    "without norms of heads": {"qk_norm": False, "norm_placement": "reordered"},
    "shared experts, capacity": {
        "num_shared_experts": 1,
        "routing": {"capacity_factor": 1.0, "scores": "sigmoid", "bias": True},
    },
    "expert choice": {"routing": {"kind": "expert_choice", "causal_leak": "accepted"}},
    "latent": {**LATENT, "attention": {**LATENT["attention"], "v_head_dim": 6}},
}


def trained(model, *, compiled, bf16=True, segments=None, mask=None):
    """Return loss, gradients and routing of one pass."""
    model.set_compiled(compiled)
    model.zero_grad()
    tokens = some_tokens()
    inputs = None if segments is None else segments[:, :-1]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        out = model.hidden(tokens[:, :-1], None if mask is None else mask[:, :-1], inputs)
        nats = summed_nats(
            out.hidden_BTD.flatten(0, 1),
            model.output_embedding,
            tokens[:, 1:].flatten(),
            None if mask is None else mask[:, :-1].flatten(),
            compiled=compiled,
        )
    nats.backward()
    return nats.detach(), {name: p.grad for name, p in model.named_parameters()}, out.routing


@needs_kernels
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_decoder_is_no_further_from_fp32_than_without_the_kernels(changes, packed):
    # All experts, so that rounding moves no choice.
    model = build(**changes, top_k=4)
    segments = segments_of(PACKED, 3) if packed else None
    exact, portable, ours = (
        trained(model, compiled=compiled, bf16=bf16, segments=segments)
        for compiled, bf16 in ((False, False), (False, True), (True, True))
    )
    distance = [
        sum(float((grad - exact[1][name]).square().sum()) for name, grad in found[1].items())
        for found in (ours, portable)
    ]
    assert distance[0] <= 1.5 * distance[1]
    assert torch.isclose(ours[0], exact[0], rtol=5e-3)


@needs_kernels
@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_decoder_repeats_to_the_bit_whatever_is_recomputed_and_on_more_threads(changes):
    model, threads = build(**changes), torch.get_num_threads()
    expected = trained(model, compiled=True)
    try:
        for policy in ("full", "selective", "qkv", "qkv_softmax", "none"):
            model.set_recompute(policy)
            torch.set_num_threads(3 if policy == "none" else 1)
            found = trained(model, compiled=True)
            assert torch.equal(found[0], expected[0])
            for name, grad in expected[1].items():
                assert torch.equal(found[1][name], grad), (policy, name)
    finally:
        torch.set_num_threads(threads)


def test_padding_groups_to_blocks_changes_no_row_of_the_product():
    from workbench.moe.experts import dispatch

    chosen = torch.tensor([[0, 2], [2, 3], [2, 0], [3, 2]])
    padded = dispatch(chosen, 5, block=4)
    assert padded.ends_E.tolist() == [4, 4, 8, 12, 12]
    assert padded.filled_S.sum() == 8
    assert torch.equal(padded.order_M[padded.place_M], torch.arange(8))
    assert torch.equal(padded.order_M[padded.filled_S], chosen.flatten().argsort(stable=True))


def test_machine_without_a_compiler_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NotBuilt, match="no C\\+\\+ compiler \\(no-such-compiler\\)"):
        library_path()


def test_compiler_that_fails_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(NotBuilt, match="the compiler failed"):
        library_path()
    assert list(building.cache_folder().iterdir()) == []


def test_cache_that_is_a_file_is_a_reason_not_a_crash(monkeypatch, tmp_path):
    (tmp_path / "workbench").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotBuilt, match="cannot be written"):
        library_path()


@needs_kernels
@pytest.mark.slow
def test_two_processes_that_build_at_once_both_get_kernels(tmp_path):
    code = "from workbench.moe.native.library import library; library()"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert len(list((tmp_path / "workbench" / "kernels").iterdir())) == 1
