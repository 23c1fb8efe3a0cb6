"""Hard and soft inference of a model trained with Gumbel noise, against plain products."""

import numpy as np
import pytest
import torch

from workbench.data.windows import evaluation_windows
from workbench.errors import ConflictError
from workbench.moe.model import MoEDecoder, initialise
from workbench.training.evaluate import evaluate
from workbench.training.inference_gap import GAP_METRIC, inference_gap, validation_values


def build(make_config, **routing):
    model = MoEDecoder(make_config(model__routing=routing, model__init_std=0.3).model)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def some_windows():
    tokens = np.random.default_rng(0).integers(0, 300, 75).astype(np.uint16)
    sizes = np.full(300, 2, dtype=np.int64)
    return {"code": evaluation_windows(tokens, sizes, seq_len=16, max_bytes=None)}


def test_gap_is_the_difference_of_both_inferences(make_config):
    model, windows = build(make_config, kind="gumbel"), some_windows()
    found = inference_gap(model, windows)
    hard = evaluate(build(make_config, kind="gumbel", inference="hard"), windows)
    soft = evaluate(build(make_config, kind="gumbel", inference="soft"), windows)
    assert (found.hard, found.soft) == (hard, soft)
    assert found.gap == hard["bpb_macro"] - soft["bpb_macro"]
    assert abs(found.gap) > 1e-4
    assert [router.inference for router in model.routers()] == ["hard", "hard"]


@pytest.mark.parametrize("inference", ["hard", "soft"])
def test_evaluation_is_of_the_run_s_own_inference_and_tells_the_gap(make_config, inference):
    model, windows = build(make_config, kind="gumbel", inference=inference), some_windows()
    values = validation_values(model, windows)
    assert values.pop(GAP_METRIC) == inference_gap(model, windows).gap
    assert values == evaluate(model, windows)


def test_evaluation_of_other_routing_has_no_gap(make_config):
    model, windows = build(make_config), some_windows()
    assert validation_values(model, windows) == evaluate(model, windows)


@pytest.mark.parametrize("inference", ["hard", "soft"])
def test_inference_mixes_as_a_slow_reference_does(make_config, inference):
    layer = build(make_config, kind="gumbel", inference=inference).layers[0]
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = layer.experts(x, layer.router(x))
        for row, token in zip(found, x, strict=True):
            logits = layer.router.weight @ token
            order = sorted(range(4), key=lambda e: -float(logits[e]))
            weight = dict.fromkeys(order[:2], 0.5)
            if inference == "soft":
                weight = dict(enumerate(torch.softmax(logits, 0).tolist()))
            expected = torch.zeros(16)
            for e, share in weight.items():
                up = layer.experts.up[e] @ token
                hidden = torch.nn.functional.silu(layer.experts.gate[e] @ token) * up
                expected += share * (layer.experts.down[e] @ hidden)
            torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-5)


def test_routing_with_one_inference_is_refused(make_config):
    with pytest.raises(ConflictError, match="kind token_choice has one inference only"):
        inference_gap(build(make_config), some_windows())
