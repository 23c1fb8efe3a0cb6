"""The decoder: exact repeats, part names, padding, placements."""

import pytest
import torch

from workbench.moe.config import ModelConfig
from workbench.moe.model import MoEDecoder, initialise

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
}


def build(seed: int = 0, **changes: object) -> MoEDecoder:
    model = MoEDecoder(ModelConfig.model_validate(SMALL | changes))
    initialise(model, torch.Generator().manual_seed(seed))
    return model


def tokens(seed: int = 0, batch: int = 3, length: int = 16) -> torch.Tensor:
    return torch.randint(0, 300, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("placement", ["pre", "reordered"])
@pytest.mark.parametrize("shared", [0, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_forward_any_shape_returns_logits_and_routing(placement, shared, tied):
    model = build(norm_placement=placement, num_shared_experts=shared, tie_embeddings=tied)
    output = model(tokens())
    assert output.logits_BTV.shape == (3, 16, 300)
    assert len(output.routing) == 2
    assert output.routing[0].chosen_NK.shape == (48, 2)
    assert output.logits_BTV.std() > 0
    output.logits_BTV.logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
