"""What a manifest shows of documents that are left out beside text of the sealed split."""

import json
import random
from pathlib import Path

import pytest

from tests.data.texts import build, corpus_config, write_jsonl
from workbench.data.corpus import Corpus
from workbench.data.manifest import DOCUMENTS_NAME, MANIFEST_NAME, Sample
from workbench.data.text.dedup import normalise
from workbench.errors import InvalidFileError

VOCABULARY = [f"{a}{b}" for a in ("sun", "moon", "star", "sea", "hill") for b in range(60)]
SPLITS = {"validation": 0.1, "test": 0.3, "salt": "q"}
HIDDEN = "same as a document of the sealed test split"


def written_rows(root: Path, num_repeated: int) -> list[str]:
    """Texts, then capitals of the first ones, then the next ones with a word more."""
    generator = random.Random(4)
    base = [" ".join(generator.choices(VOCABULARY, k=60)) for _ in range(200)]
    exact = [text.upper() for text in base[:num_repeated]]
    near = [f"{text} tail" for text in base[100 : 100 + num_repeated]]
    rows = [*base, *exact, *near]
    write_jsonl(root / "a.jsonl", rows)
    return rows


def config(**changes: object):
    plain = {
        "sources": {"docs": {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000}},
        "near_duplicates": {"threshold": 0.8},
        "splits": SPLITS,
    }
    return corpus_config(**{**plain, **changes})


def sealed_texts(corpus: Corpus, rows: list[str]) -> dict[str, str]:
    entries = map(json.loads, (corpus.folder / DOCUMENTS_NAME).read_text().splitlines())
    names = [entry["id"] for entry in entries if entry["split"] == "test"]
    return {name: rows[int(name.partition("#")[2])] for name in names}


def all_samples(corpus: Corpus) -> list[Sample]:
    return [
        sample
        for stage in corpus.manifest.stages
        for removed in stage.removed.values()
        for sample in removed.samples
    ]


def test_manifest_neither_names_nor_shows_text_of_the_sealed_split(tmp_path: Path) -> None:
    rows = written_rows(tmp_path, 20)
    corpus = build(config(), tmp_path)
    sealed = sealed_texts(corpus, rows)
    told = (corpus.folder / MANIFEST_NAME).read_text()
    assert len(sealed) > 40
    for name, text in sealed.items():
        assert f'"{name}"' not in told
        assert f' {name}"' not in told
        assert normalise(text)[:60] not in normalise(told)
    samples = all_samples(corpus)
    hidden = [sample for sample in samples if HIDDEN in sample.why]
    assert {sample.why for sample in hidden} == {
        f"same as docs: {HIDDEN}",
        f"near-duplicate of docs: {HIDDEN}",
    }
    assert all((sample.id, sample.excerpt) == ("", "") for sample in hidden)
    assert len(samples) == 20 > len(hidden)
    by_name = {stage.name: stage.removed["docs"] for stage in corpus.manifest.stages}
    assert by_name["exact_duplicates"].reasons == {"same as docs": 20}
    assert by_name["near_duplicates"].reasons == {"near-duplicate of docs": 20}


def test_another_salt_hides_others_of_the_stored_samples(tmp_path: Path) -> None:
    rows = written_rows(tmp_path, 20)
    build(config(), tmp_path)
    other = build(config(splits={**SPLITS, "salt": "r"}), tmp_path)
    told = (other.folder / MANIFEST_NAME).read_text()
    for name, text in sealed_texts(other, rows).items():
        assert f'"{name}"' not in told
        assert f' {name}"' not in told
        assert normalise(text)[:60] not in normalise(told)


def test_refusal_of_too_great_a_loss_shows_nothing_sealed(tmp_path: Path) -> None:
    rows = written_rows(tmp_path, 20)
    sealed = sealed_texts(build(config(), tmp_path), rows)
    with pytest.raises(InvalidFileError) as caught:
        build(config(near_duplicates={"threshold": 0.8, "max_share_lost": 0.01}), tmp_path)
    for name, text in sealed.items():
        assert f" {name}\n" not in str(caught.value)
        assert text[:60] not in str(caught.value)
