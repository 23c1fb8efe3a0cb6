"""A lab folder with three small domains of local text, and the corpus built from it."""

from pathlib import Path

import pytest

from tests.data.texts import NUM_DOCUMENTS, build, corpus_config, sentences, write_jsonl
from workbench.data.corpus import Corpus


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lab")
    for domain, count in NUM_DOCUMENTS.items():
        write_jsonl(root / "texts" / f"{domain}.jsonl", sentences(domain, count))
    return root


@pytest.fixture(scope="session")
def corpus(lab: Path) -> Corpus:
    return build(corpus_config(), lab)
