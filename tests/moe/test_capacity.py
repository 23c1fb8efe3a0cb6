"""Places at full experts: who keeps one, who is dropped, and what is computed."""

import pytest
import torch

from workbench.moe.balance import capacity_utilization, dropped_share, switch_loss
from workbench.moe.capacity import drops, even_share
from workbench.moe.config import RoutingConfig
from workbench.moe.experts import Experts
from workbench.moe.router import Router, Turn, route, within_capacity

TURN = Turn(seed=1, step=1, part=0)


def certain(choices, num_experts=2, mask=None):
    logits = torch.full((len(choices), num_experts), -9.0)
    logits[torch.arange(len(choices)), torch.tensor(choices)] = 0.0
    return route(logits, 1, None if mask is None else torch.tensor(mask))


def kept(routing):
    return routing.slots.has_place_M.view(routing.chosen_NK.shape)


def told(routing):
    found = drops(routing.chosen_NK, routing.probs_NE.shape[1], routing.mask_N, routing.slots)
    return {"real": int(found.real), "padding": int(found.padding), "asked": int(found.asked)}


def test_padding_in_front_takes_no_place():
    """E8: capacity 2, pads first: no real token is dropped; drops are counted by kind."""
    routing = certain([0, 0, 0, 0, 0, 0], mask=[False] * 4 + [True] * 2)
    routing = within_capacity(routing, 2, by_weight=False)
    assert kept(routing).flatten().tolist() == [False] * 4 + [True] * 2
    assert told(routing) == {"real": 0, "padding": 4, "asked": 2}
    assert float(dropped_share([routing])) == 0.0


def test_real_tokens_beyond_the_capacity_are_dropped_and_counted():
    """E8: three real tokens for two places, one pad."""
    routing = certain([0, 0, 0, 0, 1], mask=[False, True, True, True, True])
    routing = within_capacity(routing, 2, by_weight=False)
    assert kept(routing).flatten().tolist() == [False, True, True, False, True]
    assert told(routing) == {"real": 1, "padding": 1, "asked": 4}
    assert float(dropped_share([routing])) == 0.25
    assert float(capacity_utilization([routing])) == 0.75


def test_more_places_than_tokens_is_clamped():
    """E12: 4 tokens, 2 experts, factor 8: four places an expert, nothing dropped."""
    assert even_share(4, 1, 2, 8.0) == 4
    router = Router(2, 2, 1, RoutingConfig(capacity_factor=8.0))
    routing = router(torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), turn=TURN)
    assert routing.slots.capacity == 4
    assert kept(routing).all()


@pytest.mark.parametrize(
    ("tokens", "top_k", "experts", "factor", "capacity"),
    [(8, 2, 8, 1.0, 2), (8, 2, 8, 1.25, 3), (100, 1, 10, 1.1, 11), (3, 1, 8, 0.1, 1)],
)
def test_even_share_is_rounded_up(tokens, top_k, experts, factor, capacity):
    assert even_share(tokens, top_k, experts, factor) == capacity


@pytest.mark.parametrize("by_weight", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_within_capacity_equals_the_slow_reference(seed, by_weight):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-2, 3, (40, 5), generator=generator).float()
    mask = torch.rand(40, generator=generator) < 0.7
    plain = route(logits, 2, mask)
    routing = within_capacity(plain, 6, by_weight=by_weight)
    expected = torch.zeros(40, 2, dtype=torch.bool)
    for expert in range(5):
        asking = [
            (n, k)
            for n in range(40)
            for k in range(2)
            if mask[n] and plain.chosen_NK[n, k] == expert
        ]
        if by_weight:
            asking.sort(key=lambda place: -float(plain.weights_NK[place]))
        for place in asking[:6]:
            expected[place] = True
    assert 0 < expected.sum() < mask.sum() * 2
    assert torch.equal(kept(routing), expected)
    assert torch.equal(routing.weights_NK, plain.weights_NK)
    rows = routing.slots.assignment_S[routing.slots.filled_S]
    assert sorted(rows.tolist()) == expected.flatten().nonzero().flatten().tolist()


@pytest.mark.parametrize("width", [8, 7], ids=["grouped-kernel", "single-products"])
def test_experts_with_dropped_tokens_equal_the_slow_reference(width):
    generator = torch.Generator().manual_seed(0)
    experts = Experts(4, width, 12)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    x = torch.randn(20, width, generator=generator, requires_grad=True)
    logits = torch.randn(20, 4, generator=generator, requires_grad=True)
    mask = torch.rand(20, generator=generator) < 0.8
    upstream = torch.randn(20, width, generator=generator)
    leaves = [x, logits, experts.gate, experts.up, experts.down]

    routing = within_capacity(route(logits, 2, mask), 6, by_weight=True)
    found = experts(x, routing)
    gradients = torch.autograd.grad(found, leaves, upstream)

    rows, routing = [], within_capacity(route(logits, 2, mask), 6, by_weight=True)
    for n in range(20):
        row = torch.zeros(width)
        for k in range(2):
            if kept(routing)[n, k]:
                e = int(routing.chosen_NK[n, k])
                hidden = torch.nn.functional.silu(experts.gate[e] @ x[n]) * (experts.up[e] @ x[n])
                row = row + routing.weights_NK[n, k] * (experts.down[e] @ hidden)
        rows.append(row)
    expected = torch.stack(rows)
    assert not kept(routing).all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    slow = torch.autograd.grad(expected, leaves, upstream)
    for fast, reference in zip(gradients, slow, strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-3, atol=1e-5)


def test_experts_with_room_for_all_equal_dropless():
    generator = torch.Generator().manual_seed(0)
    experts = Experts(4, 8, 8)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x = torch.randn(20, 8, generator=generator)
    routing = route(torch.randn(20, 4, generator=generator), 2)
    roomy = within_capacity(routing, 20, by_weight=True)
    torch.testing.assert_close(experts(x, roomy), experts(x, routing))


def test_capacity_belongs_to_training_alone():
    """What a validation text costs must not depend on what else is in the pass."""
    router = Router(2, 4, 1, RoutingConfig(capacity_factor=1.0))
    x = torch.ones(8, 2)
    assert router(x).slots is None
    assert int(kept(router(x, turn=TURN)).sum()) == 2


def test_balance_loss_counts_what_was_asked_for_not_what_fitted():
    routing = certain([0, 0, 0, 0])
    assert float(switch_loss([within_capacity(routing, 1, by_weight=True)])) == float(
        switch_loss([routing])
    )
