"""The text of one source, whichever kind it is, and what decides it."""

import os
from collections.abc import Iterator
from pathlib import Path

from workbench.canonical import Json
from workbench.data.config import ReferenceConfig
from workbench.data.manifest import FileHash, file_sha256
from workbench.data.text.builtin import builtin_documents, builtin_versions
from workbench.data.text.documents import Document
from workbench.data.text.files import source_files
from workbench.data.text.hosted import file_documents, hub_documents

_LOCAL = ("text", "jsonl", "parquet")


def is_local(source: str) -> bool:
    """Return whether a source is files of this machine."""
    return source.partition(":")[0] in _LOCAL


def read_source(
    config: ReferenceConfig, *, root: Path, max_document_bytes: int
) -> Iterator[Document]:
    """Yield the documents of a source in its own fixed order, without its ``max_bytes``.

    Raises:
        NotFoundError: no such built-in text, file or hosted data set.
        InvalidFileError: a path outside the lab, an unreadable file or a missing column.
    """
    kind, _, name = config.source.partition(":")
    if kind == "builtin":
        return builtin_documents(name)
    if kind == "hub":
        return hub_documents(config, name)
    return file_documents(config, root=root, max_document_bytes=max_document_bytes)


def file_hashes(source: str, *, root: Path) -> tuple[FileHash, ...]:
    """Return the hash of every file of a local source, in the order of reading; else nothing.

    Raises:
        NotFoundError: no such file.
        InvalidFileError: a path outside the lab.
    """
    if not is_local(source):
        return ()
    files = source_files(source, root=root)
    base = Path(os.path.commonpath([file.parent for file in files]))
    return tuple(
        FileHash(path=file.relative_to(base).as_posix(), sha256=file_sha256(file)) for file in files
    )


def source_identity(config: ReferenceConfig, *, root: Path) -> dict[str, Json]:
    """Return what decides a source's text: its configuration, files and built-in versions."""
    kind, _, name = config.source.partition(":")
    return {
        **config.model_dump(mode="json"),
        "files": [file.model_dump(mode="json") for file in file_hashes(config.source, root=root)],
        "versions": builtin_versions(name) if kind == "builtin" else {},
    }
