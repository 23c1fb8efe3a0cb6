"""Muon against numpy, torch's own and the singular value decomposition; and resumed runs."""

import io
import math

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.test_fit import Killed, Listener, die, train
from workbench.moe.model import MoEDecoder, initialise
from workbench.training.checkpoints import read_checkpoint
from workbench.training.config import OptimizerConfig
from workbench.training.muon import Muon, orthogonalised
from workbench.training.optimizers import build_optimizer, num_updates, restored_faults

CONFIG = OptimizerConfig(name="muon", lr=0.02, weight_decay=0.1, clip_norm=1.0)


def newton_schulz(matrix: np.ndarray) -> np.ndarray:
    """Five quintic iterations in float64, one matrix a time, always on the wide side."""
    x = matrix / np.sqrt((matrix**2).sum())
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x - 4.7750 * (a @ x) + 2.0315 * (a @ a @ x)
    return x.T if tall else x


SHAPES = [(8, 8), (24, 6), (6, 24)]


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalised_is_newton_schulz_to_rounding(shape):
    matrix = np.random.default_rng(0).normal(size=shape)
    ours = orthogonalised(torch.from_numpy(matrix)).numpy()
    assert np.allclose(ours, newton_schulz(matrix), rtol=1e-12, atol=1e-13)
    single = orthogonalised(torch.from_numpy(matrix).float()).numpy()
    assert np.allclose(single, newton_schulz(matrix), atol=2e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_orthogonalised_is_near_the_polar_factor_at_any_scale(shape, scale):
    """Against U·Vᵀ of the SVD: the same singular vectors, singular values 0.65 to 1.25."""
    u, _, v = np.linalg.svd(np.random.default_rng(1).normal(size=shape), full_matrices=False)
    singular = np.linspace(0.2, 1.0, min(shape))
    ours = orthogonalised(torch.from_numpy(scale * (u * singular) @ v)).numpy()
    inner = u.T @ ours @ v.T
    assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-10
    assert np.diag(inner).min() > 0.65
    assert np.diag(inner).max() < 1.25
    assert np.linalg.norm(ours - u @ v) / np.linalg.norm(u @ v) < 0.3


def test_stacked_experts_are_orthogonalised_one_by_one():
    stack = np.random.default_rng(2).normal(size=(3, 10, 4)) * np.array([1, 100, 0])[:, None, None]
    ours = orthogonalised(torch.from_numpy(stack)).numpy()
    assert np.allclose(ours[0], newton_schulz(stack[0]), atol=1e-12)
    assert np.allclose(ours[1], newton_schulz(stack[1]), atol=1e-12)
    assert not ours[2].any(), "an expert without a gradient has no update"


def test_steps_are_those_of_a_plain_reference():
    """Momentum, Nesterov, decoupled decay and the factor on the rate, several steps in float64."""
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(2, 4, 12))
    parameter = nn.Parameter(torch.from_numpy(weight.copy()))
    optimizer = Muon(
        [parameter], [], lr=0.01, momentum=0.9, weight_decay=0.5, betas=(0.9, 0.95), eps=1e-8
    )
    momentum = np.zeros_like(weight)
    for step in range(1, 6):
        gradient = rng.normal(size=weight.shape)
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        momentum = 0.9 * momentum + gradient
        for expert in range(2):
            update = newton_schulz(gradient[expert] + 0.9 * momentum[expert])
            weight[expert] -= 0.01 * 0.5 * weight[expert]
            weight[expert] -= 0.01 * 0.2 * math.sqrt(12) * update
        assert np.allclose(parameter.detach().numpy(), weight, atol=1e-12)
        assert num_updates(optimizer) == step


def test_steps_are_those_of_torchs_own_but_for_its_rounding():
    weight = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    ours, theirs = nn.Parameter(weight.clone()), nn.Parameter(weight.clone())
    mine = Muon([ours], [], lr=0.02, momentum=0.95, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)
    other = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(3):
        generator = torch.Generator().manual_seed(step + 1)
        ours.grad = torch.randn(16, 8, generator=generator)
        theirs.grad = ours.grad.clone()
        mine.step()
        other.step()
    moved = (ours - weight).norm()
    assert (ours - theirs).norm() / moved < 0.02


@pytest.fixture
def model(make_config):
    model = MoEDecoder(make_config(model__tie_embeddings=False, model__num_shared_experts=1).model)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def backward(model, seed):
    tokens = torch.randint(0, 300, (2, 9), generator=torch.Generator().manual_seed(seed))
    model.zero_grad(set_to_none=True)
    logits = model(tokens[:, :-1]).logits_BTV
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()


def test_hidden_matrices_are_muons_and_the_rest_is_adamws(model):
    optimizer = build_optimizer(model, CONFIG)
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(group_of) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        group = group_of[id(parameter)]
        hidden = parameter.dim() >= 2 and (".attention." in name or "experts." in name)
        assert group["rule"] == ("muon" if hidden else "adamw"), name
        decays = "norm" not in name and name != "embedding"
        assert group["weight_decay"] == (0.1 if decays else 0.0), name


def test_adamws_part_moves_as_torchs_adamw_does(model):
    """Bit for bit: embeddings, norms, router and head."""
    twin = MoEDecoder(model.config)
    twin.load_state_dict(model.state_dict())
    optimizer = build_optimizer(model, CONFIG)
    plain = build_optimizer(twin, CONFIG.model_copy(update={"name": "adamw"}))
    muons = {id(p) for p in optimizer.param_groups[0]["params"]}
    compared = 0
    for seed in range(3):
        backward(model, seed)
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            theirs.grad = ours.grad.clone()
        optimizer.step()
        plain.step()
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            if id(ours) not in muons:
                assert torch.equal(ours, theirs)
                compared += 1
    assert compared > 10


def test_autocast_around_the_step_rounds_nothing(model):
    twin = MoEDecoder(model.config)
    twin.load_state_dict(model.state_dict())
    for each, enabled in ((model, False), (twin, True)):
        backward(each, 0)
        optimizer = build_optimizer(each, CONFIG)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            optimizer.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_state_goes_through_a_file_to_the_last_bit(model):
    """A13 A15: saved, loaded and stepped on it is the optimizer that was not."""
    optimizer = build_optimizer(model, CONFIG)
    for seed in range(3):
        backward(model, seed)
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    twin = MoEDecoder(model.config)
    twin.load_state_dict(saved["model"])
    restored = build_optimizer(twin, CONFIG)
    restored.load_state_dict(saved["optimizer"])
    assert restored_faults(restored, CONFIG, 3) == []
    for each, by in ((model, optimizer), (twin, restored)):
        backward(each, 9)
        by.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_step_count_and_hyper_parameters_that_were_not_restored_are_found(model):
    """A13 A15 for Muon."""
    optimizer = build_optimizer(model, CONFIG)
    backward(model, 0)
    optimizer.step()
    other = CONFIG.model_copy(update={"momentum": 0.9, "betas": (0.8, 0.95), "weight_decay": 0.2})
    faults = restored_faults(optimizer, other, 1)
    assert "momentum is 0.95, the configuration says 0.9" in faults
    assert "betas is (0.9, 0.95), the configuration says (0.8, 0.95)" in faults
    assert "weight_decay is 0.1, the configuration says 0.2" in faults
    for state in optimizer.state.values():
        state["step"].zero_()
    assert restored_faults(optimizer, CONFIG, 1) == ["the step count is 0, saved was 1"]


def test_resumed_run_is_the_uninterrupted_one(make_config, corpus, tmp_path):
    """A10 for Muon: learning rates, losses and the saved state."""
    config = make_config(optimizer__name="muon")
    whole, parts = Listener(), Listener()
    uninterrupted = train(config, corpus, tmp_path / "whole", whole)
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "parts", Listener(at=9, act=die))
    resumed = train(config, corpus, tmp_path / "parts", parts)
    assert resumed.from_step == 8
    told = [[(row.step, row.lr, row.loss, row.grad_norm) for row in x.rows] for x in (parts, whole)]
    assert told[0] == told[1][8:]
    states = [
        read_checkpoint(result.checkpoint.path, result.checkpoint.sha256)
        for result in (resumed, uninterrupted)
    ]
    optimizers = [state["optimizer_states"][0]["state"] for state in states]
    for one, other in zip(*(each.values() for each in optimizers), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert whole.rows[-1].loss < whole.rows[0].loss
