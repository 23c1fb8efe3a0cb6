"""The router's side of a step: scopes, ranks, biases, the moving average, drops."""

import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import distributed, multiprocessing
from torch.utils.checkpoint import checkpoint

from tests.training.conftest import BASE
from tests.training.test_module import decoder, module_of, random_batch, run, weights
from workbench.data.windows import evaluation_windows
from workbench.moe.balance import switch_loss, z_loss
from workbench.moe.config import BALANCE_OFF, ROUTING_OFF
from workbench.moe.load import load_of
from workbench.moe.loss import summed_nats
from workbench.proxies.recipe import LEFT_OUT, nested, value_at, with_values
from workbench.training.balancing import bias_rate_at
from workbench.training.config import RunConfig
from workbench.training.evaluate import evaluate

GLOBAL = {"balance__scope": "global_batch"}
BIASED = {"model__routing": {"scores": "sigmoid", "bias": True}, "balance__bias_rate": 0.01}
STABLE = {
    "balance__stability_weight": 0.5,
    "balance__stability_definition": "kl(P||ema(P))@1",
    "balance__stability_decay": 0.75,
}
SEQUENCE = {
    "balance__sequence_weight": 2.0,
    "balance__sequence_definition": "sequence-E*sum(f*P)/k@1",
}


def ragged_batch():
    """Eight sequences of very different numbers of real tokens: micro-batches are unequal."""
    lengths = torch.tensor([16, 16, 16, 15, 2, 1, 3, 9])
    return random_batch(sequences=8, mask=torch.arange(16) < lengths[:, None])


def step_of(module, batch, *, weight=10.0):
    """Return the means and gradients of one step without an update."""
    module.manual_backward = lambda objective: objective.backward()
    means = module._accumulate(batch, weight, backward=True)
    return means, {name: p.grad for name, p in module.model.named_parameters()}


def biases(module):
    return torch.stack([router.bias_E for router in module.model.routers()])


@pytest.mark.parametrize("micro_batches", [2, 4, 8])
@pytest.mark.parametrize("more", [{}, SEQUENCE, STABLE], ids=["balance", "sequence", "stability"])
def test_global_scope_does_not_depend_on_the_micro_batches(make_config, micro_batches, more):
    """E2 E4 F4: value and every gradient are those of the whole batch, tokens unequal."""

    def outcome(parts):
        batch = {"sequences": 8, "seq_len": 16, "micro_batches": parts}
        module = module_of(make_config(batch=batch, **GLOBAL, **more))
        module.balance.average_LE = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2)
        return step_of(module, ragged_batch())

    means, gradients = outcome(1)
    part_means, part_gradients = outcome(micro_batches)
    assert part_means["aux_loss"] == pytest.approx(means["aux_loss"], rel=1e-5)
    assert part_means["loss"] == pytest.approx(means["loss"], rel=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(part_gradients[name], gradient, rtol=1e-3, atol=1e-6)


def test_look_ahead_sees_the_choices_that_training_makes(make_config):
    """Noise and drops too: they are of the same turn."""
    module = module_of(make_config(model__routing={"kind": "gumbel", "capacity_factor": 1.0}))
    parts = module._micro_batches(random_batch())
    ahead = list(module._routing_ahead(parts))
    for number, one in enumerate(parts):
        for layer, other in zip(module._hidden(one).routing, ahead[number], strict=True):
            assert torch.equal(layer.chosen_NK, other.chosen_NK)
            assert torch.equal(layer.slots.has_place_M, other.slots.has_place_M)
    assert not torch.equal(ahead[0][0].chosen_NK, ahead[1][0].chosen_NK)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_step_without_options_is_the_plain_objective_to_the_last_bit(make_config, micro_batches):
    """What was trained before the options existed trains alike."""
    batch_shape = {"sequences": 8, "seq_len": 16, "micro_batches": micro_batches}
    config, batch = make_config(batch=batch_shape), ragged_batch()
    means, gradients = step_of(module_of(config), batch, weight=0.5)
    model, num_targets = decoder(config), int(batch["mask"].sum())
    total = torch.zeros(())
    parts = [batch[key].chunk(micro_batches) for key in ("tokens", "mask")]
    for tokens, mask in zip(*parts, strict=True):
        output = model.hidden(tokens[:, :-1], mask)
        hidden, targets = output.hidden_BTD.flatten(0, 1), tokens[:, 1:].flatten()
        loss = summed_nats(hidden, model.output_embedding, targets, mask.flatten()) / num_targets
        penalty = 0.5 * switch_loss(output.routing) + 0.001 * z_loss(output.routing)
        (loss + int(mask.sum()) / num_targets * penalty).backward()
        total += loss.detach()
    assert means["loss"] == total.item()
    for name, parameter in model.named_parameters():
        assert torch.equal(gradients[name], parameter.grad), name


def test_micro_batch_scope_does_depend_on_them(make_config):
    """E4: which is why the scope is stated."""
    found = []
    for parts in (1, 8):
        batch = {"sequences": 8, "seq_len": 16, "micro_batches": parts}
        found.append(step_of(module_of(make_config(batch=batch)), ragged_batch())[0]["aux_loss"])
    assert found[1] > found[0] + 0.003


def test_global_scope_under_autocast_keeps_every_gradient(make_config):
    """The look ahead converts weights without gradient, and autocast keeps what it converts."""
    found = []
    for parts in (1, 4):
        batch = {"sequences": 8, "seq_len": 16, "micro_batches": parts}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(step_of(module_of(make_config(batch=batch, **GLOBAL)), ragged_batch())[1])
    for name, gradient in found[0].items():
        assert gradient.abs().max() > 0, name
        assert (found[1][name] - gradient).norm() < 0.1 * gradient.norm(), name


def one_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    module = module_of(rank_config(4, 2))
    module.group = distributed.group.WORLD
    module.balance.average_LE = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2)
    whole = ragged_batch()
    part = {name: tensor[rank * 4 : rank * 4 + 4] for name, tensor in whole.items()}
    means, gradients = step_of(module, part)
    module.balance.end(module.model, 1, module.group)
    for gradient in gradients.values():
        distributed.all_reduce(gradient)
        gradient /= 2
    told = (means, gradients, biases(module), module.balance.average_LE)
    torch.save(told, Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


def rank_config(sequences: int, micro_batches: int) -> RunConfig:
    batch = {"sequences": sequences, "seq_len": 16, "micro_batches": micro_batches}
    overrides = {"batch": batch, **GLOBAL, **BIASED, **STABLE, **SEQUENCE}
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return with_values(RunConfig.model_validate(BASE), nested(dotted))


def test_two_ranks_average_to_the_gradient_of_one(tmp_path):
    """E3: the same batch on one rank and on two, tokens unequal: equal averaged gradients; the
    biases and the moving average follow the whole batch."""
    module = module_of(rank_config(8, 2))
    module.balance.average_LE = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2)
    means, gradients = step_of(module, ragged_batch())
    module.balance.end(module.model, 1)
    # Forked: a fresh process would spend many seconds on its imports.
    ranks = [
        multiprocessing.get_context("fork").Process(target=one_rank, args=(rank, str(tmp_path)))
        for rank in range(2)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        assert process.exitcode == 0
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name in ("loss", "aux_loss"):
            assert found[0][name] == pytest.approx(means[name], rel=1e-5)
        for name, gradient in gradients.items():
            torch.testing.assert_close(found[1][name], gradient, rtol=1e-3, atol=1e-6)
        assert torch.equal(found[2], biases(module))
        torch.testing.assert_close(found[3], module.balance.average_LE)


def moved(config, batch, model=None):
    """Return the biases after one step."""
    return biases(run(module_of(config, model), batch))


@pytest.mark.parametrize("more", [{}, GLOBAL])
def test_biases_move_once_a_step_by_the_counts_of_the_whole_batch(make_config, more):
    """E5: whatever the number of micro-batches, and whether or not the batch is looked at twice."""
    batch = ragged_batch()
    routing = decoder(make_config(**BIASED)).hidden(batch["tokens"][:, :-1], batch["mask"]).routing
    count = torch.stack(
        [
            torch.bincount(layer.chosen_NK[batch["mask"].flatten()].flatten(), minlength=4)
            for layer in routing
        ]
    )
    mean = int(batch["mask"].sum()) * 2 / 4
    expected = torch.where(count > mean, -0.01, torch.where(count < mean, 0.01, 0.0))
    assert (expected < 0).any()
    for parts in (1, 4):
        shape = {"sequences": 8, "seq_len": 16, "micro_batches": parts}
        config = make_config(batch=shape, **BIASED, **more)
        assert torch.equal(moved(config, batch), expected)


def test_validation_moves_no_bias(make_config, tmp_path):
    """E5: only training's own passes are counted."""
    module = module_of(make_config(**BIASED))
    tokens = torch.randint(0, 300, (100,), generator=torch.Generator().manual_seed(0)).numpy()
    sizes = torch.ones(300, dtype=torch.int64).numpy()
    windows = {"code": evaluation_windows(tokens, sizes, seq_len=16, max_bytes=None)}
    before = biases(module).clone()
    evaluate(module.model, windows)
    module.balance.end(module.model, 1)
    assert torch.equal(biases(module), before)


@pytest.mark.parametrize("more", [BIASED, {"model__routing": {"kind": "gumbel"}}])
def test_recomputed_layers_route_alike_and_count_once(make_config, more):
    """E5 E11: recomputation picks the same experts, adds no counts and changes no gradient."""
    config = make_config(**more)

    def outcome(*, recompute):
        model = decoder(config)
        if recompute:
            for layer in model.layers:
                plain = layer.forward
                layer.forward = lambda *a, plain=plain: checkpoint(plain, *a, use_reentrant=False)
        module = module_of(config, model)
        _, gradients = step_of(module, random_batch())
        return gradients, module.balance._seen

    plain, seen = outcome(recompute=False)
    again, seen_again = outcome(recompute=True)
    assert all(torch.equal(again[name], gradient) for name, gradient in plain.items())
    if seen is not None:
        assert torch.equal(seen.count_LE, seen_again.count_LE)
        assert int(seen.num_tokens) == 4 * 16


def test_biases_stand_still_while_the_router_is_frozen_or_the_rate_is_zero(make_config):
    """DeepSeek-V3 ends with γ = 0."""
    for phase in ({"frozen": ["router"]}, {"frozen": ["all"]}, {"bias_rate": 0.0}):
        phases = [{"name": "only", "lr": "constant", **phase}]
        config = make_config(phases=phases, phase_fractions={"only": 1.0}, **BIASED)
        assert moved(config, random_batch()).abs().max() == 0, phase
        assert bias_rate_at(config, 1) == phase.get("bias_rate", 0.01)


def test_biases_stand_still_in_a_step_that_cannot_count(make_config):
    model = decoder(make_config(**BIASED))
    with torch.no_grad():
        model.embedding[5] = math.nan
    assert moved(make_config(**BIASED), random_batch(), model).abs().max() == 0


def test_bias_rate_without_biases_is_refused(make_config):
    with pytest.raises(ValidationError, match=r"write model\.routing\.bias: true"):
        make_config(balance__bias_rate=0.01)


def test_definition_without_the_division_weighs_k_times_as_much(make_config):
    """E10: top-2: the same λ means twice the penalty; what is reported stays 1.0 at balance."""
    found = {}
    for definition in ("switch-E*sum(f*P)/k@1", "switch-E*sum(f*P)@1"):
        config = make_config(balance__definition=definition, balance__z_loss_weight=0.0)
        routing = decoder(config).hidden(random_batch()["tokens"][:, :-1]).routing
        penalty = module_of(config).balance.penalty(routing, num_sequences=4, balance_weight=3.0)
        found[definition] = (penalty.aux.item(), penalty.total.item())
    (aux, total), (same, twice) = found.values()
    assert aux == same
    assert total == pytest.approx(3 * aux, rel=1e-6)
    assert twice == pytest.approx(6 * aux, rel=1e-6)


def test_average_of_the_marginals_begins_with_the_first_and_moves_by_its_decay(make_config):
    config = make_config(**STABLE)
    module = module_of(config)
    batches = [random_batch(1), random_batch(2)]
    marginals = []
    for step, batch in enumerate(batches, start=1):
        routing = module.model.hidden(batch["tokens"][:, :-1]).routing
        marginals.append(load_of(routing).marginal_LE)
        step_of(module, batch)
        module.balance.end(module.model, step)
    torch.testing.assert_close(module.balance.average_LE, 0.75 * marginals[0] + 0.25 * marginals[1])


def test_rule_that_chooses_is_refreshed_every_so_many_steps(make_config):
    config = make_config(model__routing={"refresh_every": 2}, steps=4)
    module = module_of(config)
    router = module.model.routers()[0]
    seen = []
    plain = module._accumulate

    def noting(*args, **more):
        seen.append((router.choosing_ED.clone(), router.weight.detach().clone()))
        return plain(*args, **more)

    module._accumulate = noting
    run(module, *(random_batch(i) for i in range(4)))
    held, live = zip(*seen, strict=True)
    assert torch.equal(held[0], live[0])
    assert torch.equal(held[1], live[0])
    assert torch.equal(held[2], live[2])
    assert torch.equal(held[3], live[2])
    assert not torch.equal(live[1], live[0])


@pytest.mark.parametrize("frozen", ["router", "all"])
def test_rule_that_chooses_stays_while_its_router_is_frozen(make_config, frozen):
    """A frozen part changes nothing, also not by catching up with the steps before."""
    phases = [
        {"name": "moving", "lr": "constant"},
        {"name": "still", "lr": "constant", "frozen": [frozen]},
    ]
    config = make_config(
        model__routing={"refresh_every": 2},
        steps=4,
        phases=phases,
        phase_fractions={"moving": 0.25, "still": 0.75},
    )
    module = module_of(config)
    router = module.model.routers()[0]
    before = router.choosing_ED.clone()
    run(module, *(random_batch(i) for i in range(4)))
    assert not torch.equal(router.weight, before)
    assert torch.equal(router.choosing_ED, before)


@pytest.mark.parametrize("factor", [0.5, 4.0])
def test_drops_and_filled_places_are_measured(make_config, factor):
    """E8 E12: four times the even share would be two places for each token: one is enough."""
    config = make_config(model__routing={"capacity_factor": factor})
    module = run(module_of(config), random_batch())
    if factor == 4.0:
        assert module.measures.dropped_share == 0.0
        assert module.measures.capacity_utilization == pytest.approx(0.5)
    else:
        assert 0.5 <= module.measures.dropped_share < 1
        kept = 1 - module.measures.dropped_share
        assert module.measures.capacity_utilization == pytest.approx(2 * kept)


@pytest.mark.parametrize(
    "routing",
    [
        {"scores": "sigmoid", "groups": 2, "top_groups": 1, "scale": 2.5},
        {"kind": "expert_choice", "causal_leak": "accepted"},
        {"kind": "gumbel", "temperature": 0.5},
        {"capacity_factor": 1.0, "drop": "position"},
    ],
)
def test_every_kind_of_routing_trains(make_config, routing):
    config = make_config(model__routing=routing)
    module = module_of(config)
    before = weights(module)
    batch = random_batch()
    run(module, batch)
    first = module.measures.loss
    assert all(not torch.equal(p, before[name]) for name, p in weights(module).items())
    module = run(module_of(config), *[batch] * 12)
    assert module.measures.loss < first - 0.05


def test_left_out_keys_can_be_overridden_and_read(make_config):
    """A sweep may search what the base does not write."""
    plain = make_config().model_dump(mode="json")
    for key in ROUTING_OFF:
        assert value_at(plain, f"model.routing.{key}") == ROUTING_OFF[key]
    for key in BALANCE_OFF:
        assert value_at(plain, f"balance.{key}") == LEFT_OUT[f"balance.{key}"]
    changed = make_config(model__routing__scores="sigmoid", model__routing__scale=2.5)
    assert (changed.model.routing.scores, changed.model.routing.scale) == ("sigmoid", 2.5)
    assert make_config(model__routing__groups=1) == make_config()
