import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.data.texts import corpus_config
from workbench.canonical import freeze, profile_faults
from workbench.data.corpus import (
    Corpus,
    corpus_fingerprint,
    corpus_folder,
    open_corpus,
    read_corpus,
)
from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.entries import DataState

FILES = [
    "manifest.json",
    "tokenizer.json",
    "documents.jsonl",
    "shards/train-code.bin",
    "ngrams.npz",
    "shards/validation-math.bin",
    "shards/train-code.index",
    "sealed/test-docs.index",
    "sealed/test-docs.bin",
]


@pytest.fixture
def copy(corpus: Corpus, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus.folder, tmp_path / corpus.folder.name))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_open_corpus_built_before_is_the_same(corpus: Corpus) -> None:
    opened = open_corpus(corpus_config(), corpus.folder.parent)
    assert opened.fingerprint == corpus.fingerprint
    assert opened.domains == ("code", "docs", "math")
    assert opened.vocab_size == 300 == len(opened.token_bytes)
    opened.verify()


def test_open_corpus_not_built_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        open_corpus(corpus_config(), tmp_path)
    assert caught.value.remedy == "workbench data build RECIPE"


@pytest.mark.parametrize("name", FILES)
def test_verify_one_flipped_bit_is_found_in_any_file(copy: Path, name: str) -> None:
    flip(copy / name, (copy / name).stat().st_size // 2)
    with pytest.raises(IntegrityError, match=name):
        read_corpus(copy, key=corpus_fingerprint(corpus_config())).verify()


@pytest.mark.parametrize("name", FILES[1:])
def test_verify_open_finds_a_flipped_bit_in_all_but_the_sealed_split(copy: Path, name: str) -> None:
    flip(copy / name, (copy / name).stat().st_size // 2)
    opened = read_corpus(copy, key=corpus_fingerprint(corpus_config()))
    if name.startswith("sealed/"):
        opened.verify_open()
        return
    with pytest.raises(IntegrityError, match=name):
        opened.verify_open()


@pytest.mark.parametrize("name", FILES)
def test_verify_a_missing_file_is_found(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(IntegrityError, match=name):
        read_corpus(copy, key=corpus_fingerprint(corpus_config())).verify()


def test_open_corpus_truncated_shard_is_found_without_hashing(copy: Path) -> None:
    path = copy / "shards/train-code.bin"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(IntegrityError, match="train-code"):
        open_corpus(corpus_config(), copy.parent)


def test_open_corpus_of_another_recipe_in_its_folder_is_refused(copy: Path) -> None:
    other = corpus_config(name="other@1")
    copy.rename(corpus_folder(other, copy.parent))
    with pytest.raises(IntegrityError, match="it is sha256:"):
        open_corpus(other, copy.parent)


def test_tokens_are_read_only_and_decode_to_text(corpus: Corpus) -> None:
    tokens = corpus.tokens("validation", "docs")
    assert tokens.dtype == np.uint16
    assert corpus.decode(tokens[:40]).startswith("docs ")
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 1


def test_tokens_stand_for_exactly_the_bytes_of_the_text(corpus: Corpus) -> None:
    for split in ("train", "validation"):
        for domain in corpus.domains:
            shard = corpus.manifest.shards[split][domain]
            tokens = corpus.tokens(split, domain)
            assert corpus.token_bytes[tokens].sum() == shard.bytes
            assert (tokens == 0).sum() == shard.documents


def test_tokens_of_the_test_split_are_refused(corpus: Corpus) -> None:
    with pytest.raises(ConflictError, match="sealed"):
        corpus.tokens("test", "code")


@pytest.mark.parametrize(("split", "domain"), [("train", "poetry"), ("dev", "code")])
def test_tokens_of_what_is_not_there_are_refused(corpus: Corpus, split: str, domain: str) -> None:
    with pytest.raises(NotFoundError, match="domains: code, docs, math"):
        corpus.tokens(split, domain)


def test_opening_and_streaming_need_neither_datasets_nor_torch() -> None:
    script = (
        "import sys; import workbench.data.corpus, workbench.data.sealed, "
        "workbench.data.serving.stream, workbench.data.windows, workbench.data.serving.mixture; "
        "print(sorted({'datasets', 'torch', 'sqlalchemy', 'pandas'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        text=True,
    )
    assert found.stdout.strip() == "[]"


def test_state_fits_the_ledger(corpus: Corpus) -> None:
    state = corpus.state()
    plain = freeze(state.model_dump(mode="python"))
    assert profile_faults(plain) == []
    assert DataState.model_validate(plain) == state
    assert state.manifest == corpus.fingerprint
    assert sum(state.documents.values()) == 270
    assert state.tokens["train_code"] == len(corpus.tokens("train", "code"))
