from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from tests.data.texts import write_jsonl
from workbench.data.config import SourceConfig
from workbench.data.text import hosted
from workbench.data.text.documents import Document
from workbench.data.text.sources import read_source
from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError, WorkbenchError


def read(source: str, root: Path, **changes: object) -> list[Document]:
    config = SourceConfig.model_validate({"source": source, "max_bytes": 1000, **changes})
    return list(read_source(config, root=root, max_document_bytes=100))


def test_jsonl_rows_are_documents_in_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["one", "two"])
    assert read("jsonl:a.jsonl", tmp_path) == [
        Document(id="a.jsonl#0", text="one", provenance="jsonl:a.jsonl"),
        Document(id="a.jsonl#1", text="two", provenance="jsonl:a.jsonl"),
    ]


def test_jsonl_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("c", "a", "b/b"):
        write_jsonl(tmp_path / "texts" / f"{name}.jsonl", [name])
    assert [d.text for d in read("jsonl:texts", tmp_path)] == ["a", "b/b", "c"]


def test_jsonl_missing_column_names_those_there_are(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["one"])
    with pytest.raises(InvalidFileError, match=r"no column 'body' \(columns: text\)"):
        read("jsonl:a.jsonl", tmp_path, text_field="body")


def test_jsonl_null_value_is_an_empty_document(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["one", None, "two"])
    assert [d.text for d in read("jsonl:a.jsonl", tmp_path)] == ["one", "", "two"]


def test_jsonl_broken_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": \n')
    with pytest.raises(InvalidFileError, match=r"jsonl:a\.jsonl' cannot be read"):
        read("jsonl:a.jsonl", tmp_path)


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    table = pyarrow.table({"body": ["one", "two"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    read_texts = [d.text for d in read("parquet:a.parquet", tmp_path, text_field="body")]
    assert read_texts == ["one", "two"]


def test_parquet_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("not parquet")
    with pytest.raises(InvalidFileError, match="cannot be read"):
        read("parquet:a.parquet", tmp_path)


def test_text_file_is_cut_at_line_ends(tmp_path: Path) -> None:
    text = "".join(f"line {i}\n" for i in range(40))
    (tmp_path / "a.txt").write_text(text)
    documents = read("text:a.txt", tmp_path)
    assert [d.id for d in documents] == [f"a.txt#0.{part}" for part in range(4)]
    assert "".join(d.text for d in documents) == text
    assert all(d.text.endswith("\n") and len(d.text) <= 100 for d in documents)


def test_text_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc \xff\xfe")
    with pytest.raises(InvalidFileError, match="cannot be read"):
        read("text:a.txt", tmp_path)


def test_absolute_path_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    assert len(read(f"text:{tmp_path}/a.txt", tmp_path / "elsewhere")) == 1


@pytest.mark.parametrize("path", ["../a.txt", "x/../../a.txt", ""])
def test_relative_path_out_of_the_lab_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "lab").mkdir()
    with pytest.raises(InvalidFileError, match="leaves the lab"):
        read(f"text:{path}", tmp_path / "lab")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no text file at .*nothing\.txt"):
        read("text:nothing.txt", tmp_path)


def test_hub_rows_of_a_revision_are_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load_dataset(*names: str, **options: object) -> datasets.IterableDataset:
        asked.append((*names, options))
        rows = datasets.Dataset.from_list([{"text": "one"}, {"text": "two"}])
        return rows.to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    documents = read("hub:someone/something@abc", tmp_path, split="dev")
    assert [d.text for d in documents] == ["one", "two"]
    assert asked == [
        ("someone/something", {"split": "dev", "revision": "abc", "streaming": True}),
    ]


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        (ConnectionError("offline"), StoreUnavailableError),
        (datasets.exceptions.DatasetNotFoundError("no such"), NotFoundError),
        (ValueError("unknown split"), NotFoundError),
    ],
)
def test_hub_faults_become_refusals_with_a_remedy(
    fault: Exception,
    refusal: type[WorkbenchError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_dataset(*names: str, **options: object) -> None:
        raise fault

    monkeypatch.setattr(hosted.datasets, "load_dataset", load_dataset)
    with pytest.raises(refusal, match="hub:someone/something") as caught:
        read("hub:someone/something", tmp_path)
    assert caught.value.remedy
