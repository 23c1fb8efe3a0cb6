"""Looks for the n-grams of evaluation sets in text."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.data.filters.ngram_index import NgramIndex, sampled_ngrams
from workbench.data.text.words import Hashes, WordHashes

_FILTER_BITS = 25
"""One bit for each value of a hash's highest 25: most n-grams of a text stop there (4 MiB)."""
_ARRAYS = ("hashes", "starts", "pair_documents", "document_sets", "sizes")
_FILTER_NAME = "filter"
_ABOUT = "about.json"


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The document of a set of which a text repeats the largest share."""

    set_number: int
    document: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Hits:
    """What one text repeats of an index."""

    places: NDArray[np.int64]
    """In `NgramIndex.hashes`, distinct."""
    nearest: tuple[Nearest, ...]
    """One for each set of which it repeats anything."""


class Finder:
    """Looks for an index's n-grams. Made by `finder_of`, or in another process by `open_finder`."""

    def __init__(self, index: NgramIndex, held: NDArray[np.uint8]) -> None:
        self._index = index
        self._held = held
        self._known = WordHashes()

    def places(self, text: str) -> NDArray[np.int64]:
        """Return the places in ``index.hashes`` of the n-grams that stand in a text, distinct."""
        index = self._index
        hashed = sampled_ngrams(text, index.ngram, index.one_in, self._known)
        hashed = np.unique(hashed[self._may_be_held(hashed)])
        places = np.searchsorted(index.hashes, hashed)
        inside = places < len(index.hashes)
        places, hashed = places[inside], hashed[inside]
        held: NDArray[np.int64] = places[index.hashes[places] == hashed]
        return held

    def _may_be_held(self, hashed: Hashes) -> NDArray[np.bool_]:
        bit = hashed >> np.uint64(64 - _FILTER_BITS)
        byte = self._held[(bit >> np.uint64(3)).astype(np.int64)]
        may: NDArray[np.bool_] = (byte >> (bit & np.uint64(7)).astype(np.uint8)) & np.uint8(1) == 1
        return may

    def hits(self, text: str) -> Hits | None:
        """Return what a text repeats of each set; None where it repeats nothing."""
        places = self.places(text)
        return Hits(places=places, nearest=self._nearest(places)) if len(places) else None

    def _nearest(self, places: NDArray[np.int64]) -> tuple[Nearest, ...]:
        index = self._index
        documents, counts = _document_counts(index, places)
        shares = counts / index.sizes[documents]
        sets = index.document_sets[documents]
        nearest = []
        for number in np.unique(sets):
            mine = np.flatnonzero(sets == number)
            best = mine[np.argmax(shares[mine])]
            nearest.append(
                Nearest(
                    set_number=int(number),
                    document=int(documents[best]),
                    share=float(shares[best]),
                )
            )
        return tuple(nearest)


def finder_of(index: NgramIndex) -> Finder:
    """Return what looks for an index's n-grams."""
    return Finder(index, _high_bits(index.hashes))


def save_finder(index: NgramIndex, folder: Path) -> None:
    """Write what `open_finder` maps: one copy in memory serves every process of a machine."""
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", getattr(index, name))
    np.save(folder / f"{_FILTER_NAME}.npy", _high_bits(index.hashes))
    about = {"ngram": index.ngram, "one_in": index.one_in, "names": index.names}
    (folder / _ABOUT).write_text(json.dumps(about), "utf-8")


def open_finder(folder: Path) -> Finder:
    """Return the finder that `save_finder` wrote."""
    about = json.loads((folder / _ABOUT).read_text("utf-8"))
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
    index = NgramIndex(
        ngram=about["ngram"], one_in=about["one_in"], names=tuple(about["names"]), **arrays
    )
    return Finder(index, np.load(folder / f"{_FILTER_NAME}.npy", mmap_mode="r"))


def _high_bits(hashes: Hashes) -> NDArray[np.uint8]:
    held = np.zeros(1 << (_FILTER_BITS - 3), dtype=np.uint8)
    bit = hashes >> np.uint64(64 - _FILTER_BITS)
    mask = np.uint8(1) << (bit & np.uint64(7)).astype(np.uint8)
    np.bitwise_or.at(held, (bit >> np.uint64(3)).astype(np.int64), mask)
    return held


def _document_counts(
    index: NgramIndex, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the documents that n-grams stand in, ascending, and how many of them in each."""
    widths = index.starts[places + 1] - index.starts[places]
    ends = np.cumsum(widths)
    pairs = np.repeat(index.starts[places] - (ends - widths), widths) + np.arange(ends[-1])
    documents = index.pair_documents[pairs]
    if len(documents) * 8 < len(index.sizes):
        found, counts = np.unique(documents, return_counts=True)
        return found.astype(np.int64), counts.astype(np.int64)
    # A licence stands in many documents: counting is cheaper than sorting so many pairs.
    all_counts = np.bincount(documents)
    found = np.flatnonzero(all_counts)
    return found, all_counts[found]
