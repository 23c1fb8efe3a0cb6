"""One optimizer step: what it averages over, when it clips and what it leaves alone."""

import dataclasses

import pytest
import torch
from lightning.pytorch import Trainer
from pydantic import ValidationError
from torch import nn

from workbench.moe.model import HiddenOutput, MoEDecoder, initialise
from workbench.moe.router import route
from workbench.training.clipping import Clipper
from workbench.training.fit import quiet_lightning
from workbench.training.module import PretrainModule, RunIdentity


def decoder(config, seed=3):
    model = MoEDecoder(config.model)
    initialise(model, torch.Generator().manual_seed(seed))
    return model


def module_of(config, model=None, kind=PretrainModule):
    identity = RunIdentity(config=config, seed=1, corpus="sha256:0")
    return kind(decoder(config) if model is None else model, identity)


class Batches:
    def __init__(self, batches):
        self._batches = batches

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        return iter(self._batches)


def run(module, *batches, precision="32-true"):
    """Train on the batches as Lightning does."""
    with quiet_lightning():
        Trainer(
            accelerator="cpu",
            precision=precision,
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        ).fit(module, Batches(batches))
    return module


def random_batch(seed=0, sequences=4, seq_len=16, **more):
    generator = torch.Generator().manual_seed(seed)
    return {"tokens": torch.randint(0, 300, (sequences, seq_len + 1), generator=generator), **more}


def weights(module):
    return {name: p.detach().clone() for name, p in module.model.named_parameters()}


class FixedLoss(nn.Module):
    """Gives target 1 a loss of 10 after token 7 and of 0 after any other."""

    def __init__(self):
        super().__init__()
        self.output_embedding = nn.Parameter(torch.full((300, 2), 0.0))
        with torch.no_grad():
            self.output_embedding[:, 0] = -50.0
            self.output_embedding[1, 0] = 0.0
            # After token 7 token 2 takes so much mass that -log p(1) is 10.
            self.output_embedding[2, 1] = 50.0 + torch.log(torch.expm1(torch.tensor(10.0)))

    def hidden(self, tokens, mask=None, segments=None, turn=None):
        hidden = torch.stack([torch.ones(tokens.shape), (tokens == 7).float()], -1)
        routing = route(torch.zeros(tokens.numel(), 4), 2, None if mask is None else mask.flatten())
        return HiddenOutput(hidden_BTD=hidden, routing=(routing,))


def test_loss_is_the_mean_over_tokens_not_over_micro_batches(make_config):
    """F4 A8: micro-batches of 1 and 9 tokens with losses 10 and 0 give 1.0 once, not 5.0."""
    tokens = torch.ones(2, 10, dtype=torch.int64)
    tokens[0, 0] = 7
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 1:] = False
    config = make_config(batch={"sequences": 2, "seq_len": 9, "micro_batches": 2})
    module = module_of(config, FixedLoss())
    means = module._accumulate({"tokens": tokens, "mask": mask}, 0.0, backward=False)
    assert means["loss"] == pytest.approx(1.0, abs=1e-5)
    assert means["aux_loss"] == pytest.approx(1.0, abs=1e-5)


class Kept(PretrainModule):
    """Keeps the measures of every step and the number of its backward passes."""

    def __init__(self, *given):
        super().__init__(*given)
        self.kept, self.backward_passes = [], 0

    def manual_backward(self, objective):
        self.backward_passes += 1
        super().manual_backward(objective)

    def training_step(self, batch, batch_idx):
        super().training_step(batch, batch_idx)
        self.kept.append(self.measures)


def test_sixteen_micro_batches_of_two_steps_are_two_points(make_config):
    """F4 A8: eight accumulated, each point the mean over its own targets, however they spread.

    The first row has one target and the others up to sixteen; the mean of the eight means would be
    another number. The rate is so small that both steps see the same weights.
    """
    config = make_config(
        batch={"sequences": 8, "seq_len": 16, "micro_batches": 8},
        optimizer={"lr": 1e-30, "weight_decay": 0.0, "clip_norm": 1.0},
        steps=2,
    )
    module = module_of(config, kind=Kept)
    lengths = torch.tensor([1, 3, 16, 2, 9, 16, 5, 11])
    mask = torch.arange(16) < lengths[:, None]
    batches = [random_batch(seed, sequences=8, mask=mask) for seed in (1, 2)]
    plain = decoder(config)
    with torch.no_grad():
        nats = [
            torch.nn.functional.cross_entropy(
                plain(batch["tokens"][:, :-1]).logits_BTV.transpose(1, 2),
                batch["tokens"][:, 1:],
                reduction="none",
            )
            for batch in batches
        ]
    run(module, *batches)
    assert [measures.step for measures in module.kept] == [1, 2]
    assert module.backward_passes == 16
    for measures, of_batch in zip(module.kept, nats, strict=True):
        token_weighted = float((of_batch * mask).sum() / mask.sum())
        of_means = float(((of_batch * mask).sum(1) / mask.sum(1)).mean())
        assert measures.loss == pytest.approx(token_weighted, abs=1e-5)
        assert abs(of_means - token_weighted) > 1e-4


def test_gradient_of_unequal_micro_batches_is_the_whole_batchs(make_config):
    """F4: micro-batches of 1 and 9 targets, the gradient is that of their 10 targets."""

    def gradient(micro_batches):
        batch = {"sequences": 2, "seq_len": 9, "micro_batches": micro_batches}
        config = make_config(batch=batch, balance__z_loss_weight=0.0)
        module = module_of(config)
        module.manual_backward = lambda objective: objective.backward()
        mask = torch.ones(2, 9, dtype=torch.bool)
        mask[0, 1:] = False
        module._accumulate(random_batch(3, 2, 9, mask=mask), 0.0, backward=True)
        return torch.cat([p.grad.flatten() for p in module.model.parameters()])

    whole, parts = gradient(1), gradient(2)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert whole.norm() > 1e-2


def test_last_window_cannot_be_partial(make_config):
    """F4: micro-batches that do not divide the step are refused, none is dropped."""
    with pytest.raises(ValidationError, match="micro_batches 3 does not divide sequences 8"):
        make_config(batch={"sequences": 8, "seq_len": 16, "micro_batches": 3})


def test_masked_documents_train_as_the_documents_alone_do(make_config):
    """The loss of a packed row is that of its documents, whatever stands beside them."""
    config = make_config(batch={"sequences": 2, "seq_len": 16, "documents": "masked"})
    module = module_of(config)
    batch = random_batch(sequences=2)
    segments = torch.zeros(2, 17, dtype=torch.int32)
    segments[:, 6:] += 1
    segments[1, 12:] += 1
    batch["segments"], batch["mask"] = segments[:, :-1], segments[:, 1:] == segments[:, :-1]
    means = module._accumulate(batch, 0.0, backward=False)
    documents = [
        row[of == number]
        for row, of in zip(batch["tokens"], segments, strict=True)
        for number in of.unique()
    ]
    alone = decoder(config)
    nats = [
        torch.nn.functional.cross_entropy(
            alone(document[None, :-1]).logits_BTV[0], document[1:], reduction="sum"
        )
        for document in documents
    ]
    num_targets = sum(len(document) - 1 for document in documents)
    assert num_targets == int(batch["mask"].sum()) == 2 * 16 - 3
    assert means["loss"] == pytest.approx(sum(map(torch.Tensor.item, nats)) / num_targets, abs=1e-5)


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_gradient_does_not_depend_on_the_number_of_micro_batches(make_config, micro_batches):
    """E2 A8: the loss's is the same; the auxiliary one does not grow with the micro-batches."""

    def gradients(parts, weight):
        config = make_config(batch__micro_batches=parts)
        module = module_of(config)
        module.manual_backward = lambda objective: objective.backward()
        module._accumulate(random_batch(), weight, backward=True)
        return {name: p.grad for name, p in module.model.named_parameters()}

    for name, whole in gradients(1, 0.0).items():
        part = gradients(micro_batches, 0.0)[name]
        if "router" not in name:  # the z-loss is not linear in the logits' statistics of a batch
            assert torch.allclose(whole, part, atol=1e-6), name
    whole = gradients(1, 10.0)["layers.0.router.weight"].norm()
    part = gradients(micro_batches, 10.0)["layers.0.router.weight"].norm()
    assert 0.5 < part / whole < 2.0


class PlainDescent(PretrainModule):
    def configure_optimizers(self):
        return torch.optim.SGD(self.model.parameters(), lr=1.0)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_clipping_comes_after_the_last_backward_pass(make_config, micro_batches):
    """A11: clip 1e-6, one step, plain descent with rate 1: the update is no longer than that."""
    config = make_config(
        optimizer={"lr": 1.0, "weight_decay": 0.0, "clip_norm": 1e-6},
        batch__micro_batches=micro_batches,
        steps=1,
    )
    module = module_of(config, kind=PlainDescent)
    before = weights(module)
    run(module, random_batch())
    moved = torch.cat([(p - before[n]).flatten() for n, p in weights(module).items()])
    assert 0 < moved.double().norm() <= 1.001e-6
    assert module.measures.grad_norm > 1e-3


def test_learning_rate_is_set_before_the_step_that_uses_it(make_config):
    config = make_config(optimizer={"lr": 1.0, "weight_decay": 0.0, "clip_norm": 1e-3}, steps=10)
    config = config.model_copy(update={"phase_fractions": {"warmup": 1, "stable": 0, "decay": 0}})
    module = module_of(config, kind=PlainDescent)
    before = weights(module)
    run(module, random_batch())
    assert module.measures.lr == 0.1
    moved = torch.cat([(p - before[n]).flatten() for n, p in weights(module).items()])
    assert moved.double().norm() == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize("frozen", [("router",), ("embeddings",), ("router", "embeddings")])
def test_frozen_parts_neither_move_nor_decay(make_config, frozen):
    phases = [{"name": "all_of_it", "lr": "constant", "frozen": frozen}]
    config = make_config(phases=phases, phase_fractions={"all_of_it": 1.0})
    module = module_of(config)
    before = weights(module)
    run(module, random_batch(1), random_batch(2))
    parts = {"router": "router", "embeddings": "embedding"}
    for name, after in weights(module).items():
        still = any(parts[part] in name for part in frozen)
        assert torch.equal(after, before[name]) == still, name


def test_step_with_everything_frozen_measures_and_changes_nothing(make_config):
    phases = [{"name": "prewarm", "lr": "linear_up", "frozen": ["all"]}]
    config = make_config(phases=phases, phase_fractions={"prewarm": 1.0})
    module = module_of(config)
    before = weights(module)
    run(module, random_batch(1))
    assert module.measures.grad_norm is None
    assert module.measures.loss > 1
    assert all(torch.equal(after, before[name]) for name, after in weights(module).items())


def test_freezing_ends_with_its_phase(make_config):
    phases = [
        {"name": "warm", "lr": "linear_up", "frozen": ["router"]},
        {"name": "stable", "lr": "constant"},
    ]
    config = make_config(phases=phases, phase_fractions={"warm": 0.5, "stable": 0.5}, steps=2)
    module = module_of(config)
    before = weights(module)["layers.0.router.weight"]
    run(module, random_batch(1), random_batch(2))
    assert not torch.equal(weights(module)["layers.0.router.weight"], before)


def test_balance_weight_of_a_phase_reaches_the_gradient(make_config):
    def router_gradient(weight):
        module = module_of(make_config(batch__micro_batches=1))
        module.manual_backward = lambda objective: objective.backward()
        module._accumulate(random_batch(), weight, backward=True)
        return module.model.layers[0].router.weight.grad

    none, some, more = (router_gradient(weight) for weight in (0.0, 1.0, 2.0))
    assert torch.allclose(more - none, 2 * (some - none), atol=1e-7)
    assert (some - none).norm() > 1e-6


def test_identity_leaves_out_how_often_to_save(make_config):
    one = RunIdentity(config=make_config(), seed=2**64 - 1, corpus="sha256:0")
    other = dataclasses.replace(one, config=make_config(checkpoint__every=1))
    assert one.plain() == other.plain()
    assert one.plain()["seed"] == "18446744073709551615"


@pytest.mark.parametrize("policy", ["full", "qkv", "qkv_softmax", "selective"])
def test_training_with_recompute_is_training_without(make_config, policy):
    """Weights and measures, the counts of tokens among them, to the bit, over micro-batches."""
    plain = run(module_of(make_config()), random_batch(1), random_batch(2))
    module = run(module_of(make_config(recompute=policy)), random_batch(1), random_batch(2))
    assert module.measures == plain.measures
    expected = weights(plain)
    assert all(torch.equal(p, expected[name]) for name, p in weights(module).items())


def test_identity_leaves_out_what_is_recomputed(make_config):
    one = RunIdentity(config=make_config(), seed=1, corpus="sha256:0")
    other = dataclasses.replace(one, config=make_config(recompute="full"))
    assert one.plain() == other.plain()
    assert "recompute" not in make_config().model_dump(mode="json")


def test_expert_precision_rounds_the_experts_products_of_training(make_config):
    """Off it changes nothing; on, another gradient norm and the same evaluation."""
    runs = {}
    for name in ("run", "fp8_block"):
        module = module_of(make_config(expert_precision=name, steps=1))
        held = module.model.eval()(random_batch()["tokens"][:, :-1]).logits_BTV
        module.model.train()
        run(module, random_batch())
        runs[name] = (module.measures, held)
    wide, rounded = runs["run"], runs["fp8_block"]
    assert torch.equal(wide[1], rounded[1])
    assert wide[0].grad_norm != rounded[0].grad_norm
    assert wide[0].grad_norm == pytest.approx(rounded[0].grad_norm, rel=0.05)


def test_routers_gradient_in_bf16_is_a_product_in_fp32(make_config):
    """Routing is fp32, backward too: the sum over tokens is not rounded to eight bits."""
    module = module_of(make_config(precision="bf16", batch__micro_batches=1))
    kept = {}

    def keep(router, given, routing):
        kept["x"] = given[0].detach().float()
        routing.logits_NE.register_hook(lambda grad: kept.update(grad=grad))

    def compared(model):
        wanted = kept["grad"].double().T @ kept["x"].double()
        kept["off"] = float((router.weight.grad - wanted).norm() / wanted.norm())
        return Clipper.clip(module.clipper, model)

    router = module.model.layers[0].router
    router.register_forward_hook(keep)
    module.clipper.clip = compared
    run(module, random_batch(), precision="bf16-mixed")
    assert kept["off"] < 1e-6
