"""Small texts in three domains, and corpora built from them."""

import json
import random
from pathlib import Path
from typing import Any

from workbench.data.build import build_corpus
from workbench.data.config import CorpusConfig
from workbench.data.corpus import Corpus

WORDS = {
    "code": ["def", "return", "import", "for", "in", "if", "else", "class", "self", "None"],
    "docs": ["the", "a", "reader", "page", "chapter", "explains", "how", "and", "why", "it"],
    "math": ["let", "x", "be", "an", "integer", "such", "that", "n", "divides", "whence"],
}
NUM_DOCUMENTS = {"code": 120, "docs": 90, "math": 60}


def sentences(domain: str, count: int, seed: int = 0) -> list[str]:
    generator = random.Random(f"{domain}/{seed}")
    return [
        f"{domain} {number}: "
        + " ".join(generator.choices(WORDS[domain], k=generator.randint(20, 80)))
        + "\n"
        for number in range(count)
    ]


def write_jsonl(path: Path, texts: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def corpus_config(**changes: Any) -> CorpusConfig:
    plain: dict[str, Any] = {
        "name": "small@1",
        "sources": {
            domain: {"source": f"jsonl:texts/{domain}.jsonl", "max_bytes": 10_000_000}
            for domain in WORDS
        },
        "splits": {"validation": 0.1, "test": 0.1, "salt": "tests"},
        "tokenizer": {"vocab_size": 300, "train_bytes": 30_000},
    }
    return CorpusConfig.model_validate({**plain, **changes})


def build(config: CorpusConfig, root: Path) -> Corpus:
    return build_corpus(
        config, root=root, corpora=root / "corpora", progress=lambda stage, share: None
    )
