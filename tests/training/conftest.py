"""A run configuration small enough to train in a test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from workbench.data.build import build_corpus
from workbench.data.config import CorpusConfig
from workbench.data.corpus import Corpus
from workbench.proxies.recipe import nested, with_values
from workbench.training.config import RunConfig

BASE: dict[str, Any] = {
    "model": {
        "vocab_size": 300,
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


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small lose more to handing work over than they gain, above all when every
    core is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_config() -> Callable[..., RunConfig]:
    """Builds the small configuration with dotted keys overridden."""

    def build(**dotted: Any) -> RunConfig:
        overrides = {key.replace("__", "."): value for key, value in dotted.items()}
        return with_values(RunConfig.model_validate(BASE), nested(overrides))

    return build


CODE = "def f{i}(x):\n    y = x * {i}\n    return y + {j}\n\n"
DOCS = "Section {i} says that the value {j} comes first and {i} last; see the table below. "


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A real corpus of two domains of made-up text."""
    root = tmp_path_factory.mktemp("lab")
    for domain, template in (("code", CODE), ("docs", DOCS)):
        folder = root / domain
        folder.mkdir()
        for i in range(60):
            text = "".join(template.format(i=i, j=i * 7 + k) for k in range(6))
            (folder / f"{i:03d}.txt").write_text(text)
    config = CorpusConfig.model_validate(
        {
            "name": "tiny@1",
            "sources": {
                domain: {"source": f"text:{domain}", "max_bytes": 100_000}
                for domain in ("code", "docs")
            },
            "splits": {"validation": 0.15, "test": 0.15, "salt": "tests"},
            "tokenizer": {"vocab_size": 300, "train_bytes": 10_000},
        }
    )
    return build_corpus(config, root=root, corpora=root / "corpora", progress=lambda *_: None)
