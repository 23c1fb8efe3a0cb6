"""Text files, JSON lines, Parquet and hub data sets as documents.

Hugging Face ``datasets`` reads all but JSON lines. Everything is streamed: nothing is copied into
that library's cache, and no more rows are read than the corpus takes.
"""

import contextlib
import glob
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet

from workbench.data.config import ReferenceConfig, SourceConfig
from workbench.data.text.documents import Document, pieces
from workbench.data.text.files import FileGroup, file_groups
from workbench.data.text.json_lines import json_rows
from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError

_BATCH = 256
_MOST_NAMES = 50
_WHOLE = "text"
"""Column in which the library gives a text file."""
_ENDINGS = {"text": ".txt", "parquet": ".parquet"}
_PACKED = (".gz", ".bz2", ".xz")
"""Endings by which the library tells a compressed text file; by others it would look inside."""

_FAULTS = (
    OSError,
    ValueError,
    EOFError,
    RecursionError,
    pyarrow.ArrowException,
    datasets.exceptions.DatasetsError,
)


def local_groups(config: ReferenceConfig, *, root: Path) -> list[FileGroup]:
    """Return a local source's files in groups, as `file_groups`, once its columns are there.

    Of JSON lines each column must be in a row of some file: where rows may leave a column out,
    only a name that no row has is surely a slip.

    Raises:
        InvalidFileError: as `files.source_files`, or a column of JSON lines that no row has.
        NotFoundError: nothing at the path.
    """
    groups = file_groups(config.source, root=root)
    if config.source.startswith("jsonl:"):
        rows = (
            row
            for group in groups
            for file, name in zip(group.files, group.names, strict=True)
            for row in json_rows(file, name=name)
        )
        _refuse_missing(config, rows)
    return groups


def _refuse_missing(config: ReferenceConfig, rows: Iterable[Mapping[str, Any]]) -> None:
    missing = set(_columns(config).values())
    seen = dict[str, None]()
    for row in rows:
        missing -= row.keys()
        if not missing:
            return
        if len(seen) < _MOST_NAMES:
            seen |= dict.fromkeys(row)
    if not seen:
        raise InvalidFileError(
            f"source {config.source!r} has no row with a value",
            remedy="put text into the file, or remove the source from the recipe",
        )
    raise _missing(config, min(missing), list(seen)[:_MOST_NAMES], config.source)


def _missing(
    config: ReferenceConfig, column: str, there: list[str], where: str
) -> InvalidFileError:
    field = next(field for field, name in _columns(config).items() if name == column)
    return InvalidFileError(
        f"{where} has no column {column!r} (columns: {', '.join(there)})",
        remedy=f"set {field} in the recipe",
    )


def _columns(config: ReferenceConfig) -> dict[str, str]:
    """Return the columns that are read, by the recipe's key that names them."""
    if config.source.startswith("text:"):
        return {"text_field": _WHOLE}
    fields = ("text_field", "language_field", "licence_field")
    named = {field: getattr(config, field, None) for field in fields}
    return {field: name for field, name in named.items() if name is not None}


def group_documents(
    config: ReferenceConfig, group: FileGroup, *, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of local files, in order.

    A row of JSON lines or Parquet is a document, ``path#row``. A text file is cut into documents
    of at most ``max_document_bytes`` at line ends, ``path#row.part``, since a text file is as often
    a whole collection.

    Raises:
        InvalidFileError: a file that is not of its kind, or lacks a column of Parquet.
    """
    kind = config.source.partition(":")[0]
    for file, name in zip(group.files, group.names, strict=True):
        if kind == "text":
            yield from _text_documents(config, file, name, max_document_bytes)
        elif kind == "parquet":
            yield from _row_documents(_parquet_rows(config, file, name), config, name)
        else:
            yield from _row_documents(json_rows(file, name=name), config, name)


def _text_documents(
    config: ReferenceConfig, file: Path, name: str, max_document_bytes: int
) -> Iterator[Document]:
    part = 0
    for row in _file_rows(config, file, name, sample_by="document"):
        for piece in pieces(row[_WHOLE], max_document_bytes):
            yield _document(config, f"{name}#0.{part}", {_WHOLE: piece})
            part += 1


def _row_documents(
    rows: Iterable[Mapping[str, Any]], config: ReferenceConfig, name: str
) -> Iterator[Document]:
    for number, row in enumerate(rows):
        yield _document(config, f"{name}#{number}", row)


def _document(config: ReferenceConfig, name: str, row: Mapping[str, Any]) -> Document:
    """Return a row as a document; a value that is no string is none, whatever its column holds."""
    columns = _columns(config)
    read = {field: row.get(column) for field, column in columns.items()}
    values = {field: value for field, value in read.items() if isinstance(value, str)}
    stated = config.licence or "" if isinstance(config, SourceConfig) else ""
    return Document(
        id=name,
        text=values.get("text_field", ""),
        has_text="text_field" in values,
        provenance=config.source,
        licence=values.get("licence_field") or stated,
        language=values.get("language_field", ""),
    )


def file_documents(
    config: ReferenceConfig, *, root: Path, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of a local source, group by group.

    Raises:
        NotFoundError: nothing at the path.
        InvalidFileError: a file that is not of its kind, or a missing column.
    """
    for group in local_groups(config, root=root):
        yield from group_documents(config, group, max_document_bytes=max_document_bytes)


def hub_documents(config: ReferenceConfig, name: str) -> Iterator[Document]:
    """Yield the rows of a hub data set ``NAME[@REVISION]`` as documents ``NAME#row``.

    Raises:
        NotFoundError: no such data set, split or revision.
        StoreUnavailableError: the hub cannot be reached.
        InvalidFileError: a missing column.
    """
    repository, _, revision = name.partition("@")
    try:
        rows = datasets.load_dataset(
            repository, split=config.split, revision=revision or None, streaming=True
        )
    except ConnectionError as error:
        raise StoreUnavailableError(
            f"source {config.source!r}: the hub cannot be reached ({error})",
            remedy="connect to the network, or use builtin:, text:, jsonl: or parquet: sources",
        ) from error
    except (FileNotFoundError, ValueError) as error:
        raise NotFoundError(
            f"source {config.source!r}, split {config.split!r}: {error}",
            remedy="correct the name, revision or split in the recipe",
        ) from error
    yield from _row_documents(_rows(config, rows, f"source {config.source!r}"), config, repository)


def _parquet_rows(config: ReferenceConfig, file: Path, name: str) -> Iterator[dict[str, Any]]:
    wanted = list(dict.fromkeys(_columns(config).values()))
    with _refused(name):
        schema = pyarrow.parquet.read_schema(file)
    _refuse_unread(config, schema.names, name)
    with _refused(name):
        # Only these: a column that nobody asked for may have a type that the library lacks.
        fields = pyarrow.schema([schema.field(column) for column in wanted])
        features = datasets.Features.from_arrow_schema(fields)
    # A size of its own: by default that of the first row group, which may be huge or none.
    options = {"columns": wanted, "features": features, "batch_size": _BATCH}
    yield from _file_rows(config, file, name, **options)


def _file_rows(
    config: ReferenceConfig, file: Path, name: str, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one file, whose columns take no types from another file's."""
    # The library keeps locks even of what it only streams: not in the user's home. It takes a path
    # for a pattern: it sees a link whose name is none.
    kind = config.source.partition(":")[0]
    with tempfile.TemporaryDirectory() as scratch:
        ending = file.suffix.lower()
        link = Path(scratch, f"file{ending if ending in _PACKED else _ENDINGS[kind]}")
        link.symlink_to(file.absolute())
        with _refused(name), _quiet():
            rows = datasets.load_dataset(
                kind,
                data_files=[glob.escape(str(link))],
                split="train",
                streaming=True,
                cache_dir=scratch,
                **options,
            )
        yield from _rows(config, rows, name)


def _rows(config: ReferenceConfig, rows: Any, where: str) -> Iterator[dict[str, Any]]:
    """Yield the asked columns of each row."""
    batches = rows.with_format("arrow").iter(batch_size=_BATCH)
    wanted = list(dict.fromkeys(_columns(config).values()))
    while True:
        with _refused(where), _quiet():
            batch = next(batches, None)
        if batch is None:
            return
        _refuse_unread(config, batch.column_names, where)
        with _refused(where):
            read = batch.select(wanted).to_pylist()
        yield from read


def _refuse_unread(config: ReferenceConfig, there: list[str], where: str) -> None:
    for column in _columns(config).values():
        if column not in there:
            raise _missing(config, column, there, where)
        if there.count(column) > 1:
            raise InvalidFileError(
                f"{where} has {there.count(column)} columns {column!r}",
                remedy="write the file again with one of them",
            )


@contextlib.contextmanager
def _refused(name: str) -> Iterator[None]:
    """Turn the faults of an input into a refusal that names it."""
    try:
        yield
    except _FAULTS as error:
        raise InvalidFileError(
            f"{name} cannot be read: {error}", remedy="repair the file or the recipe"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from logging what a refusal says."""
    logger = logging.getLogger("datasets")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
