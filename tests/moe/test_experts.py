"""Grouped products and dispatch: every width, empty experts, exact repeats."""

import pytest
import torch

from workbench.moe.experts import Experts, dispatch, grouped_linear
from workbench.moe.router import route


@pytest.mark.parametrize("width", [8, 7], ids=["grouped-kernel", "single-products"])
@pytest.mark.parametrize("counts", [[3, 0, 5, 2], [0, 0, 10, 0], [10, 0, 0, 0], [1, 2, 3, 4]])
def test_grouped_linear_any_counts_equal_single_products(width, counts):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(10, width, generator=generator, requires_grad=True)
    weight = torch.randn(4, 12, width, generator=generator, requires_grad=True)
    upstream = torch.randn(10, 12, generator=generator)
    ends = torch.tensor(counts).cumsum(0).to(torch.int32)
    owner = [expert for expert, count in enumerate(counts) for _ in range(count)]

    grouped = grouped_linear(x, weight, ends)
    found = torch.autograd.grad(grouped, (x, weight), upstream)
    single = torch.stack([weight[expert] @ x[row] for row, expert in enumerate(owner)])
    expected = torch.autograd.grad(single, (x, weight), upstream)

    torch.testing.assert_close(grouped, single)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("width", [8, 7])
def test_grouped_linear_autocast_computes_in_bf16(width):
    x, weight = torch.ones(2, width), torch.ones(1, 8, width)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = grouped_linear(x, weight, torch.tensor([2], dtype=torch.int32))
    assert product.dtype == torch.bfloat16
    assert (product == width).all()


def test_dispatch_orders_by_expert_then_token():
    plan = dispatch(torch.tensor([[2, 0], [0, 2], [2, 3]]), 5)
    assert plan.order_M.tolist() == [1, 2, 0, 3, 4, 5]
    assert plan.ends_E.tolist() == [2, 2, 5, 6, 6]
    assert plan.order_M[plan.place_M].tolist() == list(range(6))


def test_experts_no_token_is_dropped_however_uneven():
    """E8, E12: there is no capacity; 100 tokens on one expert all come back."""
    experts = Experts(num_experts=4, d_model=8, d_expert=8)
    torch.nn.init.normal_(experts.gate, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(experts.up, generator=torch.Generator().manual_seed(1))
    torch.nn.init.normal_(experts.down, generator=torch.Generator().manual_seed(2))
    x = torch.randn(100, 8, generator=torch.Generator().manual_seed(3))
    logits = torch.tensor([0.0, 9.0, 0.0, 0.0]).repeat(100, 1)
    assert (experts(x, route(logits, 1)).abs().sum(1) > 0).all()


def test_experts_unused_expert_gets_a_zero_gradient():
    experts = Experts(num_experts=3, d_model=8, d_expert=8)
    torch.nn.init.ones_(experts.gate)
    torch.nn.init.ones_(experts.up)
    torch.nn.init.ones_(experts.down)
    logits = torch.tensor([[9.0, 0.0, 1.0]]).repeat(5, 1)
    (experts(torch.ones(5, 8), route(logits, 2)) * torch.arange(8.0)).sum().backward()
    assert experts.gate.grad[1].abs().max() == 0
    assert experts.gate.grad[[0, 2]].abs().amax(dim=(1, 2)).min() > 0
