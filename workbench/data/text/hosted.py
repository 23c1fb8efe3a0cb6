"""Text files, JSON lines, Parquet and hub data sets, all read through Hugging Face ``datasets``.

Everything is streamed: nothing is copied into that library's cache, and no more rows are read
than the corpus takes.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import datasets

from workbench.data.config import ReferenceConfig, SourceConfig
from workbench.data.text.documents import Document, pieces
from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError

_SUFFIXES = {
    "text": (".txt", ".md", ".rst"),
    "jsonl": (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst"),
    "parquet": (".parquet",),
}
"""What is taken from a folder; a path to one file may end as it likes."""

_BUILDERS = {"text": "text", "jsonl": "json", "parquet": "parquet"}
_GROUP_BYTES = 16_000_000
_MOST_FILES = 256
_BATCH = 256


def source_files(source: str, *, root: Path) -> list[Path]:
    """Return the files of a ``text:``, ``jsonl:`` or ``parquet:`` source in their fixed order.

    A relative path starts at the lab's root; a folder stands for all its files of the kind, in the
    order of their names.

    Raises:
        InvalidFileError: a relative path that leaves the lab.
        NotFoundError: nothing there.
    """
    kind, _, name = source.partition(":")
    path = _inside(name, root)
    if path.is_file():
        return [path]
    found = [p for p in path.rglob("*") if p.is_file() and p.name.endswith(_SUFFIXES[kind])]
    if not found:
        raise NotFoundError(
            f"source {source!r}: no {kind} file at {path}",
            remedy="correct the path in the recipe, or put the file there",
        )
    return sorted(found, key=lambda p: p.relative_to(path).as_posix())


def _inside(name: str, root: Path) -> Path:
    if Path(name).is_absolute():
        return Path(name)
    # Lexically: a link inside the lab to data elsewhere is the researcher's own choice.
    normal = Path(os.path.normpath(name))
    if not name or normal.parts[:1] == (os.pardir,):
        raise InvalidFileError(
            f"source path {name!r} leaves the lab",
            remedy="give an absolute path, or a link inside the lab",
        )
    return root / normal


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files of a source that are read together: a shard of it."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    """What the documents of each file are called: the source's path, without the machine's."""


def file_groups(source: str, *, root: Path) -> list[FileGroup]:
    """Return a local source's files in their order, in groups that different processes may read.

    A file of its own unless it is small: many small ones are one group. The groups hang on the
    files alone, never on how many processes there are.

    Raises:
        InvalidFileError: a relative path that leaves the lab.
        NotFoundError: nothing there.
    """
    groups: list[list[Path]] = []
    room = 0
    for file in source_files(source, root=root):
        size = file.stat().st_size
        if not groups or size > room or len(groups[-1]) == _MOST_FILES:
            groups.append([])
            room = _GROUP_BYTES
        groups[-1].append(file)
        room -= size
    names = partial(_document_name, source, root)
    return [FileGroup(files=tuple(files), names=tuple(map(names, files))) for files in groups]


def _document_name(source: str, root: Path, file: Path) -> str:
    path = source.partition(":")[2]
    # Of an absolute path only the last part: where it lies is the machine's affair.
    base = Path(path).parent if Path(path).is_absolute() else root
    return file.relative_to(base).as_posix()


def group_documents(
    config: ReferenceConfig, group: FileGroup, *, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of local files, in order.

    A row of JSON lines or Parquet is a document, ``path#row``. A text file is cut into documents
    of at most ``max_document_bytes`` at line ends, ``path#row.part``, since a text file is as often
    a whole collection.

    Raises:
        InvalidFileError: a file that is not of its kind, or a missing column.
    """
    kind = config.source.partition(":")[0]
    # The library keeps locks even of what it only streams: not in the user's home.
    with tempfile.TemporaryDirectory() as cache:
        rows = _load(kind, group.files, config.source, cache)
        if kind == "text":
            yield from _text_documents(rows, config, group, max_document_bytes)
            return
        for place, name in enumerate(group.names):
            shard = rows.shard(num_shards=len(group.files), index=place, contiguous=True)
            yield from _row_documents(shard, config, name)


def _text_documents(
    rows: Any, config: ReferenceConfig, group: FileGroup, max_document_bytes: int
) -> Iterator[Document]:
    whole = _Columns(text="text", language=None, licence=None)
    for name, (text, _, _) in zip(group.names, _cells(rows, whole, config.source), strict=True):
        for part, piece in enumerate(pieces(text, max_document_bytes)):
            yield _document(config, f"{name}#0.{part}", piece, "", "")


def _row_documents(rows: Any, config: ReferenceConfig, name: str) -> Iterator[Document]:
    columns = _Columns(
        text=config.text_field,
        language=getattr(config, "language_field", None),
        licence=getattr(config, "licence_field", None),
    )
    for number, (text, language, licence) in enumerate(_cells(rows, columns, config.source)):
        yield _document(config, f"{name}#{number}", text, language, licence)


def _document(
    config: ReferenceConfig, name: str, text: str, language: str, licence: str
) -> Document:
    stated = config.licence or "" if isinstance(config, SourceConfig) else ""
    return Document(
        id=name,
        text=text,
        provenance=config.source,
        licence=licence or stated,
        language=language,
    )


def file_documents(
    config: ReferenceConfig, *, root: Path, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of a local source, group by group.

    Raises:
        NotFoundError: nothing at the path.
        InvalidFileError: a file that is not of its kind, or a missing column.
    """
    for group in file_groups(config.source, root=root):
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
    yield from _row_documents(rows, config, repository)


def _load(kind: str, files: Sequence[Path], source: str, cache: str) -> Any:
    options: dict[str, Any] = {"sample_by": "document"} if kind == "text" else {}
    try:
        return datasets.load_dataset(
            _BUILDERS[kind],
            data_files=[str(file) for file in files],
            split="train",
            streaming=True,
            cache_dir=cache,
            **options,
        )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise _unreadable(source, error) from error


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """Names of the columns that are read; None is not read."""

    text: str
    language: str | None
    licence: str | None


def _cells(rows: Any, columns: _Columns, source: str) -> Iterator[tuple[str, str, str]]:
    """Yield text, language and licence of each row; a value that is no text is empty."""
    try:
        for batch in rows.with_format("arrow").iter(batch_size=_BATCH):
            yield from zip(
                _column(batch, "text_field", columns.text, source),
                _column(batch, "language_field", columns.language, source),
                _column(batch, "licence_field", columns.licence, source),
                strict=True,
            )
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise _unreadable(source, error) from error


def _column(batch: Any, field: str, name: str | None, source: str) -> list[str]:
    if name is None:
        return [""] * batch.num_rows
    if name not in batch.column_names:
        raise InvalidFileError(
            f"source {source!r} has no column {name!r} (columns: {', '.join(batch.column_names)})",
            remedy=f"set {field} in the recipe",
        )
    return [cell if isinstance(cell, str) else "" for cell in batch.column(name).to_pylist()]


def _unreadable(source: str, error: Exception) -> InvalidFileError:
    return InvalidFileError(
        f"source {source!r} cannot be read: {error}", remedy="repair the file or the recipe"
    )
