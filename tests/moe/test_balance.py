"""Balance loss, z-loss and health figures against hand-worked values and slow references."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from workbench.moe.balance import (
    assignment_shares,
    capacity_utilization,
    max_expert_share,
    router_entropy,
    sequence_loss,
    stability_loss,
    switch_loss,
    z_loss,
)
from workbench.moe.config import BalanceConfig
from workbench.moe.load import load_of
from workbench.moe.router import Routing, route, route_by_expert


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


@pytest.mark.parametrize("sizes", [[8], [6, 2], [2, 2, 2, 2], [1, 7]])
def test_switch_loss_global_shares_give_the_value_and_gradient_of_the_whole_batch(sizes):
    """E4: local probabilities × global fractions, each micro-batch by its tokens; also E2."""
    logits = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)) * 2
    whole, leaf = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = switch_loss([route(whole, 2)])
    expected.backward()
    load = load_of([route(logits, 2)])
    total = 0.0
    for part in leaf.split(sizes):
        loss = switch_loss([route(part, 2)], load.shares_LE) * (len(part) / 8)
        loss.backward(retain_graph=True)
        total += float(loss.detach())
    assert total == pytest.approx(float(expected.detach()), rel=1e-6)
    torch.testing.assert_close(leaf.grad, whole.grad)


def test_switch_loss_global_scope_gives_the_stated_values():
    """E4: micro-batches all on e0 and all on e1: 1.0 globally, 2.0 as mean of local values; and
    6 and 2 tokens: 2·(0.75² + 0.25²)."""
    first, second = certain([0], 2), certain([1], 2)
    load = load_of([first]) + load_of([second])
    values = [float(switch_loss([one], load.shares_LE)) for one in (first, second)]
    assert sum(values) / 2 == 1.0
    first, second = certain([0] * 6, 2), certain([1] * 2, 2)
    load = load_of([first]) + load_of([second])
    values = [float(switch_loss([one], load.shares_LE)) for one in (first, second)]
    assert (6 * values[0] + 2 * values[1]) / 8 == 1.25


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


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("top_k", [1, 2])
def test_sequence_loss_equals_the_slow_reference(top_k, masked):
    """DeepSeek-V3, eq. 17-20, one sequence, one expert, one token at a time."""
    routing = random_routing(top_k, 24, 5, top_k)
    if not masked:
        routing = route(routing.logits_NE, top_k)
    total, tokens = 0.0, 0
    for begin in range(0, 24, 8):
        real = [n for n in range(begin, begin + 8) if not masked or routing.mask_N[n]]
        for expert in range(5):
            hits = sum(expert in routing.chosen_NK[n].tolist() for n in real)
            mass = sum(float(routing.probs_NE[n, expert]) for n in real)
            if real:
                total += len(real) * 5 / (top_k * len(real)) * hits * mass / len(real)
        tokens += len(real)
    assert float(sequence_loss([routing], 3, top_k)) == pytest.approx(total / tokens, rel=1e-5)


def test_sequence_loss_sees_what_the_batch_hides():
    """Two one-sided sequences that balance each other cost 2.0 by sequence, 1.0 by batch."""
    routing = certain([0, 0, 1, 1], 2)
    assert float(switch_loss([routing])) == 1.0
    assert float(sequence_loss([routing], 2, 1)) == 2.0


def test_sequence_loss_by_micro_batches_is_that_of_the_batch():
    """E2: weighted by tokens, it does not depend on how the sequences are split."""
    logits = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(24, generator=torch.Generator().manual_seed(1)) < 0.6
    whole = sequence_loss([route(logits, 2, mask)], 3, 2)
    parts = [(slice(0, 16), 2), (slice(16, 24), 1)]
    values = [
        float(sequence_loss([route(logits[rows], 2, mask[rows])], number, 2) * mask[rows].sum())
        for rows, number in parts
    ]
    assert sum(values) / int(mask.sum()) == pytest.approx(float(whole), rel=1e-6)


def test_stability_loss_is_the_divergence_from_the_average_and_its_gradient():
    logits = torch.randn(10, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    average = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    found = stability_loss([route(logits, 1)], average)
    marginal = torch.softmax(logits, 1).mean(0)
    expected = (marginal * (marginal / average[0]).log()).sum()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, logits)[0],
        torch.autograd.grad(expected, logits)[0],
        rtol=1e-4,
        atol=1e-7,
    )
    same = route(logits.detach(), 1)
    assert float(stability_loss([same], load_of([same]).marginal_LE)) == pytest.approx(0, abs=1e-6)


def test_stability_loss_global_marginal_gives_the_value_and_gradient_of_the_whole_batch():
    logits = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    average = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    whole, leaf = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = stability_loss([route(whole, 1)], average)
    expected.backward()
    marginal = load_of([route(logits, 1)]).marginal_LE
    total = 0.0
    for part in leaf.split([6, 2]):
        loss = stability_loss([route(part, 1)], average, marginal) * (len(part) / 8)
        loss.backward(retain_graph=True)
        total += float(loss.detach())
    assert total == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(leaf.grad, whole.grad)


def test_figures_of_an_expert_choice_count_what_was_taken():
    routing = route_by_expert(
        torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), 2, None, 1.0
    )
    assert assignment_shares(routing).tolist() == [0.25] * 4
    assert float(max_expert_share([routing])) == 0.5
    assert float(capacity_utilization([routing])) == 1.0


@pytest.mark.parametrize("name", ["sequence", "stability"])
def test_weight_without_its_definition_is_refused(name):
    """E10: λ is never without the loss that it is of."""
    plain = {"weight": 0.1, "definition": "switch-E*sum(f*P)/k@1", "z_loss_weight": 0.0}
    with pytest.raises(ValidationError, match=f"write {name}_definition: '"):
        BalanceConfig.model_validate(plain | {f"{name}_weight": 0.1})
    assert BalanceConfig.model_validate(plain).model_dump() == plain | {"scope": "micro_batch"}


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
