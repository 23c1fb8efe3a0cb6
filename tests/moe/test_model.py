"""The decoder against its slow reference, exact repeats, padding, parts of the model."""

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from tests.moe import reference
from workbench.moe.config import ModelConfig
from workbench.moe.documents import Documents
from workbench.moe.loss import summed_nats
from workbench.moe.model import MoEDecoder, initialise, part_of

SMALL = {
    "vocab_size": 300,
    "d_model": 32,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "num_experts": 4,
    "top_k": 2,
    "d_expert": 24,
    "max_seq_len": 16,
    "init_std": 0.2,
}
LATENT = {
    "attention": {
        "kind": "mla",
        "q_lora_rank": 20,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "v_head_dim": 7,
    },
    "num_kv_heads": 4,
    "qk_norm": False,
}
WHOLE_QUERIES = {**LATENT, "attention": {**LATENT["attention"], "q_lora_rank": 0}}
VARIANTS = [
    {},
    {"norm_placement": "reordered", "num_shared_experts": 2},
    {"tie_embeddings": False, "qk_norm": False, "num_kv_heads": 4, "rope_theta": 500.0},
    LATENT,
    {**WHOLE_QUERIES, "norm_placement": "reordered", "d_model": 31},
    {"top_k": 1, "d_expert": 21, "num_shared_experts": 1, "num_kv_heads": 1},
    {"num_experts": 1, "top_k": 1, "num_layers": 1},
    {"top_k": 4},
]


def build(seed: int = 0, **changes: object) -> MoEDecoder:
    model = MoEDecoder(ModelConfig.model_validate(SMALL | changes))
    initialise(model, torch.Generator().manual_seed(seed))
    return model


def some_tokens(seed: int = 0, batch: int = 3, length: int = 16) -> torch.Tensor:
    return torch.randint(0, 300, (batch, length), generator=torch.Generator().manual_seed(seed))


def gradients(model: MoEDecoder, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    hidden = model.hidden(tokens[:, :-1]).hidden_BTD.flatten(0, 1)
    summed_nats(hidden, model.output_embedding, tokens[:, 1:].flatten()).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("changes", VARIANTS)
def test_logits_any_variant_equal_the_slow_reference(changes):
    model, tokens = build(**changes), some_tokens(batch=2, length=5)
    expected = torch.stack([reference.logits(model, row) for row in tokens])
    torch.testing.assert_close(model(tokens).logits_BTV, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("changes", VARIANTS[:6])
def test_gradients_any_variant_equal_the_slow_reference(changes):
    model, tokens = build(**changes), some_tokens(batch=1, length=5)
    found = gradients(model, tokens)
    model.zero_grad()
    log_probs = torch.log_softmax(reference.logits(model, tokens[0, :-1]), dim=-1)
    (-log_probs[torch.arange(4), tokens[0, 1:]].sum()).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-4, msg=name)


def test_gradients_repeated_are_equal_to_the_bit():
    tokens = some_tokens(batch=8)
    first, second = gradients(build(), tokens), gradients(build(), tokens)
    assert all(torch.equal(first[name], second[name]) for name in first)


DIGEST = """
import hashlib, torch
from tests.moe.test_model import build, gradients, some_tokens
digest = hashlib.sha256()
for name, grad in gradients(build(), some_tokens(batch=8)).items():
    digest.update(grad.numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_gradients_in_another_process_are_equal_to_the_bit():
    command = [sys.executable, "-c", DIGEST]
    root = Path(__file__).parents[2]
    runs = [subprocess.check_output(command, cwd=root) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(runs[0].strip()) == 64


def test_forward_padding_behind_changes_no_real_logit():
    model, tokens = build(), some_tokens()
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 5:] = False
    padded = tokens.masked_fill(~mask, 0)
    whole, masked = model(tokens), model(padded, mask)
    torch.testing.assert_close(masked.logits_BTV[mask], whole.logits_BTV[mask])
    assert torch.equal(masked.routing[0].mask_N, mask.flatten())


PACKED = [3, 1, 7, 5]
"""Tokens of the documents of one row."""


def segments_of(lengths: list[int], rows: int) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).repeat(
        rows, 1
    )


@pytest.mark.parametrize("changes", VARIANTS)
def test_logits_of_packed_documents_are_those_of_the_documents_alone(changes):
    model, tokens = build(**changes), some_tokens()
    packed = model(tokens, None, segments_of(PACKED, 3)).logits_BTV
    alone = torch.cat([model(part).logits_BTV for part in tokens.split(PACKED, dim=1)], dim=1)
    torch.testing.assert_close(packed, alone, rtol=1e-5, atol=1e-5)
    joined = model(tokens).logits_BTV
    assert not torch.allclose(joined[:, 3:], alone[:, 3:], atol=1e-3)


def test_gradient_does_not_cross_from_one_document_into_another():
    model, tokens = build(), some_tokens()
    inner = model.embedding[tokens].detach().requires_grad_()
    documents = Documents(segments_of(PACKED, 3))
    hidden, _ = model.layers[0](inner, model.rotation, None, documents)
    hidden[:, 4:11].square().sum().backward()
    reached = inner.grad.abs().sum(-1) > 0
    assert not reached[:, :4].any()
    assert not reached[:, 11:].any()
    assert reached[:, 4:11].all()


def test_one_segment_a_row_is_the_plain_decoder():
    model, tokens = build(), some_tokens()
    segments = torch.zeros_like(tokens)
    torch.testing.assert_close(
        model(tokens, None, segments).logits_BTV, model(tokens).logits_BTV, rtol=1e-5, atol=1e-5
    )


def test_forward_later_token_never_reaches_an_earlier_position():
    model, tokens = build(), some_tokens()
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 300
    before, after = model(tokens).logits_BTV, model(changed).logits_BTV
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert not torch.allclose(before[:, 9], after[:, 9])


def test_forward_bf16_autocast_routes_in_fp32():
    """E11: routing never happens in bf16, the logits do."""
    model = build()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(some_tokens())
    assert output.logits_BTV.dtype == torch.bfloat16
    for layer in output.routing:
        assert (layer.logits_NE.dtype, layer.probs_NE.dtype) == (torch.float32, torch.float32)
        assert layer.weights_NK.dtype == torch.float32
    reference_logits = model(some_tokens()).logits_BTV
    torch.testing.assert_close(output.logits_BTV.float(), reference_logits, rtol=0.1, atol=0.3)


@pytest.mark.parametrize("changes", [{}, LATENT])
def test_forward_bf16_autocast_gives_fp32_gradients_near_those_of_fp32(changes):
    model, tokens = build(**changes, init_std=0.05), some_tokens()
    exact = gradients(model, tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = gradients(model, tokens)
    for name in exact:
        assert rounded[name].dtype == torch.float32
        error = (rounded[name] - exact[name]).norm() / exact[name].norm()
        assert error < 0.15, (name, error)


def test_initialise_same_seed_same_bits_and_other_seed_other():
    first, again, other = build(3), build(3), build(4)
    for (name, a), b, c in zip(
        first.named_parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        assert part_of(name) == "norm" or not torch.equal(a, c)


def test_initialise_draws_nothing_from_the_global_generator():
    state = torch.get_rng_state()
    build()
    assert torch.equal(state, torch.get_rng_state())


def test_initialise_pre_norm_scales_what_writes_to_the_residual():
    model = build(d_model=128, num_layers=8, init_std=0.02)
    spread = {name: p.std().item() for name, p in model.named_parameters()}
    assert spread["layers.3.experts.gate"] == pytest.approx(0.02, rel=0.05)
    for name in ("attention.output", "experts.down"):
        assert spread[f"layers.3.{name}"] == pytest.approx(0.02 / 4, rel=0.05)
    assert spread["layers.3.attention_norm.weight"] == 0


@pytest.mark.parametrize("placement", ["pre", "reordered"])
def test_gradient_descent_on_one_batch_lowers_the_loss(placement):
    model, tokens = build(norm_placement=placement, init_std=0.1), some_tokens()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        for name, grad in gradients(model, tokens).items():
            model.get_parameter(name).grad = grad
        optimizer.step()
        hidden = model.hidden(tokens[:, :-1]).hidden_BTD.flatten(0, 1)
        total = summed_nats(hidden, model.output_embedding, tokens[:, 1:].flatten())
        losses.append(total.item() / 45)
    assert losses[-1] < 0.8 * losses[0]
    assert math.isfinite(losses[-1])


def test_part_of_every_parameter_belongs_to_one_part():
    model = build(num_shared_experts=1, tie_embeddings=False)
    parts = Counter(part_of(name) for name, _ in model.named_parameters())
    assert parts == {
        "embeddings": 1,
        "head": 1,
        "norm": 9,
        "attention": 8,
        "router": 2,
        "experts": 12,
    }


def test_part_of_every_parameter_of_latent_attention_is_known():
    parts = Counter(part_of(name) for name, _ in build(**LATENT).named_parameters())
    assert (parts["attention"], parts["norm"]) == (2 * 6, 2 * 4 + 1)


def test_latent_attention_from_its_cache_is_latent_attention_from_the_tokens():
    """All that a token leaves behind is the compressed vector and one rotary key."""
    model, tokens = build(**LATENT), some_tokens(batch=1)
    attention, config = model.layers[0].attention, model.config.attention
    x_TD = functional.embedding(tokens, model.embedding)[0]
    down = x_TD @ attention.key_value_down.T
    cached = torch.cat(
        (
            attention.key_value_norm(down[:, : config.kv_lora_rank]),
            model.rotation(down[None, :, None, config.kv_lora_rank :])[0, :, 0],
        ),
        dim=1,
    )
    assert cached.shape == (16, 12 + 4)
    last = x_TD[-1] @ attention.query_down.T
    q_HC = (attention.query @ attention.query_norm(last)).view(4, 10)
    # At inference the up-projections of keys move to the query: no key is ever made whole.
    rope = reference.rotate
    heads = []
    for head, q in enumerate(q_HC):
        absorbed = q[:6] @ attention.key_up[head * 6 : head * 6 + 6]
        query = torch.cat((absorbed, rope(q[6:], 15, model.config.rope_theta)))
        weights = torch.softmax(cached @ query / math.sqrt(10), dim=0)
        heads.append(attention.value_up[head * 7 : head * 7 + 7] @ (weights @ cached[:, :12]))
    expected = attention(x_TD[None], model.rotation)[0, -1]
    torch.testing.assert_close(attention.output @ torch.cat(heads), expected, rtol=1e-4, atol=1e-5)


def test_latent_attention_logits_scale_by_head():
    """QK-Clip's case for latent attention: the shared rotary key is not touched."""

    def logits_of(attention, x_BTD):
        q_BTHC = attention._queries(x_BTD, model.rotation)
        latent, rope = (x_BTD @ attention.key_value_down.T).split((12, 4), dim=-1)
        nope = (attention.key_value_norm(latent) @ attention.key_up.T).unflatten(-1, (4, 6))
        rope = model.rotation(rope.unsqueeze(2)).expand(-1, -1, 4, -1)
        return torch.einsum("bthc,bshc->bhts", q_BTHC, torch.cat((nope, rope), dim=-1))

    model, tokens = build(**LATENT), some_tokens()
    attention, x_BTD = model.layers[0].attention, functional.embedding(tokens, model.embedding)
    before, down = logits_of(attention, x_BTD), attention.key_value_down.clone()
    factor = torch.tensor([1.0, 0.25, 0.5, 1.0])
    attention.scale_logits(factor)
    torch.testing.assert_close(logits_of(attention, x_BTD), before * factor.view(1, 4, 1, 1))
    assert torch.equal(attention.key_value_down, down)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"attention": {"kind": "mla"}, "qk_norm": False}, "kind mla lacks kv_lora_rank"),
        ({"attention": {"kv_lora_rank": 4}}, "kv_lora_rank 4 has no meaning with kind gqa"),
        ({**LATENT, "qk_norm": True}, "write qk_norm: false"),
        ({**LATENT, "num_kv_heads": 2}, "write num_kv_heads: 4"),
        (
            {**LATENT, "attention": {**LATENT["attention"], "qk_rope_head_dim": 3}},
            "qk_rope_head_dim 3 is not even",
        ),
    ],
)
def test_attention_that_does_not_fit_is_refused(changes, shown):
    with pytest.raises(ValueError, match=shown):
        ModelConfig.model_validate(SMALL | changes)


def test_grouped_attention_is_written_as_before_there_was_another():
    assert "attention" not in build().config.model_dump(mode="json")
    written = build(**LATENT).config.model_dump(mode="json")
    assert written["attention"] == LATENT["attention"]
    assert "q_lora_rank" not in build(**WHOLE_QUERIES).config.model_dump()["attention"]
    assert ModelConfig.model_validate(written) == build(**LATENT).config


@pytest.mark.parametrize("name", ["", "weight", "layers.0", "bias"])
def test_part_of_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="not a parameter"):
        part_of(name)
