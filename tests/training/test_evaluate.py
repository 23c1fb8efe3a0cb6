"""Bits per byte against an obvious reference."""

import math

import numpy as np
import pytest
import torch

from workbench.data.windows import evaluation_windows
from workbench.errors import IntegrityError, NotFoundError
from workbench.moe.model import MoEDecoder, initialise
from workbench.training.checkpoints import checkpoint_path, write_checkpoint
from workbench.training.evaluate import (
    evaluate,
    evaluate_tokens,
    load_weights,
    validation_windows,
)

TOKEN_BYTES = np.array([0, *([2] * 299)], dtype=np.int64)


@pytest.fixture
def model(make_config):
    model = MoEDecoder(make_config().model)
    initialise(model, torch.Generator().manual_seed(0))
    return model


@torch.no_grad()
def slow_bits_per_byte(model, tokens, seq_len):
    """One window at a time, one target at a time."""
    nats, num_bytes = 0.0, 0
    context = [0, *tokens[:-1]]
    for begin in range(0, len(tokens), seq_len):
        inputs = torch.tensor([context[begin : begin + seq_len]])
        log_probs = torch.log_softmax(model(inputs).logits_BTV[0].double(), -1)
        for place, target in enumerate(tokens[begin : begin + seq_len]):
            if TOKEN_BYTES[target]:
                nats -= float(log_probs[place, target])
                num_bytes += int(TOKEN_BYTES[target])
    return nats / math.log(2) / num_bytes


def test_bits_per_byte_equal_a_slow_reference(model):
    tokens = np.random.default_rng(0).integers(0, 300, 75).astype(np.uint16)
    values = evaluate_tokens(
        model, {"code": tokens, "docs": tokens[:20]}, TOKEN_BYTES, seq_len=16, max_bytes=None
    )
    assert values["bpb_code"] == pytest.approx(
        slow_bits_per_byte(model, tokens.tolist(), 16), rel=1e-5
    )
    assert values["bpb_docs"] == pytest.approx(
        slow_bits_per_byte(model, tokens[:20].tolist(), 16), rel=1e-5
    )
    assert values["bpb_macro"] == pytest.approx((values["bpb_code"] + values["bpb_docs"]) / 2)
    assert list(values) == ["bpb_macro", "bpb_code", "bpb_docs"]


def test_untrained_model_needs_the_entropy_of_its_vocabulary(model):
    tokens = np.random.default_rng(1).integers(1, 300, 500).astype(np.uint16)
    values = evaluate_tokens(model, {"code": tokens}, TOKEN_BYTES, seq_len=16, max_bytes=600)
    assert values["bpb_code"] == pytest.approx(math.log2(300) / 2, rel=0.02)


def test_evaluation_changes_neither_the_model_nor_its_mode(model, corpus, make_config):
    windows = validation_windows(corpus, make_config())
    before = {name: p.clone() for name, p in model.named_parameters()}
    for mode in (True, False):
        model.train(mode)
        assert evaluate(model, windows) == evaluate(model, windows)
        assert model.training is mode
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())


def test_weights_that_are_not_finite_give_nan_and_never_a_number(model):
    with torch.no_grad():
        model.embedding.fill_(float("nan"))
    tokens = np.arange(1, 40).astype(np.uint16)
    values = evaluate_tokens(model, {"code": tokens}, TOKEN_BYTES, seq_len=16, max_bytes=None)
    assert math.isnan(values["bpb_code"])
    assert math.isnan(values["bpb_macro"])


def test_validation_windows_hold_at_most_the_configured_bytes(corpus, make_config):
    windows = validation_windows(corpus, make_config(evaluation__bytes_per_domain=100))
    assert set(windows) == {"code", "docs"}
    for part in windows.values():
        assert 80 < part.total_bytes <= 100


def test_weights_of_another_model_are_refused(model, make_config, tmp_path):
    state = {"state_dict": {f"model.{k}": v for k, v in model.state_dict().items()}}
    saved = write_checkpoint(state, checkpoint_path(tmp_path, 1))
    loaded = load_weights(make_config(), saved.path, saved.sha256)
    windows = {
        "code": evaluation_windows(np.arange(1, 40), TOKEN_BYTES, seq_len=16, max_bytes=None)
    }
    assert evaluate(loaded, windows) == evaluate(model, windows)
    with pytest.raises(IntegrityError, match="another model"):
        load_weights(make_config(model__d_expert=8), saved.path, saved.sha256)
    with pytest.raises(IntegrityError, match="expected was"):
        load_weights(make_config(), saved.path, "0" * 64)
    with pytest.raises(NotFoundError):
        load_weights(make_config(), tmp_path / "nothing.ckpt", saved.sha256)
