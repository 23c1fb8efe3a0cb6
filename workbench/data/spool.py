"""The kept documents of a build, on disk between its stages."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from workbench.canonical import Json
from workbench.data.config import SPLITS, CorpusConfig
from workbench.data.dedup import SeenTexts, content_digest
from workbench.data.documents import Document, cut_at_line_end
from workbench.data.manifest import DomainStages, FileHash
from workbench.data.splits import Split, split_of

_NUM_SAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A document that passed every stage."""

    id: str
    domain: str
    split: Split
    digest: str
    """`dedup.content_digest` of the text."""
    num_bytes: int
    provenance: str
    text: str

    def entry(self) -> dict[str, Json]:
        """Return what the corpus keeps of it beside the tokens: everything but the text."""
        return {name: value for name, value in asdict(self).items() if name != "text"}


@dataclass(kw_only=True)
class _Counts:
    read: int = 0
    empty: int = 0
    cut: int = 0
    cut_bytes: int = 0
    duplicates: int = 0
    duplicate_bytes: int = 0
    duplicate_samples: list[str] = field(default_factory=list)
    kept: int = 0
    kept_bytes: int = 0
    exhausted: bool = True


def spool_domain(
    documents: Iterable[Document],
    config: CorpusConfig,
    domain: str,
    *,
    folder: Path,
    seen: SeenTexts,
    files: tuple[FileHash, ...],
    progress: Callable[[float], None],
) -> DomainStages:
    """Write a domain's kept documents to one file a split and return the account of the rest.

    Deduplication comes before the split, against every document kept so far in any domain.
    """
    source = config.sources[domain]
    counts = _Counts()
    with contextlib.ExitStack() as stack:
        spools = {
            split: stack.enter_context(_path(folder, split, domain).open("w", encoding="utf-8"))
            for split in SPLITS
        }
        for document in documents:
            kept = _passed(document, config, domain, seen, counts)
            if kept is not None:
                spools[kept.split].write(json.dumps(asdict(kept), ensure_ascii=False) + "\n")
                progress(min(1.0, counts.kept_bytes / source.max_bytes))
            if counts.kept_bytes >= source.max_bytes:
                counts.exhausted = False
                break
    return DomainStages(source=source.source, files=files, **asdict(counts))


def _passed(
    document: Document, config: CorpusConfig, domain: str, seen: SeenTexts, counts: _Counts
) -> Kept | None:
    counts.read += 1
    if not document.text.strip() or not _has_utf8(document.text):
        counts.empty += 1
        return None
    text = cut_at_line_end(document.text, config.max_document_bytes)
    num_bytes = len(text.encode("utf-8"))
    if len(text) < len(document.text):
        counts.cut += 1
        counts.cut_bytes += len(document.text.encode("utf-8")) - num_bytes
    digest = content_digest(text)
    if not seen.is_new(digest):
        counts.duplicates += 1
        counts.duplicate_bytes += num_bytes
        if len(counts.duplicate_samples) < _NUM_SAMPLES:
            counts.duplicate_samples.append(document.id)
        return None
    counts.kept += 1
    counts.kept_bytes += num_bytes
    return Kept(
        id=document.id,
        domain=domain,
        split=split_of(digest, config.splits),
        digest=digest,
        num_bytes=num_bytes,
        provenance=document.provenance,
        text=text,
    )


def _has_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def read_spool(folder: Path, split: str, domain: str) -> Iterator[Kept]:
    """Yield a split's kept documents in the order of their source."""
    with _path(folder, split, domain).open(encoding="utf-8") as file:
        for line in file:
            yield Kept(**json.loads(line))


def _path(folder: Path, split: str, domain: str) -> Path:
    return folder / f"{split}-{domain}.jsonl"
