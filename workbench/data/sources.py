"""The text of one domain, whichever kind of source it comes from."""

from collections.abc import Iterator
from pathlib import Path

from workbench.data.builtin import builtin_documents
from workbench.data.config import SourceConfig
from workbench.data.documents import Document
from workbench.data.hosted import file_documents, hub_documents


def read_source(config: SourceConfig, *, root: Path, max_document_bytes: int) -> Iterator[Document]:
    """Yield the documents of a source in its own fixed order.

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
