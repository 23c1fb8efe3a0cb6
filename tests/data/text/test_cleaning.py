import json
from pathlib import Path

import pytest

from tests.data.texts import sentences, write_jsonl
from workbench.data.config import ReferenceConfig, SourceConfig
from workbench.data.text.cleaning import (
    Cleaned,
    Cleaning,
    cleaned,
    cleaned_documents,
    reference_texts,
)
from workbench.data.text.dedup import content_digest
from workbench.data.text.documents import Document
from workbench.data.workers import Workers

CLEANING = Cleaning(max_document_bytes=200, excluded=frozenset(["texts/b.jsonl#3"]))


def document(text: str, name: str = "a#0") -> Document:
    return Document(id=name, text=text, provenance="tests", licence="MIT", language="en")


def test_cleaned_text_that_fits_is_measured_and_told_by_its_content() -> None:
    ready = cleaned(document("Grüße\n"), CLEANING)
    assert (ready.text, ready.num_bytes, ready.whole_bytes, ready.fault) == ("Grüße\n", 8, 8, "")
    assert ready.digest == content_digest("grüße")
    assert (ready.provenance, ready.licence, ready.language) == ("tests", "MIT", "en")


def test_cleaned_long_text_is_cut_before_its_content_is_told() -> None:
    ready = cleaned(document("a line of text\n" * 20), CLEANING)
    assert (ready.num_bytes, ready.whole_bytes) == (195, 300)
    assert ready.digest == content_digest("a line of text\n" * 13)


@pytest.mark.parametrize(
    ("text", "name", "fault"),
    [
        ("", "a#0", "empty"),
        (" \n\t", "a#0", "empty"),
        ("a lone \ud800 surrogate", "a#0", "no UTF-8 form"),
        ("text", "texts/b.jsonl#3", "excluded by hand"),
    ],
)
def test_cleaned_document_with_a_fault_has_no_digest(text: str, name: str, fault: str) -> None:
    """D7: "" is handled."""
    ready = cleaned(document(text, name), CLEANING)
    assert (ready.fault, ready.digest) == (fault, "")


def test_cleaned_document_without_a_string_is_told_from_an_empty_one() -> None:
    nothing = Document(id="a#0", text="", provenance="tests", has_text=False)
    assert cleaned(nothing, CLEANING).fault == "no text"


def write_files(root: Path) -> None:
    for seed, name in enumerate("abcd"):
        texts = [*sentences("code", 30, seed), "", "shared text"]
        write_jsonl(root / "texts" / f"{name}.jsonl", texts)
    write_jsonl(root / "texts" / "e.jsonl", ["the last"])


def read(root: Path, max_bytes: int, workers: Workers) -> list[Cleaned]:
    config = SourceConfig(source="jsonl:texts", max_bytes=max_bytes)
    scratch = root / "scratch"
    scratch.mkdir(exist_ok=True)
    found = list(cleaned_documents(config, CLEANING, root=root, scratch=scratch, workers=workers))
    assert list(scratch.iterdir()) == []
    return found


@pytest.mark.slow
def test_cleaned_documents_are_the_same_for_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.data.text.files._GROUP_BYTES", 1)  # each file is a group
    write_files(tmp_path)
    one = read(tmp_path, 10**9, Workers(1))
    assert [d.id for d in one[:32]] == [f"texts/a.jsonl#{row}" for row in range(32)]
    assert len(one) == 4 * 32 + 1
    assert {d.fault for d in one} == {"", "empty", "excluded by hand"}
    with Workers(3) as workers:
        assert read(tmp_path, 10**9, workers) == one
        # Where a worker stops early, what it did not read is read all the same.
        assert read(tmp_path, 1000, workers) == one


def test_cleaned_documents_of_columns_say_language_and_licence(tmp_path: Path) -> None:
    rows = [
        {"text": "one", "lang": "en", "terms": "MIT"},
        {"text": "two", "lang": None, "terms": ""},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = SourceConfig(
        source="jsonl:a.jsonl", max_bytes=100, language_field="lang", licence_field="terms",
        licence="CC0-1.0",
    )  # fmt: skip
    found = cleaned_documents(config, CLEANING, root=tmp_path, scratch=tmp_path, workers=Workers(1))
    assert [(d.language, d.licence) for d in found] == [("en", "MIT"), ("", "CC0-1.0")]


def test_reference_texts_end_where_max_bytes_are_reached(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["", "x" * 60, "y" * 60, "z" * 60])
    config = ReferenceConfig(source="jsonl:a.jsonl", max_bytes=100)
    found = list(reference_texts(config, root=tmp_path, max_document_bytes=50))
    assert found == [("a.jsonl#1", "x" * 50), ("a.jsonl#2", "y" * 50)]
