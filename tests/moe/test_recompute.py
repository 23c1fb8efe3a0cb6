"""Recomputing changes what is kept and what runs again, and no bit of the result."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.moe.test_model import LATENT, PACKED, build, segments_of, some_tokens
from workbench.moe.loss import summed_nats

POLICIES = ["full", "qkv", "qkv_softmax", "selective"]
MODELS = {
    "grouped": {},
    "reordered": {"norm_placement": "reordered", "num_shared_experts": 1, "qk_norm": False},
    "latent": LATENT,
}
FLASH = "_scaled_dot_product_flash_attention_for_cpu"


class Executed(TorchDispatchMode):
    """Counts the operators that run; below the policies' own modes, so that what they keep from
    running is not counted."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def trained(model, tokens, segments=None):
    """Return the loss, every gradient and the routing of one backward pass."""
    model.zero_grad()
    inputs = None if segments is None else segments[:, :-1]
    output = model.hidden(tokens[:, :-1], None, inputs)
    targets = tokens[:, 1:].flatten()
    nats = summed_nats(output.hidden_BTD.flatten(0, 1), model.output_embedding, targets)
    z = sum(routing.logits_NE.logsumexp(-1).square().sum() for routing in output.routing)
    (nats + 0.01 * z).backward()
    return nats.detach(), {n: p.grad for n, p in model.named_parameters()}, output.routing


def assert_same(found, expected):
    assert torch.equal(found[0], expected[0])
    assert all(torch.equal(found[1][name], grad) for name, grad in expected[1].items())
    for one, other in zip(found[2], expected[2], strict=True):
        assert torch.equal(one.chosen_NK, other.chosen_NK)
        assert torch.equal(one.probs_NE, other.probs_NE)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_loss_gradients_and_routing_are_those_of_keeping_everything(changes, policy):
    """E11: to the bit; what is recomputed picks the same experts."""
    model, tokens = build(**changes), some_tokens()
    expected = trained(model, tokens)
    model.set_recompute(policy)
    assert_same(trained(model, tokens), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_packed_documents_in_bf16_are_recomputed_to_the_bit(policy):
    model, tokens, segments = build(), some_tokens(), segments_of(PACKED, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = trained(model, tokens, segments)
        model.set_recompute(policy)
        assert_same(trained(model, tokens, segments), expected)


def executed(model, tokens):
    with Executed() as mode:
        trained(model, tokens)
    return mode.names


@pytest.mark.parametrize(
    ("policy", "again"),
    [
        # Of each layer: projections of queries, keys and values.
        ("qkv", {"mm": 3, FLASH: 0, "_grouped_mm": 0, "sort": 0}),
        ("qkv_softmax", {"mm": 3, FLASH: 1, "_grouped_mm": 0, "sort": 0}),
        ("selective", {"mm": 0, FLASH: 0, "_grouped_mm": 0, "silu": 1}),
        # And the output matrix, the router and the three products of the experts.
        ("full", {"mm": 5, FLASH: 1, "_grouped_mm": 3, "silu": 1}),
    ],
)
def test_what_runs_again_is_what_the_policy_says(policy, again):
    model, tokens = build(), some_tokens()
    plain = executed(model, tokens)
    model.set_recompute(policy)
    found = executed(model, tokens)
    assert {name: found[name] - plain[name] for name in again} == {
        name: 2 * count for name, count in again.items()
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_pass_without_gradient_runs_as_if_there_were_no_policy(policy):
    def counted():
        with torch.no_grad(), Executed() as mode:
            model.hidden(tokens)
        return mode.names

    model, tokens = build(), some_tokens()
    plain = counted()
    model.set_recompute(policy)
    assert counted() == plain


def test_each_layer_decides_its_routing_once_to_those_who_count():
    """Counts of tokens come from what a pass returns; recomputing adds nothing to it."""
    model, tokens = build(), some_tokens()
    model.set_recompute("full")
    routing = trained(model, tokens)[2]
    assert len(routing) == 2
    counts = [torch.bincount(one.chosen_NK.flatten(), minlength=4).sum() for one in routing]
    assert counts == [3 * 15 * 2] * 2
