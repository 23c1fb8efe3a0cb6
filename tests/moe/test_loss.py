"""The chunked head loss against torch's own cross-entropy."""

import math

import pytest
import torch
from torch.nn import functional

from workbench.moe import loss
from workbench.moe.loss import summed_nats, token_nats


def problem(num_tokens: int = 150, vocab: int = 300) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 16, generator=generator, requires_grad=True)
    head = torch.randn(vocab, 16, generator=generator, requires_grad=True)
    targets = torch.randint(0, vocab, (num_tokens,), generator=generator)
    mask = torch.rand(num_tokens, generator=generator) < 0.6
    return hidden, head, targets, mask


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_summed_nats_several_chunks_equal_torch(monkeypatch, masked, scale):
    monkeypatch.setattr(loss, "_CHUNK_VALUES", 1)  # 64 rows a chunk, the last one shorter
    hidden, head, targets, mask = problem()
    total = summed_nats(hidden, head, targets, mask if masked else None) * scale
    found = torch.autograd.grad(total, (hidden, head))
    each = functional.cross_entropy(hidden @ head.T, targets, reduction="none")
    expected_total = (each * mask).sum() * scale if masked else each.sum() * scale
    expected = torch.autograd.grad(expected_total, (hidden, head))
    torch.testing.assert_close(total, expected_total)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_summed_nats_repeated_is_equal_to_the_bit():
    hidden, head, targets, _ = problem()
    first = torch.autograd.grad(summed_nats(hidden, head, targets), (hidden, head))
    again = torch.autograd.grad(summed_nats(hidden, head, targets), (hidden, head))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_token_nats_equal_torch():
    hidden, head, targets, _ = problem()
    expected = functional.cross_entropy(hidden @ head.T, targets, reduction="none")
    torch.testing.assert_close(token_nats(hidden, head, targets), expected.detach())


def test_token_nats_vanishing_probability_stays_finite():
    """A target 200 nats away: its fp32 probability is zero, its loss is 200, not infinite."""
    head = torch.tensor([[200.0], [0.0]])
    nats = token_nats(torch.ones(1, 1), head, torch.tensor([1]))
    assert float(nats) == pytest.approx(200.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_summed_nats_non_finite_hidden_state_is_not_hidden(bad):
    hidden, head, targets, _ = problem()
    damaged = hidden.detach().clone()
    damaged[77, 3] = bad
    assert not math.isfinite(float(summed_nats(damaged, head.detach(), targets)))
