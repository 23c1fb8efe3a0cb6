import gzip
import logging
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
    with pytest.raises(InvalidFileError, match=r"a\.jsonl:2 is no JSON: Expecting value at"):
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


ODD_NAMES = ["b[1]", "a*", "a?b", "a::b", "x{1}", "~t", "q'\"", "new\nline", "a#b", "a%20b", "file"]


def one_row(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": [text]}), path)
    elif path.suffix == ".jsonl":
        write_jsonl(path, [text])
    else:
        path.write_text(text)


@pytest.mark.parametrize(("kind", "ending"), [("text", "txt"), ("jsonl", "jsonl")])
def test_names_that_are_patterns_are_read_as_themselves(
    kind: str, ending: str, tmp_path: Path
) -> None:
    for name in [*ODD_NAMES, "b1", "a-unlisted", "axb"]:
        one_row(tmp_path / "odd" / f"{name}.{ending}", name)
    for name in ODD_NAMES:
        (document,) = read(f"{kind}:odd/{name}.{ending}", tmp_path)
        assert document.text == name
    found = read(f"{kind}:odd", tmp_path)
    assert sorted(d.text for d in found) == sorted([*ODD_NAMES, "b1", "a-unlisted", "axb"])
    assert all(d.id.startswith(f"odd/{d.text}.{ending}#") for d in found)


def test_parquet_name_that_is_a_pattern_is_read_as_itself(tmp_path: Path) -> None:
    for name in ("b[1]", "b1", "a::b"):
        one_row(tmp_path / "odd" / f"{name}.parquet", name)
    assert [d.text for d in read("parquet:odd", tmp_path)] == ["a::b", "b1", "b[1]"]
    assert [d.text for d in read("parquet:odd/b[1].parquet", tmp_path)] == ["b[1]"]


def parquet(path: Path, table: pyarrow.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)


def test_parquet_columns_that_are_not_asked_for_may_hold_anything(tmp_path: Path) -> None:
    odd = pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    parquet(tmp_path / "p" / "a.parquet", pyarrow.table({"text": ["one"], "x": odd}))
    parquet(tmp_path / "p" / "b.parquet", pyarrow.table({"x": [1], "text": ["two"]}))
    assert [d.text for d in read("parquet:p", tmp_path)] == ["one", "two"]


def test_parquet_types_do_not_depend_on_another_file(tmp_path: Path) -> None:
    parquet(tmp_path / "p" / "a.parquet", pyarrow.table({"text": ["one"]}))
    parquet(tmp_path / "p" / "b.parquet", pyarrow.table({"text": [5]}))
    parquet(tmp_path / "p" / "c.parquet", pyarrow.table({"text": pyarrow.array([], "string")}))
    documents = read("parquet:p", tmp_path)
    assert [(d.text, d.has_text) for d in documents] == [("one", True), ("", False)]


def test_parquet_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    columns = [pyarrow.array(["one"]), pyarrow.array(["two"])]
    parquet(tmp_path / "a.parquet", pyarrow.Table.from_arrays(columns, names=["text", "text"]))
    with pytest.raises(InvalidFileError, match=r"a\.parquet has 2 columns 'text'"):
        read("parquet:a.parquet", tmp_path)


def test_parquet_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    offsets = pyarrow.array([0, 3], "int32").buffers()[1]
    column = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(b"ab\xff")]
    )
    parquet(tmp_path / "a.parquet", pyarrow.table({"text": column}))
    with pytest.raises(InvalidFileError, match=r"a\.parquet cannot be read"):
        read("parquet:a.parquet", tmp_path)


def test_jsonl_column_in_some_later_row_is_there(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "j" / "a.jsonl", ["one"])
    (tmp_path / "j" / "b.jsonl").write_text('{"text": "two", "lic": "MIT"}\n{"id": 1}\n')
    documents = read("jsonl:j", tmp_path, licence_field="lic", licence="CC0-1.0")
    assert [(d.text, d.licence, d.has_text) for d in documents] == [
        ("one", "CC0-1.0", True),
        ("two", "MIT", True),
        ("", "CC0-1.0", False),
    ]


def test_jsonl_second_column_that_no_row_has_is_refused_however_little_is_taken(
    tmp_path: Path,
) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["one", "two"])
    config = SourceConfig(source="jsonl:a.jsonl", max_bytes=1, licence_field="license_id")
    with pytest.raises(InvalidFileError, match="no column 'license_id'") as caught:
        next(read_source(config, root=tmp_path, max_document_bytes=100))
    assert "licence_field" in caught.value.remedy


def test_text_source_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (document,) = read("text:a.txt", tmp_path, text_field="body", language_field="text")
    assert (document.text, document.language) == ("one", "")


def test_compressed_text_file_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.txt.GZ").write_bytes(gzip.compress(b"one"))
    assert [d.text for d in read("text:a.txt.GZ", tmp_path)] == ["one"]


def test_text_that_starts_as_an_archive_does_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BZh is how an archive begins\n")
    assert [d.text for d in read("text:a.txt", tmp_path)] == ["BZh is how an archive begins\n"]


def test_library_logs_nothing_beside_a_refusal_and_keeps_its_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("datasets")
    level = logger.level
    caplog.set_level(logging.WARNING)
    (tmp_path / "a.txt").write_bytes(b"abc \xff\xfe")
    (tmp_path / "good.txt").write_text("text\n")
    with caplog.at_level(logging.WARNING, "datasets"):
        logger.propagate = True
        with pytest.raises(InvalidFileError):
            read("text:a.txt", tmp_path)
        documents = read_source(
            SourceConfig(source="text:good.txt", max_bytes=9),
            root=tmp_path,
            max_document_bytes=100,
        )
        next(documents)
        assert logger.level == logging.WARNING  # also while a source is half read
    assert caplog.records == []
    assert logger.level == level
