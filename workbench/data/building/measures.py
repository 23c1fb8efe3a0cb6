"""What is measured on the rows that are left: frequent words, and entropies of documents."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.data.building.table import Row, Table
from workbench.data.manifest import Heads
from workbench.data.text.heads import DocumentWords, Unigram, WordCounts, ranks, weighted_head

DECAYS = ("0.999", "0.992")
"""Of the published schedule of document weights."""

_HEADS = "heads.json"


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Results by domain; arrays hold a document of the training split each, in its order."""

    heads: Mapping[str, Heads]
    entropy: Mapping[str, NDArray[np.float32]]
    """Mean surprisal in bits a word."""
    rank: Mapping[str, NDArray[np.float32]]
    """Share of the domain's training documents with a lower entropy."""


def write_measures(
    table: Table,
    train: Mapping[str, NDArray[np.bool_]],
    folder: Path,
    progress: Callable[[float], None],
) -> None:
    """Measure each domain's words in two passes and write the results to a folder."""
    heads = {}
    for place, domain in enumerate(table.domains):
        told = _Passes(progress, place, len(table.domains), table.num_rows(domain))
        kept, others = WordCounts(), WordCounts()
        for row in told.counted(table.all_rows(domain)):
            (kept if train[domain][row.number] else others).update(row.text)
        unigram, head = kept.unigram(), kept.head()
        kept.merge(others)
        rows = told.counted(table.chosen(domain, train[domain]))
        found = _documents((row.text for row in rows), unigram, int(train[domain].sum()))
        rank = ranks(found["entropy"])
        weighted = {
            decay: weighted_head(rank, found["words"], found["head"], decay=float(decay))
            for decay in DECAYS
        }
        heads[domain] = Heads(read=kept.head(), kept=head, weighted=weighted).model_dump()
        np.save(folder / f"{domain}.entropy.npy", found["entropy"])
        np.save(folder / f"{domain}.rank.npy", rank)
    (folder / _HEADS).write_text(json.dumps(heads), "utf-8")


def read_measures(folder: Path, domains: tuple[str, ...]) -> Measures:
    """Return what `write_measures` wrote."""
    heads = json.loads((folder / _HEADS).read_text("utf-8"))
    return Measures(
        heads={domain: Heads.model_validate(heads[domain]) for domain in domains},
        entropy={domain: np.load(folder / f"{domain}.entropy.npy") for domain in domains},
        rank={domain: np.load(folder / f"{domain}.rank.npy") for domain in domains},
    )


_DOCUMENT = np.dtype([("words", "<i8"), ("head", "<i8"), ("entropy", "<f4")])


def _documents(texts: Iterator[str], unigram: Unigram, count: int) -> NDArray[np.void]:
    measured: Iterator[DocumentWords] = map(unigram.measured, texts)
    return np.fromiter(((m.words, m.head, m.entropy) for m in measured), _DOCUMENT, count)


class _Passes:
    """Progress over two passes through a domain's rows."""

    def __init__(
        self, progress: Callable[[float], None], place: int, domains: int, num_rows: int
    ) -> None:
        self._progress = progress
        self._begin = place / domains
        self._step = 1 / (domains * 2 * max(1, num_rows))
        self._done = 0

    def counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            self._done += 1
            if self._done % 1000 == 0:
                self._progress(self._begin + self._done * self._step)
            yield row
