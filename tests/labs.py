"""A lab so small that the whole loop runs in seconds: two domains, a recipe, one proposal."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.data.config import CorpusConfig
from workbench.data.corpus import Corpus, open_corpus
from workbench.lab import Lab
from workbench.registry.log import Entry
from workbench.scaffold.demo import answered, with_lines

SUBJECT = "0001-does-code-help"
KEYS = "WORKBENCH_KEYS_DIR"
RECIPE_PATH = "proxies/tiny.yaml"
WORDS = {
    "code": ["def", "return", "import", "for", "in", "if", "else", "class", "self", "None", "x"],
    "docs": ["the", "a", "reader", "page", "chapter", "explains", "how", "and", "why", "it", "is"],
}
RECIPE: dict[str, Any] = {
    "recipe": "tiny@1",
    "corpus": {
        "name": "tiny@1",
        "sources": {
            domain: {"source": f"jsonl:texts/{domain}.jsonl", "max_bytes": 100_000}
            for domain in WORDS
        },
        "splits": {"validation": 0.15, "test": 0.15, "salt": "tests"},
        "tokenizer": {"vocab_size": 300, "train_bytes": 10_000},
    },
    "base": {
        "model": {
            "vocab_size": 300, "d_model": 8, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1,
            "num_experts": 2, "top_k": 1, "d_expert": 8, "max_seq_len": 16,
        },
        "balance": {"weight": 0.01, "definition": "switch-E*sum(f*P)/k@1", "z_loss_weight": 0.001},
        "batch": {"sequences": 2, "seq_len": 16},
        # So slow that every point of the space is better: the loop goes on to its verdict.
        "optimizer": {"lr": 0.0001, "weight_decay": 0.1, "clip_norm": 1.0},
        "steps": 6,
        "phases": [{"name": "stable", "lr": "constant"}, {"name": "decay", "lr": "linear_down"}],
        "phase_fractions": {"stable": 0.5, "decay": 0.5},
        "mixture": "natural",
        "evaluation": {"every": 3, "bytes_per_domain": 100},
        "checkpoint": {"every": 4, "keep": 2},
    },
    "scales": [{"name": "s1"}, {"name": "s2", "overrides": {"steps": 8}}],
    "space": {
        "mixture": {"kind": "simplex", "domains": ["code", "docs"], "minimum": 0.05},
        "optimizer.lr": {"kind": "log_uniform", "low": 0.01, "high": 0.03},
    },
}  # fmt: skip
SMALL = {
    "name: tpe": "name: random",
    "budget_trials: 16": "budget_trials: 3",
    "rule: median": "rule: none",
    "top_k: 3": "top_k: 1",
}


@dataclass(frozen=True)
class LabFolder:
    """A lab on disk beside its keys, both of which can be copied."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / "lab"

    @property
    def environment(self) -> dict[str, str]:
        return {KEYS: str(self.home / "keys")}

    def open(self) -> Lab:
        with environment(self.environment):
            return Lab.open(self.root)

    def copy(self, home: Path) -> "LabFolder":
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return LabFolder(home)

    def entries(self, kind: str | None = None) -> list[Entry]:
        return list(self.open().source().entries(kind=kind))

    def bodies(self, kind: str) -> list[Any]:
        return [entry.body for entry in self.entries(kind)]

    def runs(self, run: str = "", mode: str = "confirmatory") -> Path:
        return self.root / ".workbench" / "runs" / SUBJECT / mode / "full" / run

    def tracker(self) -> Any:
        from workbench.training.tracking import Tracker

        url = f"sqlite:///{self.root}/.workbench/mlflow.db"
        return Tracker(url, self.root / ".workbench" / "mlartifacts", f"tiny-{SUBJECT}")

    def corpus(self) -> Corpus:
        return open_corpus(
            CorpusConfig.model_validate(RECIPE["corpus"]), self.open().layout.corpora
        )

    def commit(self, message: str = "Change the lab") -> None:
        identity = ["-c", "user.name=lab", "-c", "user.email=lab@example.org"]
        git = ["git", "-C", str(self.root), *identity]
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", message], check=True)


def filed(home: Path) -> LabFolder:
    """Make a lab with one answered and committed proposal."""
    lab = LabFolder(home)
    with environment(lab.environment):
        opened = Lab.init(lab.root, name="tiny")
    for domain in WORDS:
        write_texts(lab.root / "texts" / f"{domain}.jsonl", domain)
    (lab.root / RECIPE_PATH).write_text(json.dumps(RECIPE, indent=1), "utf-8")
    folder = opened.propose("Does code help", recipe=RECIPE_PATH)
    proposal = folder / "proposal.md"
    text = answered(proposal.read_text("utf-8"))
    proposal.write_text(with_lines(text, SMALL), "utf-8")
    lab.commit("File the proposal")
    return lab


def write_texts(path: Path, domain: str) -> None:
    generator = random.Random(domain)
    texts = [f"{domain} {i} " + " ".join(generator.choices(WORDS[domain], k=30)) for i in range(80)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
