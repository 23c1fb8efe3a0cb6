"""The Croissant description, read back by the vocabulary's own library."""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import mlcroissant
import pytest

from workbench.data.corpus import Corpus
from workbench.data.croissant import croissant
from workbench.data.manifest import Manifest, file_sha256, seal

# The library reads JSON-LD with a class of rdflib that rdflib has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")

_NOTHING = {"documents": 9, "ngrams": 90, "found": 4, "touched": 2, "contaminated": 1}


def document(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"docs.jsonl#{number}",
        "domain": "docs",
        "split": "train",
        "digest": hashlib.sha256(str(number).encode()).hexdigest(),
        "num_bytes": 100 + number,
        "provenance": "Somebody 1.0",
        "licence": "MIT" if number % 2 else "",
        "language": "en",
        "tokens": 30 + number,
        **changes,
    }


def shard(split: str, domain: str) -> dict[str, Any]:
    folder = "sealed" if split == "test" else "shards"
    return {
        "path": f"{folder}/{split}-{domain}.bin",
        "documents": 3,
        "bytes": 300,
        "tokens": 90,
        "sha256": "a" * 64,
        "index_path": f"{folder}/{split}-{domain}.index",
        "index_sha256": "b" * 64,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [json.dumps(document(number), sort_keys=True) + "\n" for number in range(5)]
    (tmp_path / "documents.jsonl").write_text("".join(lines), "utf-8")
    return tmp_path


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    domain = {
        "source": "jsonl:texts/docs.jsonl",
        "content": "prose",
        "read": 8,
        "read_bytes": 900,
        "cut": 0,
        "cut_bytes": 0,
        "exhausted": True,
        "kept": 5,
        "kept_bytes": 510,
        "provenance": {"Somebody 1.0": 5},
        "licences": {"MIT": 2, "not stated": 3},
        "files": [{"path": "docs.jsonl", "sha256": "c" * 64}],
    }
    return seal(
        {
            "format": "corpus/v2",
            "key": "sha256:1",
            "config": {
                "name": "small@3",
                "sources": {"docs": {"source": "jsonl:texts/docs.jsonl", "max_bytes": 1000}},
                "splits": {"validation": 0.1, "test": 0.1, "salt": "tests"},
                "tokenizer": {"vocab_size": 300, "train_bytes": 1000},
            },
            "domains": {"docs": domain},
            "stages": [
                {
                    "name": "language",
                    "key": "sha256:2",
                    "settings": {"score": "0.92", "allowed": ["en"]},
                    "removed": {"docs": {"documents": 3, "bytes": 390}},
                }
            ],
            "composition": [
                {
                    "domain": "docs",
                    "language": language,
                    "split": "train",
                    "documents": 1,
                    "bytes": 1,
                    "tokens": 1,
                }
                for language in ("en", "unknown")
            ],
            "heads": {},
            "contamination": {
                "ngram": 13,
                "threshold": 0.5,
                "one_in": 1,
                "sets": {
                    "validation": {**_NOTHING, "unmeasured": 3},
                    "test": {**_NOTHING, "unmeasured": 0},
                },
            },
            "shards": {
                split: {"docs": shard(split, "docs")} for split in ("train", "validation", "test")
            },
            "vocab_size": 300,
            "token_type": "<u2",
            "tokenizer_sha256": "d" * 64,
            "documents_sha256": file_sha256(folder / "documents.jsonl"),
            "ngrams_sha256": "e" * 64,
            "builder": {"python": "3.11"},
        }
    )


def read_back(manifest: Manifest, folder: Path) -> mlcroissant.Dataset:
    path = folder / "croissant.json"
    path.write_text(json.dumps(croissant(manifest)), "utf-8")
    return mlcroissant.Dataset(path)


def test_description_is_valid_and_complains_only_of_what_nobody_knows(
    manifest: Manifest, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        data = read_back(manifest, folder)
    issues = data.metadata.ctx.issues
    assert not issues.errors
    unknown = [w for w in issues.warnings if "citeAs" not in w and "datePublished" not in w]
    assert not unknown
    assert "not standard" not in caplog.text


def test_what_is_read_back_is_what_the_manifest_says(manifest: Manifest, folder: Path) -> None:
    metadata = read_back(manifest, folder).metadata
    assert metadata.name == "small"
    assert metadata.version == "3.0.0"
    assert metadata.license == ["MIT"]
    assert metadata.in_language == ["en"]
    files = {file.id: file for file in metadata.file_objects}
    assert files["documents.jsonl"].sha256 == manifest.documents_sha256
    assert files["tokenizer.json"].sha256 == "d" * 64
    assert files["ngrams.npz"].sha256 == "e" * 64
    assert files["shards/train-docs.bin"].content_size == "180 B"
    assert files["shards/train-docs.index"].content_size == "48 B"
    assert len(files) == 3 + 2 * 3


def test_sealed_files_are_listed_with_hashes_and_marked(manifest: Manifest, folder: Path) -> None:
    for file in read_back(manifest, folder).metadata.file_objects:
        is_sealed = file.id.startswith("sealed/")
        assert file.description.startswith("Sealed") == is_sealed
        assert file.sha256


def test_records_of_documents_are_read_from_the_corpus_folder(
    manifest: Manifest, folder: Path
) -> None:
    records = list(read_back(manifest, folder).records("documents"))
    assert len(records) == 5
    plain = [
        {
            key.removeprefix("documents/"): value.decode() if isinstance(value, bytes) else value
            for key, value in record.items()
        }
        for record in records
    ]
    assert plain == [document(number) for number in range(5)]


def test_file_that_is_not_the_one_described_is_refused_by_its_hash(
    manifest: Manifest, folder: Path
) -> None:
    data = read_back(manifest, folder)
    with (folder / "documents.jsonl").open("a") as file:
        file.write(json.dumps(document(9)) + "\n")
    with pytest.raises(Exception, match=r"Download\(documents\.jsonl\)") as refused:
        list(data.records("documents"))
    assert "hash" in str(refused.value.__cause__).lower()


def test_filters_and_overlap_are_told(manifest: Manifest) -> None:
    told = croissant(manifest)
    (stage, *_) = told["rai:dataPreprocessingProtocol"]
    assert stage.startswith("language: removed docs: 3 documents, 390 bytes.")
    assert '"score": "0.92"' in stage
    (first, *_) = told["rai:dataLimitations"]
    assert "The licence of 3 documents is not stated." in told["rai:dataLimitations"]
    assert first.startswith("Contamination of test: 1 of 9 documents have at least 0.5 of its 13-")


def test_built_corpus_is_read_back_from_its_own_folder(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(corpus.folder, folder)
    data = read_back(corpus.manifest, folder)
    assert not data.metadata.ctx.issues.errors
    lines = (folder / "documents.jsonl").read_text("utf-8").splitlines()
    listed = [json.loads(line) for line in lines]
    records = list(data.records("documents"))
    assert [int(r["documents/tokens"]) for r in records] == [line["tokens"] for line in listed]
    assert {f"documents/{name}" for name in listed[0]} == set(records[0])
    for file in data.metadata.file_objects:
        path = folder / file.content_url
        assert file_sha256(path) == file.sha256
        if file.content_size:
            assert file.content_size == f"{path.stat().st_size} B"


def test_nobody_is_made_up_as_creator(manifest: Manifest) -> None:
    told = json.dumps(croissant(manifest))
    assert "creator" not in told
    assert "datePublished" not in told


def test_equal_manifests_give_equal_bytes(manifest: Manifest) -> None:
    again = Manifest.model_validate(manifest.model_dump(mode="json"))
    assert json.dumps(croissant(manifest)) == json.dumps(croissant(again))
