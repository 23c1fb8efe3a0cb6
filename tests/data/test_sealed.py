import shutil
from pathlib import Path

import pytest

from tests.data.texts import corpus_config
from workbench.data.corpus import Corpus, corpus_fingerprint, read_corpus
from workbench.data.sealed import open_sealed
from workbench.errors import IntegrityError

LEAF = "0f" * 32


def test_open_sealed_logs_one_exposure_for_all_domains(corpus: Corpus) -> None:
    calls: list[int] = []

    def log_exposure() -> str:
        calls.append(1)
        return LEAF

    opened = open_sealed(corpus, log_exposure)
    assert calls == [1]
    assert tuple(opened) == corpus.domains
    for domain, tokens in opened.items():
        shard = corpus.manifest.shards["test"][domain]
        assert corpus.token_bytes[tokens].sum() == shard.bytes


def test_open_sealed_reads_nothing_before_the_exposure_is_logged(
    corpus: Corpus, tmp_path: Path
) -> None:
    """The shards appear only while the exposure is logged: any earlier read would fail."""
    folder = Path(shutil.copytree(corpus.folder, tmp_path / "copy"))
    copy = read_corpus(folder, key=corpus_fingerprint(corpus_config()))
    (folder / "sealed").rename(folder / "away")

    def log_exposure() -> str:
        (folder / "away").rename(folder / "sealed")
        return LEAF

    assert set(open_sealed(copy, log_exposure)) == set(corpus.domains)


def test_open_sealed_exposure_that_fails_keeps_it_sealed(corpus: Corpus) -> None:
    def log_exposure() -> str:
        raise IntegrityError("the ledger is shorter than its last signed head")

    with pytest.raises(IntegrityError, match="shorter"):
        open_sealed(corpus, log_exposure)


@pytest.mark.parametrize("leaf", ["", "yes", LEAF.upper(), LEAF + "0", None])
def test_open_sealed_without_a_leaf_hash_keeps_it_sealed(corpus: Corpus, leaf: str) -> None:
    with pytest.raises(IntegrityError, match="not logged"):
        open_sealed(corpus, lambda: leaf)


def test_open_sealed_changed_test_split_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(corpus.folder, tmp_path / "copy"))
    path = folder / "sealed/test-math.bin"
    path.write_bytes(bytes(path.stat().st_size))
    copy = read_corpus(folder, key=corpus_fingerprint(corpus_config()))
    with pytest.raises(IntegrityError, match="test-math"):
        open_sealed(copy, lambda: LEAF)
