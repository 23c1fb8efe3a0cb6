"""QK-Clip against logits computed one by one: which heads it scales, and by how much."""

import math

import pytest
import torch
from pydantic import ValidationError

from tests.moe.reference import rms_norm, rotate
from tests.training.test_fit import assert_equal, train
from tests.training.test_module import module_of, random_batch, run, weights
from workbench.training.qk_clip import factors_of


def large_heads(module, heads):
    """Make the logits of some query heads of every layer large."""
    with torch.no_grad():
        for layer in module.model.layers:
            attention = layer.attention
            for head in heads:
                attention.query[head * attention.head_dim : (head + 1) * attention.head_dim] *= 1e4
    return module


def largest_by_hand(model, tokens, layer, head, document=None):
    """The largest causal logit of a head over a batch, position by position."""
    seen = {}
    target = model.layers[layer].attention_norm
    handle = target.register_forward_hook(lambda *given: seen.update(x=given[-1].detach()))
    model.hidden(tokens)
    handle.remove()
    attention, config = model.layers[layer].attention, model.config
    width = attention.head_dim
    shared = head // (config.num_heads // config.num_kv_heads)
    query = attention.query[head * width : (head + 1) * width].detach()
    key = attention.key[shared * width : (shared + 1) * width].detach()
    best = -math.inf
    for row, x in enumerate(seen["x"]):
        q = [rotate(query @ v, t, config.rope_theta) for t, v in enumerate(x)]
        k = [rotate(key @ v, t, config.rope_theta) for t, v in enumerate(x)]
        for i in range(len(x)):
            for j in range(i + 1):
                if document is None or document[row][i] == document[row][j]:
                    best = max(best, float(q[i] @ k[j]) / math.sqrt(width))
    return best


def config_of(make_config, num_kv_heads, **more):
    more.setdefault("optimizer__qk_clip", 1.0)
    return make_config(
        model__qk_norm=False, model__num_heads=4, model__num_kv_heads=num_kv_heads, **more
    )


@pytest.mark.parametrize("num_kv_heads", [4, 2])
def test_watched_logits_are_those_of_every_pair_of_positions(make_config, num_kv_heads):
    module = large_heads(module_of(config_of(make_config, num_kv_heads)), [1])
    batch = random_batch(sequences=2, seq_len=10)
    module.qk_clip.begin()
    for rows in (slice(0, 1), slice(1, 2)):
        module.model.hidden(batch["tokens"][rows, :-1])
    wanted = [
        [largest_by_hand(module.model.eval(), batch["tokens"][:, :-1], layer, head)
         for head in range(4)]
        for layer in range(2)
    ]  # fmt: skip
    seen = torch.stack([layer.attention.watch.largest_H for layer in module.model.layers])
    assert torch.allclose(seen, torch.tensor(wanted), rtol=1e-4, atol=1e-6)
    assert module.qk_clip.max_logit() == pytest.approx(max(map(max, wanted)), rel=1e-4)


def test_logits_across_documents_are_not_watched(make_config):
    module = large_heads(module_of(config_of(make_config, 2)), [0])
    tokens = random_batch(sequences=1, seq_len=8)["tokens"][:, :-1]
    document = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2]])
    module.model.hidden(tokens, None, document)
    # The first layer's inputs are the embeddings, which no mask changes.
    wanted = largest_by_hand(module.model.eval(), tokens, 0, 0, document.tolist())
    seen = module.model.layers[0].attention.watch.largest_H[0]
    assert float(seen) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_only_heads_above_tau_change_and_then_their_logits_are_at_tau(make_config, num_kv_heads):
    """Learning rate so small that the step itself moves nothing."""
    config = config_of(
        make_config, num_kv_heads, optimizer__lr=1e-30, optimizer__weight_decay=0.0, steps=1
    )
    module = large_heads(module_of(config), [2])
    before = weights(module)
    batch = random_batch()
    tokens = batch["tokens"][:, :-1]
    run(module, batch)
    assert module.measures.max_logit > 1.0
    assert module.qk_clip.num_scaled == 2, "one head in each of two layers"
    after = weights(module)
    assert largest_by_hand(module.model.eval(), tokens, 0, 2) == pytest.approx(1.0, rel=1e-3)
    width = config.model.d_model // 4
    group = 4 // num_kv_heads
    for name, now in after.items():
        if not name.endswith(("attention.query", "attention.key")):
            assert torch.equal(now, before[name]), name
            continue
        is_key = name.endswith("key")
        for head in range(len(now) // width):
            part = slice(head * width, (head + 1) * width)
            guilty = head == 2 if not is_key else (group == 1 and head == 2)
            assert torch.equal(now[part], before[name][part]) != guilty, (name, head)
    if group == 1:
        query, key = "layers.0.attention.query", "layers.0.attention.key"
        part = slice(2 * width, 3 * width)
        ratio = [float((after[n][part] / before[n][part]).mean()) for n in (query, key)]
        assert ratio[0] == pytest.approx(ratio[1], rel=1e-5), "the square root of γ each"


def test_factor_is_tau_over_the_largest_logit_and_never_above_one():
    largest = torch.tensor([50.0, 100.0, 200.0, -3.0, 0.0, math.inf, math.nan])
    assert factors_of(largest, 100.0).tolist() == [1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_run_with_qk_clip_off_and_far_above_is_the_same(make_config, corpus, tmp_path, name):
    """A threshold that is never reached changes no bit; a low one acts and is told."""
    model = {"model__qk_norm": False, "optimizer__name": name, "steps": 4}
    off = train(make_config(**model), corpus, tmp_path / "off")
    high = train(make_config(**model, optimizer__qk_clip=1e6), corpus, tmp_path / "high")
    low = train(make_config(**model, optimizer__qk_clip=1e-3), corpus, tmp_path / "low")
    assert high.final == off.final
    assert (off.updates.max_logit, off.updates.heads_scaled) == (None, 0)
    assert high.updates.max_logit > 0
    assert high.updates.heads_scaled == 0
    assert low.updates.heads_scaled > 0
    assert low.final != off.final


def test_step_that_is_skipped_scales_nothing(make_config):
    config = config_of(make_config, 4, optimizer__qk_clip=1e-6, optimizer__nonfinite="skip")
    module = large_heads(module_of(config), [0])
    accumulate = module._accumulate

    def spoil(*arguments, **more):
        means = accumulate(*arguments, **more)
        module.model.embedding.grad[0, 0] = math.inf
        return means

    module._accumulate = spoil
    before = weights(module)
    run(module, random_batch())
    assert module.measures.skipped
    assert all(torch.equal(now, before[name]) for name, now in weights(module).items())


def test_qk_clip_with_qk_norm_is_refused(make_config):
    with pytest.raises(ValidationError, match=r"qk_clip 100 cannot act with model\.qk_norm"):
        make_config(optimizer__qk_clip=100.0)


LATENT = {
    "kind": "mla",
    "q_lora_rank": 12,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
}


def latent_logits_by_hand(model, tokens, layer):
    """The largest causal logit of each head of a latent attention, head and position one by one."""
    seen = {}
    handle = model.layers[layer].attention_norm.register_forward_hook(
        lambda *given: seen.update(x=given[-1].detach())
    )
    model.hidden(tokens)
    handle.remove()
    attention, theta = model.layers[layer].attention, model.config.rope_theta
    nope, rope = LATENT["qk_nope_head_dim"], LATENT["qk_rope_head_dim"]
    best = [-math.inf] * attention.num_heads
    for x in seen["x"]:
        compressed = [rms_norm(attention.query_down @ v, attention.query_norm.weight) for v in x]
        both = [attention.key_value_down @ v for v in x]
        latent = [rms_norm(v[:8], attention.key_value_norm.weight) for v in both]
        shared = [rotate(v[8:], t, theta) for t, v in enumerate(both)]
        for head in range(attention.num_heads):
            rows = attention.query[head * (nope + rope) : (head + 1) * (nope + rope)]
            up = attention.key_up[head * nope : (head + 1) * nope]
            q = [rows @ v for v in compressed]
            for i in range(len(x)):
                for j in range(i + 1):
                    content = q[i][:nope] @ (up @ latent[j])
                    place = rotate(q[i][nope:], i, theta) @ shared[j]
                    best[head] = max(best[head], float(content + place) / math.sqrt(nope + rope))
    return best


@torch.no_grad()
def test_latent_attention_is_watched_and_only_the_guilty_head_is_scaled(make_config):
    """Kimi K2: content parts by √γ each, the head's rotary query by γ, no shared key."""
    config = config_of(make_config, 4, model__attention=LATENT, optimizer__qk_clip=0.5)
    module = module_of(config)
    for layer in module.model.layers:
        layer.attention.query *= 5.0
        layer.attention.query[10:20] *= 1e4
    tokens = random_batch(sequences=2, seq_len=8)["tokens"][:, :-1]
    module.model.hidden(tokens)
    for index, layer in enumerate(module.model.layers):
        wanted = torch.tensor(latent_logits_by_hand(module.model.eval(), tokens, index))
        assert torch.allclose(layer.attention.watch.largest_H, wanted, rtol=1e-3, atol=1e-6)
    before = weights(module)
    first = latent_logits_by_hand(module.model, tokens, 0)
    assert [logit > 0.5 for logit in first] == [False, True, False, False]
    module.qk_clip.scale()
    assert module.qk_clip.num_scaled == 2
    assert latent_logits_by_hand(module.model, tokens, 0)[1] == pytest.approx(0.5, rel=1e-3)
    gamma = 0.5 / first[1]
    after = weights(module)
    for name, now in after.items():
        if not name.endswith(("attention.query", "attention.key_up")):
            assert torch.equal(now, before[name]), name
            continue
        width = 10 if name.endswith("query") else 6
        others = torch.ones(len(now), dtype=torch.bool)
        others[width : 2 * width] = False
        assert torch.equal(now[others], before[name][others]), name
    query, up = "layers.0.attention.query", "layers.0.attention.key_up"
    for name, part, factor in (
        (query, slice(10, 16), math.sqrt(gamma)),
        (query, slice(16, 20), gamma),
        (up, slice(6, 12), math.sqrt(gamma)),
    ):
        assert torch.allclose(after[name][part], before[name][part] * factor, rtol=1e-3), name


@pytest.mark.parametrize("policy", ["full", "qkv", "qkv_softmax", "selective"])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_recomputation_trains_watched_heads_to_the_bit(make_config, policy, micro_batches):
    """E11: the logits of the first pass are watched by the same operators as when it is redone."""
    both = [
        config_of(make_config, 2, recompute=each, batch__micro_batches=micro_batches)
        for each in ("none", policy)
    ]
    plain, recomputed = (
        run(large_heads(module_of(config), [1]), random_batch()) for config in both
    )
    assert plain.qk_clip.num_scaled > 0
    assert recomputed.qk_clip.largest == plain.qk_clip.largest
    assert_equal(weights(recomputed), weights(plain))
