"""Text of evaluation sets that stands in the training split: measured, and left out on request.

A set's documents are those of the corpus's own validation and test splits, or of a named source.
A document is *touched* when one of its n-grams of words stands in any training document, and
*contaminated* when the threshold's share of its n-grams does, in all training documents together.
A training document is left out when it alone repeats that share of one evaluation document.
"""

import heapq
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import Json
from workbench.data.building.samples import excerpt, hidden
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Row, Table
from workbench.data.config import SEALED, ContaminationConfig, ReferenceConfig
from workbench.data.filters.ngram_finder import Hits, Nearest, open_finder, save_finder
from workbench.data.filters.ngram_index import (
    MOST_HASHES,
    IndexBuilder,
    NgramIndex,
    set_overlaps,
    write_index,
)
from workbench.data.manifest import (
    NGRAMS_NAME,
    Contamination,
    Overlap,
    Sample,
    StageName,
    StageRecord,
)
from workbench.data.splits import Split
from workbench.data.workers import Workers

SplitOfRow: TypeAlias = Callable[[Row], Split]
ReadReference: TypeAlias = Callable[[ReferenceConfig], Iterable[tuple[str, str]]]
"""Yields the identity and text of each document of an evaluation set."""

_NUM_SAMPLES = 5
_BATCH_BYTES = 1 << 20
_FINDINGS = "contamination"


def ngram_index(
    config: ContaminationConfig,
    table: Table,
    *,
    split_of_row: SplitOfRow,
    read_reference: ReadReference,
    most: int = MOST_HASHES,
    tell: Callable[[str], None] | None = None,
) -> NgramIndex:
    """Return the n-grams of the held-out splits and the named evaluation sets.

    Args:
        config: what is looked for.
        table: the documents of the corpus.
        split_of_row: which of them are held out.
        read_reference: yields the documents of a named set.
        most: see `IndexBuilder`.
        tell: given the identity of each document in the order of their numbers.
    """
    names = ("validation", SEALED, *sorted(config.evaluation))
    builder = IndexBuilder(config.ngram, names, most=most)
    told = tell or _nobody
    for row in _all_rows(table):
        split = split_of_row(row)
        if split != "train":
            builder.add(names.index(split), row.text)
            told(row.id)
    for name, reference in sorted(config.evaluation.items()):
        for identity, text in read_reference(reference):
            builder.add(names.index(name), text)
            told(identity)
    return builder.index()


def _nobody(_identity: str) -> None:
    pass


def contamination_of(record: StageRecord) -> Contamination:
    """Return the result that a record of the stage holds."""
    return Contamination.model_validate(record.findings[_FINDINGS])


class ContaminationStage:
    """Looks for the n-grams of evaluation sets in the training split."""

    name: StageName = "contamination"
    keeps = (NGRAMS_NAME,)

    def __init__(
        self,
        config: ContaminationConfig,
        *,
        split_of_row: SplitOfRow,
        read_reference: ReadReference,
        identity: Mapping[str, Json],
        workers: Workers,
    ) -> None:
        """Prepare; nothing is read.

        Args:
            config: what is looked for.
            split_of_row: which documents are held out.
            read_reference: yields the documents of a named set.
            identity: what decides the splits and the text of the named sets besides ``config``:
                the salt and shares, the hashes of local files. It is part of the stage's key.
            workers: share the scan.
        """
        self._config = config
        self._split_of_row = split_of_row
        self._read_reference = read_reference
        self._identity = identity
        self._workers = workers
        self._result: Contamination | None = None

    @property
    def max_share_lost(self) -> float | None:
        """Share of a source's bytes that may be left out; None where none is."""
        return self._config.max_share_lost if self._config.exclude else None

    def settings(self) -> dict[str, Json]:
        """Return what decides the result."""
        return {
            **self._config.model_dump(mode="json"),
            "decided_by": dict(self._identity),
            "most_hashes": MOST_HASHES,
            "hash": "xxh3_64 of words, polynomial, splitmix64",
        }

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        """Yield the training documents that are left out; read to the end, the result is known."""
        with (work / "identities.jsonl").open("w+b") as file:
            identities = _Identities(file)
            index = ngram_index(
                self._config,
                table,
                split_of_row=self._split_of_row,
                read_reference=self._read_reference,
                tell=identities.add,
            )
            write_index(index, work / NGRAMS_NAME)
            progress(0.1)
            tally = _Tally(index, self._config)
            for place, hits in self._scanned(table, index, work, progress):
                worst = max(hits.nearest, key=lambda nearest: (nearest.share, -nearest.document))
                rejected = self._config.exclude and worst.share >= self._config.threshold
                tally.add(place, hits, rejected=rejected)
                if rejected:
                    yield Rejected(
                        domain=place.domain,
                        number=place.number,
                        reason=f"overlaps {index.names[worst.set_number]}",
                        why=_evidence(index, worst, identities),
                        sealed=_repeats_sealed(index, hits, self._config.threshold),
                    )
            self._result = tally.result(table, identities)
        progress(1.0)

    def _scanned(
        self,
        table: Table,
        index: NgramIndex,
        work: Path,
        progress: Callable[[float], None],
    ) -> Iterator[tuple["_Place", Hits]]:
        save_finder(index, work)
        training = (row for row in _all_rows(table) if self._split_of_row(row) == "train")
        total = max(1, sum(table.num_kept(domain) for domain in table.domains))
        seen = 0
        search = partial(_batch_hits, work)
        for batch, found in self._workers.map(search, _batches(training)):
            seen += len(batch)
            progress(0.1 + 0.9 * min(1.0, seen / total))
            yield from ((batch[place], hits) for place, hits in found)

    def findings(self) -> dict[str, Json]:
        """Return the result, once `rejects` was read to its end."""
        return {_FINDINGS: self.result().model_dump(mode="json")}

    def result(self) -> Contamination:
        """Return the result, once `rejects` was read to its end."""
        if self._result is None:
            raise RuntimeError("the contamination stage has not run to its end")
        return self._result


@dataclass(frozen=True, kw_only=True)
class _Place:
    domain: str
    number: int


class _Identities:
    """Names of the evaluation documents, on disk: a set may have millions."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offsets = array("Q", [0])

    def add(self, identity: str) -> None:
        self._file.write(json.dumps(identity).encode() + b"\n")
        self._offsets.append(self._file.tell())

    def of(self, document: int) -> str:
        self._file.seek(self._offsets[document])
        return str(json.loads(self._file.readline()))


def _all_rows(table: Table) -> Iterator[Row]:
    for domain in table.domains:
        yield from table.rows(domain)


_Batch: TypeAlias = tuple[list[_Place], list[str]]


def _batches(rows: Iterable[Row]) -> Iterator[_Batch]:
    places: list[_Place] = []
    texts: list[str] = []
    size = 0
    for row in rows:
        places.append(_Place(domain=row.domain, number=row.number))
        texts.append(row.text)
        size += row.num_bytes
        if size >= _BATCH_BYTES:
            yield places, texts
            places, texts, size = [], [], 0
    if texts:
        yield places, texts


def _batch_hits(work: Path, batch: _Batch) -> tuple[list[_Place], list[tuple[int, Hits]]]:
    places, texts = batch
    finder = open_finder(work)
    found = [(place, finder.hits(text)) for place, text in enumerate(texts)]
    return places, [(place, hits) for place, hits in found if hits is not None]


class _Tally:
    """What was found in all training documents, and in those that stay."""

    def __init__(self, index: NgramIndex, config: ContaminationConfig) -> None:
        self._index = index
        self._config = config
        self._before = _Found(index, config.threshold)
        self._after = _Found(index, config.threshold)
        self._any_rejected = False

    def add(self, place: _Place, hits: Hits, *, rejected: bool) -> None:
        self._before.add(place, hits)
        if rejected:
            self._any_rejected = True
        else:
            self._after.add(place, hits)

    def result(self, table: Table, identities: _Identities) -> Contamination:
        sets = partial(
            _sampled_overlaps,
            self._index,
            threshold=self._config.threshold,
            table=table,
            identities=identities,
        )
        return Contamination(
            ngram=self._index.ngram,
            threshold=self._config.threshold,
            one_in=self._index.one_in,
            sets=sets(self._after),
            sets_before=sets(self._before) if self._any_rejected else {},
        )


class _Found:
    def __init__(self, index: NgramIndex, threshold: float) -> None:
        self._index = index
        self._threshold = threshold
        self.ngrams: NDArray[np.bool_] = np.zeros(len(index.hashes), dtype=np.bool_)
        self.most: list[list[tuple[float, int, _Place, Nearest, bool]]] = [[] for _ in index.names]
        self._order = 0

    def add(self, place: _Place, hits: Hits) -> None:
        self.ngrams[hits.places] = True
        self._order -= 1  # of equal shares the first is kept
        sealed = _repeats_sealed(self._index, hits, self._threshold)
        for nearest in hits.nearest:
            heap = self.most[nearest.set_number]
            heapq.heappush(heap, (nearest.share, self._order, place, nearest, sealed))
            if len(heap) > _NUM_SAMPLES:
                heapq.heappop(heap)


def _sampled_overlaps(
    index: NgramIndex,
    found: _Found,
    *,
    threshold: float,
    table: Table,
    identities: _Identities,
) -> dict[str, Overlap]:
    overlaps = set_overlaps(index, found.ngrams, threshold)
    return {
        name: overlap.model_copy(
            update={
                "samples": tuple(
                    hidden(_evidence(index, nearest, identities))
                    if sealed or name == SEALED
                    else _sample(index, table.row(place.domain, place.number), nearest, identities)
                    for _, _, place, nearest, sealed in sorted(most, reverse=True)
                )
            }
        )
        for (name, overlap), most in zip(overlaps.items(), found.most, strict=True)
    }


def _repeats_sealed(index: NgramIndex, hits: Hits, threshold: float) -> bool:
    """Return whether a text holds so much of a sealed document that it must not be shown."""
    return any(
        index.names[nearest.set_number] == SEALED and nearest.share >= threshold
        for nearest in hits.nearest
    )


def _sample(index: NgramIndex, row: Row, nearest: Nearest, identities: _Identities) -> Sample:
    return Sample(id=row.id, why=_evidence(index, nearest, identities), excerpt=excerpt(row.text))


def _evidence(index: NgramIndex, nearest: Nearest, identities: _Identities) -> str:
    name = index.names[nearest.set_number]
    # Who reads this has no right to know what is in the sealed split.
    which = "a document of the test split" if name == SEALED else identities.of(nearest.document)
    return f"{nearest.share:.2f} of the {index.ngram}-grams of {which}"
