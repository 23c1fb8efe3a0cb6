"""Text files, JSON lines, Parquet and hub data sets, all read through Hugging Face ``datasets``.

Everything is streamed: nothing is copied into that library's cache, and no more rows are read
than the corpus takes.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets

from workbench.data.config import SourceConfig
from workbench.data.documents import Document, pieces
from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError

_SUFFIXES = {
    "text": (".txt", ".md", ".rst"),
    "jsonl": (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst"),
    "parquet": (".parquet",),
}
"""What is taken from a folder; a path to one file may end as it likes."""

_BUILDERS = {"text": "text", "jsonl": "json", "parquet": "parquet"}


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


def file_documents(
    config: SourceConfig, *, root: Path, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of local files.

    A row of JSON lines or Parquet is a document. A text file is cut into documents of at most
    ``max_document_bytes`` at line ends, since a text file is as often a whole collection.

    Raises:
        NotFoundError: nothing at the path.
        InvalidFileError: a file that is not of its kind, or a missing column.
    """
    kind = config.source.partition(":")[0]
    files = source_files(config.source, root=root)
    column = "text" if kind == "text" else config.text_field
    # The library keeps locks even of what it only streams: not in the user's home.
    with tempfile.TemporaryDirectory() as cache:
        rows = _load(kind, files, config.source, cache)
        for number, text in enumerate(_column(rows, column, config.source)):
            where = f"{config.source}#{number}"
            if kind != "text":
                yield Document(id=where, text=text, provenance=config.source)
                continue
            for part, piece in enumerate(pieces(text, max_document_bytes)):
                yield Document(id=f"{where}.{part}", text=piece, provenance=config.source)


def hub_documents(config: SourceConfig, name: str) -> Iterator[Document]:
    """Yield the rows of a hub data set ``NAME[@REVISION]`` as documents.

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
    for number, text in enumerate(_column(rows, config.text_field, config.source)):
        yield Document(id=f"{config.source}#{number}", text=text, provenance=config.source)


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


def _column(rows: Any, column: str, source: str) -> Iterator[str]:
    """Yield a column's texts; a row whose value is no text yields the empty text."""
    try:
        for row in rows:
            if column not in row:
                raise InvalidFileError(
                    f"source {source!r} has no column {column!r} (columns: {', '.join(row)})",
                    remedy="set text_field in the recipe",
                )
            yield row[column] if isinstance(row[column], str) else ""
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise _unreadable(source, error) from error


def _unreadable(source: str, error: Exception) -> InvalidFileError:
    return InvalidFileError(
        f"source {source!r} cannot be read: {error}", remedy="repair the file or the recipe"
    )
