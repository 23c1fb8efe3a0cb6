"""Near-duplicates: documents most of whose n-grams of words stand in a longer one that is kept.

Pairs are sought by MinHash within one language or programming language, with unknown as one of
them, and every pair found is verified on its texts. So nothing is left out by chance, and what
chance decides is which pairs are missed.

Documents are taken from the longest to the shortest, and one is left out only when it resembles a
kept one itself. A chain of small edits is not wiped out down to its longest end: where A resembles
B and B resembles C, but A not C, then C stays.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from workbench.canonical import Json
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Table
from workbench.data.config import NearDuplicateConfig
from workbench.data.filters.bands import bands_for
from workbench.data.filters.resemblance import NgramSets, jaccard
from workbench.data.filters.shared_keys import KeptDocuments, KeyFiles
from workbench.data.filters.signatures import band_keys, batches
from workbench.data.manifest import StageName
from workbench.data.workers import Workers

_REMEMBERED_NGRAMS = 2_000_000
"""At 8 bytes each."""
_SHARE_OF_SIGNATURES = 0.8
"""Of the stage's time, for its progress."""


class NearDuplicateStage:
    """Leaves out the shorter of two documents that resemble each other.

    Memory: 12 bytes a document, what `shared_keys` says, and 16 MB of n-grams.
    """

    name: StageName = "near_duplicates"
    keeps = ()

    def __init__(self, config: NearDuplicateConfig, *, workers: Workers) -> None:
        """Raises InvalidFileError where the hashes are too few for threshold and detection."""
        self.max_share_lost: float | None = config.max_share_lost
        self._config = config
        self._workers = workers
        self._bands = bands_for(
            threshold=config.threshold, detection=config.detection, num_hashes=config.num_hashes
        )
        self._found: dict[str, Json] = {}

    def settings(self) -> dict[str, Json]:
        """Return everything that decides the result: the configured and what follows from it."""
        threshold = self._config.threshold

        def detection(similarity: float) -> float:
            return round(self._bands.detection(min(1.0, max(0.0, similarity))), 6)

        return {
            "ngram": self._config.ngram,
            "threshold": threshold,
            "bands": self._bands.num,
            "rows": self._bands.rows,
            "detection_at_threshold": detection(threshold),
            "detection_0_1_below": detection(threshold - 0.1),
            "detection_0_1_above": detection(threshold + 0.1),
            "seed": self._config.seed,
            "buckets": "language or programming language; unknown is one of them",
            "minhash": f"rensa {version('rensa')}, RMinHash version {RMinHash.ALGORITHM_VERSION}",
        }

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        """Yield what is left out, from the longest document to the shortest."""
        files = KeyFiles(work, num_bands=self._bands.num)
        self._write_keys(files, table, progress)
        mask, num_shared = files.number()
        places, sharing = files.places(), np.flatnonzero(mask)
        self._found = {"documents_with_words": len(places), "documents_sharing_a_key": len(sharing)}
        sharing = sharing[_from_longest(places[sharing])]
        files.arrange(sharing)
        search = _Search(self._config, table, places[sharing], KeptDocuments(num_shared))
        del places
        for share, found in search.rejects(files.rows()):
            if found is not None:
                yield found
            progress(_SHARE_OF_SIGNATURES + (1 - _SHARE_OF_SIGNATURES) * share)
        self._found |= search.findings()
        progress(1.0)

    def findings(self) -> dict[str, Json]:
        """Return what the last `rejects` measured: pairs compared and confirmed, and others."""
        return dict(self._found)

    def _write_keys(self, files: KeyFiles, table: Table, progress: Callable[[float], None]) -> None:
        config = self._config
        keys = partial(band_keys, ngram=config.ngram, bands=self._bands, seed=config.seed)
        total = sum(table.num_kept(domain) for domain in table.domains)
        done = 0
        for batch in self._workers.map(keys, batches(_documents(table))):
            files.append(batch)
            done += len(batch.places)
            progress(_SHARE_OF_SIGNATURES * min(1.0, done / max(1, total)))


def _documents(table: Table) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    labels: dict[str, int] = {}
    for domain_number, domain in enumerate(table.domains):
        for row in table.rows(domain):
            label = table.language(domain, row.number)
            yield (
                row.text,
                (domain_number, row.number, row.num_bytes, labels.setdefault(label, len(labels))),
            )


def _from_longest(places: NDArray[np.void]) -> NDArray[np.int64]:
    length = -places["num_bytes"].astype(np.int64)
    return np.lexsort((places["number"], places["domain"], length))


class _Search:
    """Verifies pairs among the documents that share a key, which come from the longest on."""

    def __init__(
        self,
        config: NearDuplicateConfig,
        table: Table,
        places: NDArray[np.void],
        kept: KeptDocuments,
    ) -> None:
        self._config = config
        self._table = table
        self._places = places
        self._kept = kept
        self._sets = NgramSets(table, n=config.ngram, max_ngrams=_REMEMBERED_NGRAMS)
        self._num_ngrams = np.zeros(len(places), dtype=np.int64)
        """Distinct ones of a document; 0 until it was read."""
        self._beside = np.zeros(len(places), dtype=np.int64)
        """How many were left out beside a kept document."""
        self._compared = 0
        self._domains: Counter[tuple[str, str]] = Counter()

    def rejects(self, rows: Iterator[list[int]]) -> Iterator[tuple[float, Rejected | None]]:
        """Yield for each document the share done and, where it is left out, why.

        ``rows`` are the numbers of the documents' keys.
        """
        for document, numbers in enumerate(rows):
            found = self._kept_one_like(document, numbers)
            if found is None:
                self._kept.keep(document, numbers)
                yield (document + 1) / len(self._places), None
                continue
            kept, similarity = found
            self._beside[kept] += 1
            yield (document + 1) / len(self._places), self._rejected(document, kept, similarity)

    def findings(self) -> dict[str, Json]:
        removed: dict[str, dict[str, int]] = {}
        for (domain, beside), count in sorted(self._domains.items()):
            removed.setdefault(domain, {})[beside] = count
        confirmed = sum(self._domains.values())
        return {
            "pairs_compared": self._compared,
            "pairs_confirmed": confirmed,
            "false_candidate_share": 1 - confirmed / self._compared if self._compared else 0.0,
            "largest_group": int(self._beside.max(initial=0)) + 1,
            "removed_beside": removed,
        }

    def _kept_one_like(self, document: int, numbers: list[int]) -> tuple[int, float] | None:
        others = self._kept.sharing(numbers)
        if not others:
            return None
        own, label = self._read(document), self._places["label"][document]
        for other in others:
            if self._places["label"][other] != label:
                continue  # keys of 64 bits that met by chance
            similarity = self._similarity(own, other)
            if similarity >= self._config.threshold:
                return other, similarity
        return None

    def _similarity(self, own: NDArray[np.uint64], other: int) -> float:
        known = int(self._num_ngrams[other])
        if known and min(len(own), known) / max(len(own), known) < self._config.threshold:
            return 0.0  # sizes this different bound the similarity from above
        self._compared += 1
        return jaccard(own, self._read(other))

    def _read(self, document: int) -> NDArray[np.uint64]:
        found = self._sets.of(*self._place(document))
        self._num_ngrams[document] = len(found)
        return found

    def _place(self, document: int) -> tuple[str, int]:
        place = self._places[document]
        return self._table.domains[int(place["domain"])], int(place["number"])

    def _rejected(self, document: int, kept: int, similarity: float) -> Rejected:
        domain, number = self._place(document)
        beside, kept_number = self._place(kept)
        self._domains[domain, beside] += 1
        same_as = self._table.row(beside, kept_number)
        return Rejected(
            domain=domain,
            number=number,
            reason=f"near-duplicate of {beside}",
            why=f"{similarity:.3f} of the {self._config.ngram}-grams of both as {same_as.id}",
            twin=same_as.digest,
        )
