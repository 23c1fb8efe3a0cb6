"""Whole-batch counts and the biases that follow them."""

import torch

from workbench.moe.config import RoutingConfig
from workbench.moe.load import load_of, move_biases
from workbench.moe.router import Router, route


def test_counts_of_many_micro_batches_are_exact_and_decide_the_sign():
    """E5: 64 counts of 608 to 676 sum to 40,840; in bf16 they would not, and the bias would turn.

    The mean is 40,960: expert 0 is below it, so that its bias rises.
    """
    counts = [608 + (i * 37) % 69 for i in range(64)]
    counts[-1] += 40_840 - sum(counts)
    assert sum(counts) == 40_840
    rounded = torch.zeros((), dtype=torch.bfloat16)
    for count in counts:
        rounded += count
    assert int(rounded) != 40_840

    load = None
    for count in counts:
        logits = torch.zeros(1280, 2)
        logits[:count, 0], logits[count:, 1] = 1.0, 1.0
        part = load_of([route(logits, 1)])
        load = part if load is None else load + part
    assert load.count_LE.tolist() == [[40_840, 41_080]]
    assert load.count_LE.dtype == torch.int64
    assert int(load.num_tokens) == 81_920
    router = Router(4, 2, 1, RoutingConfig(bias=True))
    move_biases([router], load.count_LE, 0.001)
    torch.testing.assert_close(router.bias_E, torch.tensor([0.001, -0.001]))


def test_expert_at_the_mean_keeps_its_bias():
    routers = [Router(4, 3, 1, RoutingConfig(bias=True)) for _ in range(2)]
    move_biases(routers, torch.tensor([[4, 2, 0], [2, 2, 2]]), 0.5)
    assert routers[0].bias_E.tolist() == [-0.5, 0.0, 0.5]
    assert routers[1].bias_E.tolist() == [0.0, 0.0, 0.0]


def test_router_without_a_bias_is_left_alone():
    router = Router(4, 2, 1)
    move_biases([router], torch.tensor([[3, 1]]), 0.5)
    assert router.bias_E is None


def test_load_leaves_padding_out():
    """E7."""
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [float("nan"), 0.0]])
    load = load_of([route(logits, 1, torch.tensor([True, True, False]))])
    assert load.count_LE.tolist() == [[1, 1]]
    assert load.marginal_LE.tolist() == [[0.5, 0.5]]
    assert load.shares_LE.tolist() == [[0.5, 0.5]]


def test_biases_even_out_a_lopsided_router():
    """Aux-free balancing does what it is for: 400 steps on tokens that nearly all like expert 0."""
    generator = torch.Generator().manual_seed(0)
    router = Router(8, 8, 2, RoutingConfig(scores="sigmoid", bias=True))
    torch.nn.init.normal_(router.weight, std=0.3, generator=generator)
    with torch.no_grad():
        router.weight[0] += 0.5
    x = torch.randn(512, 8, generator=generator) + 0.5

    def worst() -> float:
        count = load_of([router(x)]).count_LE
        return float(count.max() / count.double().mean())

    before = worst()
    for _ in range(400):
        move_biases([router], load_of([router(x)]).count_LE, 0.005)
    assert before > 2.5
    assert worst() < 1.2
