"""Balance loss, z-loss and health figures against hand-worked values and slow references."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.moe.balance import (
    assignment_shares,
    capacity_utilization,
    max_expert_share,
    router_entropy,
    switch_loss,
    z_loss,
)
from workbench.moe.router import Routing, route


def certain(choices: list[int], num_experts: int, mask: list[bool] | None = None) -> Routing:
    """Each token sure of one expert, so that P = f."""
    logits = torch.full((len(choices), num_experts), -200.0)
    logits[torch.arange(len(choices)), torch.tensor(choices)] = 0.0
    return route(logits, 1, None if mask is None else torch.tensor(mask))


def random_routing(seed: int, num_tokens: int, num_experts: int, top_k: int) -> Routing:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_tokens, num_experts, generator=generator) * 2
    mask = torch.rand(num_tokens, generator=generator) < 0.7
    mask[0] = True
    return route(logits, top_k, mask)


def test_switch_loss_padding_is_not_counted():
    """E7: two real tokens on two experts, six pads to expert 0: balanced, 1.0."""
    choices = [0, 1, 0, 0, 0, 0, 0, 0]
    real = [True, True] + [False] * 6
    assert float(switch_loss([certain(choices, 2, real)])) == 1.0
    assert float(switch_loss([certain(choices, 2)])) == 1.5625


def test_switch_loss_padding_with_nan_logits_is_not_counted():
    routing = route(torch.tensor([[9.0, 0.0], [0.0, 9.0], [math.nan, 0.0]]), 1)
    masked = Routing(
        logits_NE=routing.logits_NE,
        probs_NE=routing.probs_NE,
        chosen_NK=routing.chosen_NK,
        weights_NK=routing.weights_NK,
        mask_N=torch.tensor([True, True, False]),
    )
    assert float(switch_loss([masked])) == pytest.approx(1.0)
    assert math.isfinite(float(z_loss([masked])))


def test_switch_loss_balanced_top_two_is_one_not_k():
    """E10: f is divided by k, as the definition stored beside λ says."""
    logits = torch.full((8, 8), -200.0)
    for token in range(8):
        logits[token, token] = logits[token, (token + 1) % 8] = 0.0
    assert float(switch_loss([route(logits, 2)])) == pytest.approx(1.0)


def test_switch_loss_micro_batch_scope_gives_the_stated_values():
    """E4: scope micro_batch: two one-sided micro-batches cost 2.0 each, together 1.0."""
    first, second = certain([0], 2), certain([1, 1], 2)
    local = (switch_loss([first]) + switch_loss([second])) / 2
    assert float(local) == 2.0
    assert float(switch_loss([certain([0, 1], 2)])) == 1.0
    # Unequal micro-batches: each divides by its own tokens.
    assert float(switch_loss([certain([0, 0, 0, 0, 1, 1], 2)])) == pytest.approx(2 * 5 / 9)


def test_switch_loss_micro_batches_weighted_by_tokens_do_not_grow_with_their_number():
    """E2: the auxiliary gradient of one batch of 8 and of four of 2 has the same scale."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 4, generator=generator).repeat(4, 1)

    def gradient(size: int) -> torch.Tensor:
        leaf = logits.clone().requires_grad_()
        for part in leaf.split(size):
            (switch_loss([route(part, 1)]) * (size / 8)).backward()
        return leaf.grad

    assert gradient(8).norm() > 0.01
    torch.testing.assert_close(gradient(2), gradient(8))


def test_switch_loss_collapse_is_num_experts():
    assert float(switch_loss([certain([3] * 10, 8)])) == pytest.approx(8.0)


def test_switch_loss_several_layers_is_their_mean():
    balanced, collapsed = certain([0, 1], 2), certain([0, 0], 2)
    assert float(switch_loss([balanced, collapsed])) == pytest.approx(1.5)


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_switch_loss_random_routing_equals_the_slow_reference(top_k):
    routing = random_routing(top_k, 50, 5, top_k)
    real = [n for n in range(50) if routing.mask_N[n]]
    total = 0.0
    for expert in range(5):
        taken = sum(expert in routing.chosen_NK[n].tolist() for n in real)
        share = taken / (len(real) * top_k)
        probability = sum(float(routing.probs_NE[n, expert]) for n in real) / len(real)
        total += share * probability
    assert float(switch_loss([routing])) == pytest.approx(5 * total, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(2, 9),
    st.floats(0.01, 20.0),
)
def test_switch_loss_top_one_never_falls_below_three_quarters(seed, num_tokens, experts, scale):
    """The bound that the signature balance_loss_disconnected relies on: 1 - (E-1)/(4E) > 0.75."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_tokens, experts, generator=generator) * scale
    logits += torch.randn(experts, generator=generator) * scale
    bound = 1 - (experts - 1) / (4 * experts)
    assert float(switch_loss([route(logits, 1)])) >= bound - 1e-5


def test_switch_loss_gradient_pushes_down_the_busy_expert():
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    switch_loss([route(logits, 1)]).backward()
    assert (logits.grad[:, 0] > 0).all()


def test_z_loss_random_routing_equals_the_slow_reference():
    layers = [random_routing(seed, 20, 4, 2) for seed in (1, 2)]
    means = []
    for layer in layers:
        kept = layer.logits_NE[layer.mask_N].double()
        means.append(float((kept.exp().sum(1).log() ** 2).mean()))
    assert float(z_loss(layers)) == pytest.approx(sum(means) / 2, rel=1e-5)


def test_router_entropy_is_that_of_the_marginal():
    """Tokens that are each certain but spread out have full entropy."""
    assert float(router_entropy([certain([0, 1, 2, 3], 4)])) == pytest.approx(1.0)
    assert float(router_entropy([certain([1, 1, 1, 1], 4)])) == pytest.approx(0.0)
    assert float(router_entropy([certain([0, 1, 0, 1], 4)])) == pytest.approx(0.5)
    assert float(router_entropy([certain([0, 0], 1)])) == 1.0


def test_max_expert_share_counts_tokens_in_the_worst_layer():
    even, uneven = certain([0, 1, 2, 3], 4), certain([0, 0, 0, 3], 4)
    assert float(max_expert_share([even])) == 0.25
    assert float(max_expert_share([even, uneven])) == 0.75
    both = route(torch.tensor([[5.0, 4.0, 0.0], [5.0, 0.0, 4.0]]), 2)
    assert float(max_expert_share([both])) == 1.0


def test_capacity_utilization_is_mean_over_largest_load():
    assert float(capacity_utilization([certain([0, 1, 2, 3], 4)])) == 1.0
    assert float(capacity_utilization([certain([0, 0, 0, 3], 4)])) == pytest.approx(1 / 3)


def test_assignment_shares_large_counts_are_exact():
    """E5: counts are integers; in bf16 40,840 ones do not sum to 40,840."""
    routing = certain([0] * 40_840 + [1] * 41_080, 2)
    assert (assignment_shares(routing) * 81_920).tolist() == [40_840, 41_080]


def test_statistics_without_a_real_token_are_zero_not_nan():
    routing = certain([0, 1], 2, [False, False])
    for figure in (switch_loss, z_loss, router_entropy, max_expert_share, capacity_utilization):
        assert math.isfinite(float(figure([routing]))), figure
