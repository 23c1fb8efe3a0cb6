"""What is shortened by which norm, and what a norm that is not finite does."""

import json
import math

import numpy as np
import pytest
import torch

from tests.training.test_fit import Killed, Listener, die, train
from tests.training.test_module import module_of, random_batch, run, weights
from workbench.moe.model import MoEDecoder, initialise
from workbench.proxies.recipe import LEFT_OUT, value_at
from workbench.training import clipping
from workbench.training import fit as fit_module
from workbench.training.clipping import Clipper
from workbench.training.config import OptimizerConfig


@pytest.fixture
def model(make_config):
    model = MoEDecoder(make_config().model)
    initialise(model, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return model


def settings(**more):
    return OptimizerConfig.model_validate({"lr": 0.1, "weight_decay": 0.0, "clip_norm": 2.0} | more)


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def length(grads):
    return math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads))


def scale(model, factor):
    for parameter in model.parameters():
        parameter.grad *= factor


def test_global_is_torchs_clipping_to_the_last_bit(model):
    before = gradients(model)
    clipped = Clipper(settings()).clip(model)
    ours = gradients(model)
    for name, parameter in model.named_parameters():
        parameter.grad = before[name]
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    assert (clipped.norm, clipped.threshold, clipped.skipped) == (float(norm), 2.0, False)
    assert all(torch.equal(p.grad, ours[name]) for name, p in model.named_parameters())


def test_router_local_clips_routers_by_their_own_norm_and_the_rest_by_theirs(model):
    for name, parameter in model.named_parameters():
        parameter.grad *= 50.0 if "router" in name else 0.01
    before = gradients(model)
    routers = [n for n in before if "router" in n]
    rest = [n for n in before if "router" not in n]
    clipped = Clipper(settings(clip="router_local")).clip(model)
    after = gradients(model)
    assert clipped.norm == pytest.approx(length(before.values()), rel=1e-6)
    assert length(after[n] for n in routers) == pytest.approx(2.0, rel=1e-5)
    assert all(torch.equal(after[n], before[n]) for n in rest), "below their threshold: untouched"
    factor = 2.0 / length(before[n] for n in routers)
    assert all(torch.allclose(after[n], before[n] * factor) for n in routers)


def test_adaptive_threshold_is_one_and_a_half_means_of_the_last_hundred(model):
    """Warm-up: clip_norm until there are 100 norms; then a slow reference, norm by norm."""
    clipper, start = Clipper(settings(clip="adaptive", clip_norm=1e9)), gradients(model)
    sizes = np.random.default_rng(0).uniform(0.5, 2.0, 130)
    seen = []
    for size in sizes:
        for name, parameter in model.named_parameters():
            parameter.grad = start[name] * size
        clipped = clipper.clip(model)
        wanted = 1.5 * math.fsum(seen[-100:]) / 100 if len(seen) >= 100 else 1e9
        assert clipped.threshold == wanted
        assert length(gradients(model).values()) <= wanted * 1.00001
        seen.append(clipped.norm)
    scale(model, 1e6)
    clipped = clipper.clip(model)
    assert length(gradients(model).values()) == pytest.approx(clipped.threshold, rel=1e-5)


def test_adaptive_state_comes_back_equal_to_the_last_bit(model):
    clipper, start = Clipper(settings(clip="adaptive")), gradients(model)
    for step in range(105):
        for name, parameter in model.named_parameters():
            parameter.grad = start[name] * (1 + step / 7)
        clipper.clip(model)
    other = Clipper(settings(clip="adaptive"))
    other.restore(json.loads(json.dumps(clipper.state())))
    assert other.threshold == clipper.threshold
    assert other.state() == clipper.state()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("clip", ["global", "router_local", "adaptive"])
@pytest.mark.parametrize("nonfinite", ["stop", "skip"])
def test_norm_that_is_not_finite_writes_no_gradient(model, bad, clip, nonfinite):
    model.layers[0].router.weight.grad[0, 0] = bad
    before = gradients(model)
    clipper = Clipper(settings(clip=clip, nonfinite=nonfinite))
    clipped = clipper.clip(model)
    assert not math.isfinite(clipped.norm)
    assert clipped.skipped == (nonfinite == "skip")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad.nan_to_num(7.0), before[name].nan_to_num(7.0)), name
    assert clipper.state().get("norms", []) == [], "it does not enter the mean either"


def test_skips_are_counted_and_too_many_in_a_row_are_no_longer_allowed(model):
    clipper = Clipper(settings(nonfinite="skip", max_skips=2))
    good = gradients(model)

    def after(bad):
        for name, parameter in model.named_parameters():
            parameter.grad = good[name].clone() * (math.inf if bad else 1.0)
        return clipper.clip(model).skipped

    told = [after(bad) for bad in (True, True, False, True, True, True)]
    assert told == [True, True, False, True, True, False]
    assert clipper.num_skipped == 4


def spoilt(module, at):
    """Make the gradient of some steps infinite, as an overflow in the backward pass would."""
    accumulate = module._accumulate

    def spoil(*arguments, **more):
        means = accumulate(*arguments, **more)
        if module.done + 1 in at:
            module.model.embedding.grad[0, 0] = math.inf
        return means

    module._accumulate = spoil
    return module


def test_step_with_an_infinite_norm_ends_the_run_unless_it_may_be_skipped(make_config):
    config = make_config(optimizer__nonfinite="skip")
    module = spoilt(module_of(config), {1})
    before = weights(module)
    run(module, random_batch(1))
    assert module.measures.skipped
    assert not module.measures.failure
    assert all(torch.equal(after, before[name]) for name, after in weights(module).items())
    module = spoilt(module_of(make_config()), {1})
    run(module, random_batch(1))
    assert module.measures.failure == "gradient norm is inf at step 1"
    assert all(torch.equal(after, before[name]) for name, after in weights(module).items())


@pytest.fixture
def spoil_steps(monkeypatch):
    def spoil(*steps):
        real = fit_module.PretrainModule
        monkeypatch.setattr(
            fit_module, "PretrainModule", lambda *given: spoilt(real(*given), set(steps))
        )

    return spoil


def test_fit_skips_says_so_and_goes_on(make_config, corpus, tmp_path, spoil_steps):
    spoil_steps(3, 7, 8)
    config = make_config(optimizer__nonfinite="skip")
    result = train(config, corpus, tmp_path / "skip")
    assert (result.outcome, result.updates.skipped) == ("completed", 3)
    found = [(f.signature, f.began_step) for f in result.findings]
    assert found == [("non_finite_gradient", 3), ("non_finite_gradient", 7)]
    result = train(make_config(), corpus, tmp_path / "stop")
    assert (result.outcome, result.last_step) == ("diverged", 3)
    assert result.updates.skipped == 0


def test_resumed_adaptive_clipping_is_the_uninterrupted_one(
    make_config, corpus, tmp_path, monkeypatch
):
    """A10: the window of norms and the count of skips are part of the state."""
    monkeypatch.setattr(clipping, "NORMS_KEPT", 3)
    config = make_config(optimizer__clip="adaptive")
    whole, parts = Listener(), Listener()
    uninterrupted = train(config, corpus, tmp_path / "whole", whole)
    with pytest.raises(Killed):
        train(config, corpus, tmp_path / "parts", Listener(at=9, act=die))
    resumed = train(config, corpus, tmp_path / "parts", parts)
    assert resumed.from_step == 8

    def told(row):
        return row.step, row.clip_threshold, row.grad_norm, row.loss

    assert list(map(told, parts.rows)) == list(map(told, whole.rows[8:]))
    assert len({row.clip_threshold for row in whole.rows}) == 10
    assert resumed.final == uninterrupted.final


def test_fields_that_are_off_are_not_written(make_config):
    written = make_config().model_dump(mode="json")
    assert set(written["optimizer"]) == {
        "name", "lr", "betas", "eps", "weight_decay", "clip_norm",
    }  # fmt: skip
    for key in LEFT_OUT:
        assert value_at(written, key) == LEFT_OUT[key]
    on = make_config(optimizer__clip="adaptive").model_dump(mode="json")
    assert value_at(on, "optimizer.clip") == "adaptive"
