"""Which parameters decay, and what a restored optimizer must have."""

import pytest
import torch

from workbench.moe.model import MoEDecoder, initialise
from workbench.training.config import OptimizerConfig
from workbench.training.optimizers import (
    build_optimizer,
    freeze,
    num_updates,
    restored_faults,
    set_learning_rate,
)

CONFIG = OptimizerConfig(lr=0.1, weight_decay=0.5, clip_norm=1.0)


@pytest.fixture
def model(make_config):
    model = MoEDecoder(make_config(model__tie_embeddings=False).model)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def stepped(model, times):
    optimizer = build_optimizer(model, CONFIG)
    for _ in range(times):
        model(torch.zeros(1, 4, dtype=torch.int64)).logits_BTV.sum().backward()
        optimizer.step()
    return optimizer


def test_embeddings_norms_and_vectors_do_not_decay(model):
    optimizer = build_optimizer(model, CONFIG)
    decay = {
        id(parameter): group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert len(decay) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        plain = name == "embedding" or "norm" in name
        assert decay[id(parameter)] == (0.0 if plain else 0.5), name


def test_step_count_that_was_not_restored_is_found(model):
    """A13: a restored count of 0 would restart the bias correction."""
    optimizer = stepped(model, 3)
    assert num_updates(optimizer) == 3
    assert restored_faults(optimizer, CONFIG, 3) == []
    for state in optimizer.state.values():
        state["step"].zero_()
    assert restored_faults(optimizer, CONFIG, 3) == ["the step count is 0, saved was 3"]
    assert num_updates(build_optimizer(model, CONFIG)) == 0


def test_hyper_parameters_that_came_back_old_are_found(model):
    """A15: loading a state replaces the new betas by the old ones; both are shown."""
    old = stepped(model, 1)
    config = CONFIG.model_copy(update={"betas": (0.8, 0.95), "weight_decay": 0.1})
    new = build_optimizer(model, config)
    new.load_state_dict(old.state_dict())
    faults = restored_faults(new, config, 1)
    assert "betas is (0.9, 0.95), the configuration says (0.8, 0.95)" in faults
    assert "weight_decay is 0.5, the configuration says 0.1" in faults


def test_learning_rate_is_set_in_every_group(model):
    optimizer = build_optimizer(model, CONFIG)
    set_learning_rate(optimizer, 0.025)
    assert {group["lr"] for group in optimizer.param_groups} == {0.025}


def test_freeze_covers_the_named_parts_and_thaws(model):
    freeze(model, ["router"])
    assert {n for n, p in model.named_parameters() if not p.requires_grad} == {
        "layers.0.router.weight",
        "layers.1.router.weight",
    }
    freeze(model, ["all"])
    assert not any(p.requires_grad for p in model.parameters())
    freeze(model, [])
    assert all(p.requires_grad for p in model.parameters())
