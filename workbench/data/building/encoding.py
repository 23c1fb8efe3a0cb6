"""From kept rows to a tokenizer, shards of tokens and the list of documents."""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from workbench.canonical import Json
from workbench.data.building.losses import empty_split
from workbench.data.building.measures import Measures
from workbench.data.building.table import Row, Table
from workbench.data.config import SPLITS, CorpusConfig
from workbench.data.corpus import DOCUMENT_ROW
from workbench.data.manifest import DOCUMENTS_NAME, Portion, Shard, StageRecord, file_sha256
from workbench.data.splits import split_of
from workbench.data.tokenizer import encode, train_tokenizer

_BATCH = 256
_SHARD_FOLDERS = {"train": "shards", "validation": "shards", "test": "sealed"}
_MOST_SHOWN = 50
_OTHERS = "others"

Split = dict[str, NDArray[np.bool_]]
"""By domain: which rows of the file are kept and in this split."""


@dataclass
class Encoded:
    """What was encoded, counted."""

    shards: dict[str, dict[str, Shard]] = field(default_factory=dict)
    provenance: dict[str, Counter[str]] = field(default_factory=dict)
    licences: dict[str, Counter[str]] = field(default_factory=dict)
    documents: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By domain, language and split."""
    num_bytes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    tokens: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, row: Row, split: str, language: str, num_tokens: int) -> None:
        """Count a document."""
        cell = (row.domain, language, split)
        self.documents[cell] += 1
        self.num_bytes[cell] += row.num_bytes
        self.tokens[cell] += num_tokens
        self.provenance.setdefault(row.domain, Counter())[row.provenance] += 1
        self.licences.setdefault(row.domain, Counter())[row.licence or "not stated"] += 1

    def composition(self) -> list[Portion]:
        """Return the cells in alphabetical order."""
        return [
            Portion(
                domain=cell[0],
                language=cell[1],
                split=cell[2],
                documents=self.documents[cell],
                bytes=self.num_bytes[cell],
                tokens=self.tokens[cell],
            )
            for cell in sorted(self.documents)
        ]


def largest(counts: Counter[str]) -> dict[str, int]:
    """Return the 50 largest counts, the sum of the rest as ``others``."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = dict(ordered[:_MOST_SHOWN])
    rest = sum(count for _, count in ordered[_MOST_SHOWN:])
    if rest:
        shown[_OTHERS] = shown.get(_OTHERS, 0) + rest
    return dict(sorted(shown.items()))


def split_rows(
    table: Table, config: CorpusConfig, records: Sequence[StageRecord]
) -> dict[str, Split]:
    """Return which kept rows belong to each split.

    ``records`` of the stages so far say in a refusal what became of the others.

    Raises:
        InvalidFileError: a domain has none in some split.
    """
    found: dict[str, Split] = {split: {} for split in SPLITS}
    for domain in table.domains:
        chosen = {split: np.zeros(table.num_rows(domain), dtype=np.bool_) for split in SPLITS}
        for number in np.flatnonzero(table.kept(domain)):
            chosen[split_of(table.digest(domain, int(number)), config.splits)][number] = True
        for split in SPLITS:
            if not chosen[split].any():
                raise empty_split(domain, split, table, records)
            found[split][domain] = chosen[split]
    return found


def trained_tokenizer(table: Table, train: Split, config: CorpusConfig) -> Tokenizer:
    """Return the tokenizer of the training split, an equal part of its text from each domain.

    Raises:
        InvalidFileError: the text cannot fill the vocabulary.
    """
    budget = max(1, config.tokenizer.train_bytes // len(config.sources))
    return train_tokenizer(
        (text for domain in table.domains for text in _first(table, train, domain, budget)),
        config.tokenizer.vocab_size,
    )


def _first(table: Table, train: Split, domain: str, budget: int) -> Iterator[str]:
    taken = 0
    for row in table.chosen(domain, train[domain]):
        if taken >= budget:
            return
        yield row.text
        taken += row.num_bytes


def encode_corpus(
    tokenizer: Tokenizer,
    table: Table,
    splits: Mapping[str, Split],
    measures: Measures,
    *,
    work: Path,
    progress: Callable[[str, float], None],
) -> Encoded:
    """Write every split's shards, their indexes and ``documents.jsonl`` to a folder.

    Each batch of documents is encoded by as many threads as the tokenizer's library takes.
    """
    encoded = Encoded()
    total = max(1, sum(table.kept_bytes(domain) for domain in table.domains))
    with (work / DOCUMENTS_NAME).open("w", encoding="utf-8") as listing:
        for split in SPLITS:
            (work / _SHARD_FOLDERS[split]).mkdir(exist_ok=True)
            encoded.shards[split] = {}
            for domain in table.domains:
                path = work / _SHARD_FOLDERS[split] / f"{split}-{domain}.bin"
                writer = _ShardWriter(tokenizer, encoded, split, listing)
                rows = table.chosen(domain, splits[split][domain])
                while batch := list(islice(rows, _BATCH)):
                    done = encoded.num_bytes.total() / total
                    progress(f"encoding {domain} ({split})", done)
                    writer.write(batch, table, path)
                index = _index(writer.starts, measures, domain if split == "train" else None)
                encoded.shards[split][domain] = writer.finished(index, path, work)
    return encoded


def _index(starts: "array[int]", measures: Measures, domain: str | None) -> NDArray[np.void]:
    index = np.zeros(len(starts), dtype=DOCUMENT_ROW)
    index["start"] = starts
    if domain is not None:
        index["entropy"] = measures.entropy[domain]
        index["rank"] = measures.rank[domain]
    return index


class _ShardWriter:
    """One shard in the making."""

    def __init__(
        self, tokenizer: Tokenizer, encoded: Encoded, split: str, listing: IO[str]
    ) -> None:
        self._tokenizer = tokenizer
        self._type = token_type(tokenizer.get_vocab_size())
        self._encoded = encoded
        self._split = split
        self._listing = listing
        self._num_tokens = 0
        self._num_bytes = 0
        self.starts = array("Q")

    def write(self, batch: list[Row], table: Table, path: Path) -> None:
        all_ids = encode(self._tokenizer, [row.text for row in batch])
        with path.open("ab") as file:
            for row, ids in zip(batch, all_ids, strict=True):
                language = table.language(row.domain, row.number) or "unknown"
                file.write(np.asarray(ids, dtype=self._type).tobytes())
                self._encoded.add(row, self._split, language, len(ids))
                entry = _entry(row, self._split, language, len(ids))
                self._listing.write(json.dumps(entry, sort_keys=True) + "\n")
                self.starts.append(self._num_tokens)
                self._num_tokens += len(ids)
                self._num_bytes += row.num_bytes

    def finished(self, index: NDArray[np.void], path: Path, work: Path) -> Shard:
        index_path = path.with_suffix(".index")
        index_path.write_bytes(index.tobytes())
        return Shard(
            path=path.relative_to(work).as_posix(),
            documents=len(self.starts),
            bytes=self._num_bytes,
            tokens=self._num_tokens,
            sha256=file_sha256(path),
            index_path=index_path.relative_to(work).as_posix(),
            index_sha256=file_sha256(index_path),
        )


def token_type(vocab_size: int) -> str:
    """Return the smallest type of a shard that holds every token."""
    return "<u2" if vocab_size <= 2**16 else "<u4"


def _entry(row: Row, split: str, language: str, num_tokens: int) -> dict[str, Json]:
    return {
        "id": row.id,
        "domain": row.domain,
        "split": split,
        "digest": row.digest,
        "num_bytes": row.num_bytes,
        "provenance": row.provenance,
        "licence": row.licence,
        "language": language,
        "tokens": num_tokens,
    }
