"""Documents as they enter a corpus: cut, measured, told apart by content; by many processes."""

import json
from collections.abc import Generator, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from workbench.data.config import ReferenceConfig
from workbench.data.text.dedup import content_digest
from workbench.data.text.documents import Document, cut_at_line_end
from workbench.data.text.files import FileGroup
from workbench.data.text.hosted import group_documents, local_groups
from workbench.data.text.sources import is_local, read_source
from workbench.data.workers import Workers

EXCLUDED = "excluded by hand"
"""Fault of a document that `CorpusConfig.exclude` names."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What happens to every document."""

    max_document_bytes: int
    excluded: frozenset[str]
    """Identities."""


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A document that is ready for the table, or has a fault and is left out."""

    id: str
    text: str
    digest: str
    """`dedup.content_digest` of the text, empty with a fault."""
    num_bytes: int
    """UTF-8 bytes of the text."""
    whole_bytes: int
    """UTF-8 bytes before the text was cut."""
    provenance: str
    licence: str
    language: str
    fault: str
    """``no text``, ``empty``, ``no UTF-8 form``, ``excluded by hand``, or nothing."""


def cleaned(document: Document, cleaning: Cleaning) -> Cleaned:
    """Return a document cut at a line end, with its digest, or with its fault."""
    fault = _fault(document, cleaning)
    text = document.text
    if not fault:
        text = cut_at_line_end(text, cleaning.max_document_bytes)
    whole_bytes = len(document.text.encode("utf-8", "surrogatepass"))
    return Cleaned(
        id=document.id,
        text=text,
        digest="" if fault else content_digest(text),
        num_bytes=whole_bytes if text is document.text else len(text.encode("utf-8")),
        whole_bytes=whole_bytes,
        provenance=document.provenance,
        licence=document.licence,
        language=document.language,
        fault=fault,
    )


def _fault(document: Document, cleaning: Cleaning) -> str:
    if document.id in cleaning.excluded:
        return EXCLUDED
    if not document.has_text:
        return "no text"
    if not document.text.strip():
        return "empty"
    try:
        document.text.encode("utf-8")
    except UnicodeEncodeError:
        return "no UTF-8 form"
    return ""


def cleaned_documents(
    source: ReferenceConfig,
    cleaning: Cleaning,
    *,
    root: Path,
    scratch: Path,
    workers: Workers,
) -> Generator[Cleaned, None, None]:
    """Yield a source's documents in its order, the same for any number of workers.

    Several processes read a local source of several files, each a group of them at a time.

    Args:
        source: where text comes from; its ``max_bytes`` is the caller's affair.
        cleaning: what happens to each document.
        root: the lab's folder.
        scratch: an existing folder for what is read ahead.
        workers: processes that read.

    Raises:
        NotFoundError: no such source.
        InvalidFileError: a source cannot be read.
        StoreUnavailableError: the hub cannot be reached.
        RunFailedError: a worker process died.
    """
    many = workers.num > 1 and is_local(source.source)
    groups = local_groups(source, root=root) if many else []
    if len(groups) < 2:
        most = cleaning.max_document_bytes
        for document in read_source(source, root=root, max_document_bytes=most):
            yield cleaned(document, cleaning)
        return
    tasks = (
        _Task(source=source, group=group, cleaning=cleaning, path=scratch / f"group-{number}.tmp")
        for number, group in enumerate(groups)
    )
    for ahead in workers.map(_read_ahead, tasks):
        yield from _stored(ahead.task.path)
        ahead.task.path.unlink()
        if not ahead.finished:
            yield from islice(_group(ahead.task), ahead.num_documents, None)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """A group of files for one worker, and where it puts what it read."""

    source: ReferenceConfig
    group: FileGroup
    cleaning: Cleaning
    path: Path


@dataclass(frozen=True, kw_only=True)
class _Ahead:
    """What a worker read of its group."""

    task: _Task
    num_documents: int
    finished: bool


def _group(task: _Task) -> Iterator[Cleaned]:
    most = task.cleaning.max_document_bytes
    for document in group_documents(task.source, task.group, max_document_bytes=most):
        yield cleaned(document, task.cleaning)


def _read_ahead(task: _Task) -> _Ahead:
    """Write a group's documents to a file: all, or as many as the source may need of them."""
    num_documents = num_bytes = 0
    finished = True
    # ASCII lines: a text that has no UTF-8 form comes back as it was.
    with task.path.open("w", encoding="ascii") as file:
        for document in _group(task):
            file.write(json.dumps(asdict(document)) + "\n")
            num_documents += 1
            num_bytes += 0 if document.fault else document.num_bytes
            if num_bytes >= task.source.max_bytes:
                finished = False
                break
    return _Ahead(task=task, num_documents=num_documents, finished=finished)


def _stored(path: Path) -> Iterator[Cleaned]:
    with path.open(encoding="ascii") as file:
        for line in file:
            yield Cleaned(**json.loads(line))


def reference_texts(
    config: ReferenceConfig, *, root: Path, max_document_bytes: int
) -> Iterator[tuple[str, str]]:
    """Yield name and text of a reference's documents, until its ``max_bytes`` are reached.

    Empty ones and those that cannot be encoded are left out, long ones are cut as a corpus's own.

    Raises:
        NotFoundError: no such source.
        InvalidFileError: it cannot be read.
        StoreUnavailableError: the hub cannot be reached.
    """
    cleaning = Cleaning(max_document_bytes=max_document_bytes, excluded=frozenset())
    documents: Iterable[Document] = read_source(
        config, root=root, max_document_bytes=max_document_bytes
    )
    taken = 0
    for document in documents:
        ready = cleaned(document, cleaning)
        if ready.fault:
            continue
        yield ready.id, ready.text
        taken += ready.num_bytes
        if taken >= config.max_bytes:
            return
