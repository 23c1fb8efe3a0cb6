"""Lost updates, counted one weight at a time."""

import math
import struct

import numpy as np
import pytest
import torch

from workbench.planner.counts import total_parameters
from workbench.training.precision_audit import Tally, audit_precision


def bf16(value: float) -> float:
    """The nearest bf16 value, ties to even, from the bits of the fp32 value."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + ((bits >> 16) & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def test_tally_counts_what_half_a_unit_in_the_last_place_says():
    """1.0 keeps 2^-7 and loses less than half of it; a tie goes to the even neighbour."""
    before = torch.tensor([1.0, 1.0, 1.0, 1.0, -2.0, 0.0, 1.0])
    step = [2**-7, 2**-8 * 0.99, 2**-8, 2**-8 * 1.01, 2**-8, 1e-30, 0.0]
    after = before + torch.tensor(step)
    tally = Tally()
    tally.add(before, after, torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    audit = tally.audit("all")
    assert audit.num_updates == 6
    assert audit.lost_bf16 == 3 / 6, "0.99 and 1.00 half units of 1, and a half unit of 2"
    assert audit.lost_fp32 == 1 / 7
    lost = math.hypot(step[1], step[2], step[4])
    assert audit.length_lost_bf16 == pytest.approx(lost / math.hypot(*step), rel=1e-5)


def test_tally_agrees_with_a_weight_by_weight_count():
    rng = np.random.default_rng(0)
    before = rng.normal(size=400).astype(np.float32)
    update = rng.normal(size=400) * 10.0 ** rng.uniform(-7, -1, 400)
    update[::7] = 0.0
    after = (before + update).astype(np.float32)
    moved = lost = 0
    for old, new in zip(before, after, strict=True):
        delta = np.float32(new - old)
        moved += bool(delta)
        lost += bool(delta) and bf16(float(np.float32(bf16(float(old))) + delta)) == bf16(
            float(old)
        )
    tally = Tally()
    tally.add(torch.from_numpy(before), torch.from_numpy(after), None)
    audit = tally.audit("all")
    assert (audit.num_updates, audit.lost_bf16) == (moved, lost / moved)
    assert 0.1 < audit.lost_bf16 < 0.9


def audited(config, corpus, steps=3):
    told = []
    audit = audit_precision(
        config, corpus, seed=7, steps=steps, progress=lambda *done: told.append(done)
    )
    assert told == [(step, audit.steps) for step in range(1, audit.steps + 1)]
    return audit


def test_parts_are_the_models_and_add_up_to_it(make_config, corpus):
    config = make_config(model__tie_embeddings=False)
    audit = audited(config, corpus)
    parts = {part.part: part for part in audit.parts}
    assert list(parts) == ["all", "attention", "embeddings", "experts", "head", "norm", "router"]
    whole = parts.pop("all")
    assert whole.num_weights == total_parameters(config.model)
    assert sum(part.num_weights for part in parts.values()) == whole.num_weights
    assert sum(part.num_updates for part in parts.values()) == whole.num_updates
    lost = sum(part.lost_bf16 * part.num_updates for part in parts.values())
    assert whole.lost_bf16 == pytest.approx(lost / whole.num_updates)
    assert (audit.steps, audit.precision) == (3, "fp32")
    assert audit.last_lr == pytest.approx(0.01)
    assert whole.lost_fp32 < 0.01


def test_small_rate_loses_nearly_all_and_norms_lose_most(make_config, corpus):
    """Weights at 1, as norms are, need updates of 2^-8: a rate of 1e-4 never gets there."""
    config = make_config(optimizer__lr=1e-4)
    parts = {part.part: part for part in audited(config, corpus).parts}
    assert parts["norm"].lost_bf16 == 1.0
    assert parts["experts"].lost_bf16 < parts["norm"].lost_bf16
    large = {part.part: part for part in audited(make_config(), corpus).parts}
    assert large["experts"].lost_bf16 < parts["experts"].lost_bf16


def test_audit_repeats_and_never_goes_beyond_the_run(make_config, corpus):
    config = make_config(
        precision="bf16", expert_precision="fp8_block", optimizer__name="muon", steps=4
    )
    audit = audited(config, corpus, steps=100)
    assert audit.steps == 4
    assert audit.precision == "bf16, experts fp8_block"
    assert audited(config, corpus, steps=100) == audit
