"""Sigmoid, groups, bias, expert choice, Gumbel noise and held rules, each against plain Python."""

import math

import pytest
import torch
from pydantic import ValidationError

from workbench.moe.choices import best_tokens, grouped_choices
from workbench.moe.config import ModelConfig, RoutingConfig
from workbench.moe.model import MoEDecoder, initialise
from workbench.moe.router import (
    Router,
    Turn,
    gumbel_noise,
    route,
    route_by_expert,
    route_scored,
    route_straight_through,
)

SHAPE = {
    "vocab_size": 300,
    "d_model": 16,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "num_experts": 8,
    "top_k": 2,
    "d_expert": 16,
    "max_seq_len": 16,
    "init_std": 0.3,
}
TURN = Turn(seed=1, step=1, part=0)


def some_logits(seed=0, tokens=60, experts=8, levels=None):
    generator = torch.Generator().manual_seed(seed)
    if levels:  # few values make many ties
        return torch.randint(-levels, levels, (tokens, experts), generator=generator) / 2
    return torch.randn(tokens, experts, generator=generator) * 2


def model_of(routing, **changes):
    model = MoEDecoder(ModelConfig.model_validate(SHAPE | {"routing": routing} | changes))
    initialise(model, torch.Generator().manual_seed(0))
    return model


def slow_choice(scores, top_k, groups, top_groups):
    """Of one token, as DeepSeek-V3's text has it."""
    size = len(scores) // groups
    members = [range(g * size, (g + 1) * size) for g in range(groups)]
    worth = [sum(sorted((scores[e] for e in member), reverse=True)[:2]) for member in members]
    best = sorted(range(groups), key=lambda g: (-worth[g], g))[:top_groups]
    allowed = [e for g in best for e in members[g]]
    return sorted(allowed, key=lambda e: (-scores[e], e))[:top_k]


@pytest.mark.parametrize(("groups", "top_groups"), [(1, 1), (4, 2), (2, 1), (8, 3)])
@pytest.mark.parametrize("levels", [None, 2])
def test_grouped_choices_equal_a_python_sort(groups, top_groups, levels):
    """E11: ties between experts and between groups go to the lower index."""
    scores = some_logits(levels=levels)
    expected = [slow_choice(row, 2, groups, top_groups) for row in scores.tolist()]
    assert grouped_choices(scores, 2, groups, top_groups).tolist() == expected


@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
@pytest.mark.parametrize("groups", [(1, 1), (4, 2)])
def test_route_scored_equals_the_slow_reference(scores, groups, top_k):
    config = RoutingConfig(
        scores=scores, groups=groups[0], top_groups=groups[1], bias=True, scale=2.5
    )
    logits = some_logits(3)
    bias = torch.randn(8, generator=torch.Generator().manual_seed(4))
    routing = route_scored(logits, top_k, None, config, bias)
    for row, logit in enumerate(logits.double().tolist()):
        if scores == "sigmoid":
            score = [1 / (1 + math.exp(-x)) for x in logit]
        else:
            total = sum(map(math.exp, logit))
            score = [math.exp(x) / total for x in logit]
        biased = [s + b for s, b in zip(score, bias.tolist(), strict=True)]
        chosen = slow_choice(biased, top_k, *groups)
        weights = [2.5 * score[e] for e in chosen]
        if top_k > 1:  # by the original scores, not the biased ones
            weights = [w / sum(score[e] for e in chosen) for w in weights]
        assert routing.chosen_NK[row].tolist() == chosen
        assert routing.weights_NK[row].tolist() == pytest.approx(weights, rel=1e-5)
        probs = [s / sum(score) for s in score]
        assert routing.probs_NE[row].tolist() == pytest.approx(probs, rel=1e-5)


def test_route_scored_without_options_is_route_to_the_last_bit():
    logits = some_logits(8)
    for top_k in (1, 3):
        plain, scored = route(logits, top_k), route_scored(logits, top_k, None, RoutingConfig())
        for name in ("probs_NE", "chosen_NK", "weights_NK"):
            assert torch.equal(getattr(plain, name), getattr(scored, name))


def test_bias_changes_the_choice_and_has_no_gradient():
    config = RoutingConfig(scores="sigmoid", bias=True)
    logits = torch.tensor([[1.0, 0.5, 0.0]], requires_grad=True)
    plain = route_scored(logits, 2, None, config, torch.zeros(3))
    moved = route_scored(logits, 2, None, config, torch.tensor([-1.0, 0.0, 0.0]))
    assert plain.chosen_NK.tolist() == [[0, 1]]
    assert moved.chosen_NK.tolist() == [[1, 2]]
    scores = torch.sigmoid(logits.detach())[0]
    torch.testing.assert_close(moved.weights_NK[0], scores[1:] / scores[1:].sum())


def test_sigmoid_scores_saturated_are_still_told_apart():
    """E11: sigmoid(30) and sigmoid(31) are both 1.0 in fp32; the higher logit wins."""
    logits = torch.tensor([[30.0, 31.0, 0.0]])
    assert torch.sigmoid(logits)[0, 0] == torch.sigmoid(logits)[0, 1]
    routing = route_scored(logits, 1, None, RoutingConfig(scores="sigmoid"))
    assert routing.chosen_NK.tolist() == [[1]]


@pytest.mark.parametrize(
    "config",
    [
        {"scores": "sigmoid", "bias": True, "groups": 4, "top_groups": 2},
        {"kind": "expert_choice", "causal_leak": "accepted"},
        {"kind": "gumbel"},
        {"refresh_every": 3},
    ],
)
def test_router_any_kind_stays_fp32_under_autocast_and_repeats(config):
    """E11: routing comes from fp32, and doing a pass again picks the same experts."""
    router = Router(16, 8, 2, RoutingConfig.model_validate(config))
    torch.nn.init.normal_(router.weight, generator=torch.Generator().manual_seed(0))
    router.refresh()
    x = torch.randn(40, 16, generator=torch.Generator().manual_seed(1)).bfloat16()
    plain = router(x.float(), turn=TURN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = router(x, turn=TURN)
    assert again.logits_NE.dtype == again.weights_NK.dtype == torch.float32
    assert torch.equal(plain.chosen_NK, again.chosen_NK)
    assert torch.equal(plain.weights_NK, again.weights_NK)


@pytest.mark.parametrize("levels", [None, 1])
def test_best_tokens_equal_a_python_sort_and_leave_padding_out(levels):
    """E8: padding is never taken, whatever its score."""
    scores = some_logits(1, tokens=20, levels=levels)
    mask = torch.rand(20, generator=torch.Generator().manual_seed(2)) < 0.6
    scores[~mask] = 100.0
    taken = best_tokens(scores, 5, mask)
    for expert in range(8):
        real = [n for n in range(20) if mask[n]]
        best = sorted(real, key=lambda n: (-float(scores[n, expert]), n))[:5]
        assert taken[:, expert].nonzero().flatten().tolist() == sorted(best)


def test_expert_choice_fewer_real_tokens_than_places_leaves_places_empty():
    mask = torch.tensor([True, False, False, False, True, False])
    routing = route_by_expert(some_logits(tokens=6), 4, mask, 1.0)
    assert routing.slots.capacity == 3
    assert int(routing.slots.filled_S.sum()) == 2 * 8
    assert (routing.chosen_NK[~mask] == 8).all()


def test_expert_choice_layer_equals_the_slow_reference():
    model = model_of({"kind": "expert_choice", "causal_leak": "accepted"}, num_shared_experts=0)
    layer = model.layers[0]
    x = torch.randn(12, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
    upstream = torch.randn(12, 16, generator=torch.Generator().manual_seed(2))
    leaves = [x, layer.router.weight, layer.experts.gate, layer.experts.up, layer.experts.down]

    routing = layer.router(x)
    found = layer.experts(x, routing)
    gradients = torch.autograd.grad(found, leaves, upstream)

    probs = torch.softmax(x @ layer.router.weight.T, 1)
    rows = [torch.zeros(16) for _ in range(12)]
    for expert in range(8):
        column = probs[:, expert].tolist()
        best = sorted(range(12), key=lambda n: (-column[n], n))[: 12 * 2 // 8]
        for n in best:
            gate, up = layer.experts.gate[expert] @ x[n], layer.experts.up[expert] @ x[n]
            hidden = torch.nn.functional.silu(gate) * up
            rows[n] = rows[n] + probs[n, expert] * (layer.experts.down[expert] @ hidden)
    expected = torch.stack(rows)

    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    slow = torch.autograd.grad(expected, leaves, upstream)
    for fast, reference in zip(gradients, slow, strict=True):
        torch.testing.assert_close(fast, reference, rtol=1e-3, atol=1e-4)


def test_expert_choice_does_leak_and_is_refused_unless_that_is_accepted():
    with pytest.raises(ValidationError, match="causal_leak: accepted"):
        RoutingConfig(kind="expert_choice")
    model = model_of({"kind": "expert_choice", "causal_leak": "accepted"})
    tokens = torch.randint(0, 300, (1, 16), generator=torch.Generator().manual_seed(0))
    later = tokens.clone()
    later[0, 8:] = torch.randint(0, 300, (8,), generator=torch.Generator().manual_seed(9))
    early = model(tokens).logits_BTV[0, :8]
    assert not torch.allclose(early, model(later).logits_BTV[0, :8])
    # Token choice is causal.
    model = model_of({"scores": "sigmoid"})
    torch.testing.assert_close(model(tokens).logits_BTV[0, :8], model(later).logits_BTV[0, :8])


def test_gumbel_noise_has_its_moments_and_depends_on_everything_of_the_turn():
    like = torch.zeros(4000, 8)
    noise = gumbel_noise(TURN, 0, like)
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.03)
    assert float(noise.std()) == pytest.approx(math.pi / math.sqrt(6), abs=0.03)
    assert torch.equal(noise, gumbel_noise(TURN, 0, like))
    others = [
        gumbel_noise(Turn(seed=2, step=1, part=0), 0, like),
        gumbel_noise(Turn(seed=1, step=2, part=0), 0, like),
        gumbel_noise(Turn(seed=1, step=1, part=1), 0, like),
        gumbel_noise(TURN, 1, like),
    ]
    assert all(not torch.equal(noise, other) for other in others)


def test_gumbel_choice_follows_the_softmax():
    """Gumbel-max: the best noisy logit is a draw from the softmax of the logits."""
    logits = torch.tensor([1.0, 0.0, -1.0]).repeat(20_000, 1)
    routing = route_straight_through(logits, gumbel_noise(TURN, 0, logits), 1, None, 1.0)
    shares = torch.bincount(routing.chosen_NK.flatten(), minlength=3) / 20_000
    torch.testing.assert_close(shares, torch.softmax(logits[0], 0), atol=0.01, rtol=0)


@pytest.mark.parametrize("top_k", [1, 2])
def test_gumbel_weights_are_hard_forward_and_soft_backward(top_k):
    logits = some_logits(5, tokens=30).requires_grad_()
    noise = gumbel_noise(TURN, 0, logits)
    routing = route_straight_through(logits, noise, top_k, None, 0.7)
    assert routing.weights_NK.flatten().tolist() == [1 / top_k] * (30 * top_k)
    upstream = torch.randn(30, top_k, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad(routing.weights_NK, logits, upstream)[0]
    soft = torch.softmax((logits + noise) / 0.7, 1).gather(1, routing.chosen_NK)
    torch.testing.assert_close(found, torch.autograd.grad(soft, logits, upstream)[0])
    assert found.abs().max() > 0


def test_gumbel_inference_hard_mixes_the_best_alike_and_soft_mixes_all():
    logits = some_logits(6, tokens=10, experts=4)
    for inference in ("hard", "soft"):
        router = Router(4, 4, 2, RoutingConfig(kind="gumbel", inference=inference))
        with torch.no_grad():
            router.weight.copy_(torch.eye(4))
        routing = router(logits)
        if inference == "hard":
            assert torch.equal(routing.chosen_NK, route(logits, 2).chosen_NK)
            assert (routing.weights_NK == 0.5).all()
        else:
            dense = torch.zeros(10, 4).scatter(1, routing.chosen_NK, routing.weights_NK)
            torch.testing.assert_close(dense, torch.softmax(logits, 1))


def test_refresh_choice_is_of_the_held_matrix_and_weights_of_the_present_one():
    router = Router(4, 4, 2, RoutingConfig(refresh_every=5))
    with torch.no_grad():
        router.weight.copy_(torch.eye(4))
    router.refresh()
    x = some_logits(7, tokens=12, experts=4)
    before = router(x).chosen_NK
    with torch.no_grad():
        router.weight.copy_(-torch.eye(4))
    held = router(x)
    assert torch.equal(held.chosen_NK, before)
    probs = torch.softmax(-x, 1).gather(1, before)
    torch.testing.assert_close(held.weights_NK, probs / probs.sum(1, keepdim=True))
    router.refresh()
    assert not torch.equal(router(x).chosen_NK, before)


def test_held_rule_and_biases_are_state_and_no_parameters():
    plain = model_of({})
    full = model_of({"scores": "sigmoid", "bias": True, "refresh_every": 4})
    assert [n for n, _ in plain.named_parameters()] == [n for n, _ in full.named_parameters()]
    added = set(full.state_dict()) - set(plain.state_dict())
    assert {name.rsplit(".", 1)[1] for name in added} == {"bias_E", "choosing_ED"}
    assert set(plain.state_dict()) == {name for name, _ in plain.named_parameters()}
    assert torch.equal(full.layers[1].router.choosing_ED, full.layers[1].router.weight)


def test_routing_left_out_is_written_as_before_the_key_existed():
    plain = ModelConfig.model_validate(SHAPE)
    assert "routing" not in plain.model_dump()
    assert ModelConfig.model_validate(SHAPE | {"routing": {"groups": 1}}) == plain
    some = ModelConfig.model_validate(SHAPE | {"routing": {"scores": "sigmoid"}})
    assert some.model_dump(mode="json")["routing"] == {"scores": "sigmoid"}
    assert ModelConfig.model_validate(some.model_dump(mode="json")) == some


@pytest.mark.parametrize(
    ("routing", "message"),
    [
        ({"groups": 3}, "not a multiple of routing.groups 3"),
        ({"groups": 8}, "write top_groups: 2"),
        ({"groups": 2, "top_groups": 3}, "top_groups 3 exceeds groups 2"),
        ({"kind": "gumbel", "bias": True}, "bias True has no meaning with kind gumbel"),
        ({"temperature": 0.5}, "temperature 0.5 has no meaning with kind token_choice"),
    ],
)
def test_routing_that_does_not_fit_is_refused_with_a_remedy(routing, message):
    with pytest.raises(ValidationError, match=message):
        ModelConfig.model_validate(SHAPE | {"routing": routing})
