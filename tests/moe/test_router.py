"""Routing: fp32, ties, weights."""

import pytest
import torch

from workbench.moe.choices import top_choices
from workbench.moe.router import Router, route


def test_top_choices_ties_go_to_the_lower_index():
    """E11: equal logits never depend on the kernel's order."""
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 3.0, 3.0]])
    assert top_choices(logits, 2).tolist() == [[1, 2], [0, 1], [0, 2]]


def test_top_choices_many_ties_equal_a_python_sort():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randint(0, 3, (200, 8), generator=generator).float()
    expected = [sorted(range(8), key=lambda e: (-row[e], e))[:3] for row in logits.tolist()]
    assert top_choices(logits, 3).tolist() == expected


def test_router_logits_equal_in_bf16_are_told_apart():
    """E11: 1.0 and 1.0005 are the same bf16 number; the higher one must win."""
    router = Router(d_model=1, num_experts=2, top_k=1)
    with torch.no_grad():
        router.weight.copy_(torch.tensor([[1.0], [1.0005]]))
    assert torch.tensor([1.0, 1.0005]).bfloat16().unique().numel() == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        routing = router(torch.ones(1, 1, dtype=torch.bfloat16))
    assert routing.chosen_NK.tolist() == [[1]]


def test_router_twice_on_the_same_input_picks_the_same_experts():
    """E11: recomputing the forward pass routes alike."""
    router = Router(d_model=8, num_experts=16, top_k=4)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 8, generator=generator)
    assert torch.equal(router(x).chosen_NK, router(x).chosen_NK)


def test_route_several_choices_weights_sum_to_one():
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    routing = route(logits, 2)
    ratio = torch.tensor([2.0, 1.0]).softmax(0)
    torch.testing.assert_close(routing.weights_NK[0], ratio)


def test_route_one_choice_keeps_the_probability_and_its_gradient():
    logits = torch.tensor([[2.0, 1.0, 0.0]], requires_grad=True)
    routing = route(logits, 1)
    torch.testing.assert_close(routing.weights_NK[0, 0], logits.softmax(-1)[0, 0])
    routing.weights_NK.sum().backward()
    assert logits.grad.abs().max() > 0


def test_route_low_precision_logits_are_refused():
    with pytest.raises(AssertionError):
        route(torch.zeros(1, 2, dtype=torch.bfloat16), 1)
