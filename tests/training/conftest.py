"""A run configuration small enough to train in a test."""

from collections.abc import Callable
from typing import Any

import pytest

from workbench.proxies.recipe import nested, with_values
from workbench.training.config import RunConfig

BASE: dict[str, Any] = {
    "model": {
        "vocab_size": 257,
        "d_model": 16,
        "num_layers": 2,
        "num_heads": 2,
        "num_kv_heads": 1,
        "num_experts": 4,
        "top_k": 2,
        "d_expert": 16,
        "max_seq_len": 16,
    },
    "balance": {"weight": 0.01, "definition": "switch-E*sum(f*P)/k@1", "z_loss_weight": 0.001},
    "batch": {"sequences": 4, "seq_len": 16, "micro_batches": 2},
    "optimizer": {"lr": 0.01, "weight_decay": 0.1, "clip_norm": 1.0},
    "steps": 12,
    "phases": [
        {"name": "warmup", "lr": "linear_up"},
        {"name": "stable", "lr": "constant"},
        {"name": "decay", "lr": "linear_down", "final": 0.1},
    ],
    "phase_fractions": {"warmup": 0.25, "stable": 0.5, "decay": 0.25},
    "mixture": {"code": 0.5, "docs": 0.5},
    "evaluation": {"every": 6, "bytes_per_domain": 200},
    "checkpoint": {"every": 4, "keep": 2},
}


@pytest.fixture(scope="session")
def make_config() -> Callable[..., RunConfig]:
    """Builds the small configuration with dotted keys overridden."""

    def build(**dotted: Any) -> RunConfig:
        overrides = {key.replace("__", "."): value for key, value in dotted.items()}
        return with_values(RunConfig.model_validate(BASE), nested(overrides))

    return build
