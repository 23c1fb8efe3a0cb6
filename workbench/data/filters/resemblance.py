"""How much two documents have in common: the exact Jaccard similarity of their n-gram sets."""

from collections import OrderedDict
from typing import Protocol

import numpy as np

from workbench.data.text.words import Hashes, WordHashes, ngram_hashes, words


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


class Texts(Protocol):
    """Where a document's text is read again."""

    def row(self, domain: str, number: int) -> _HasText:
        """Return one document."""
        ...


def jaccard(one: Hashes, other: Hashes) -> float:
    """Return the share of distinct n-grams of both that are in each: 0 where either has none.

    Both are sorted and without repeats.
    """
    if not len(one) or not len(other):
        return 0.0
    # numpy's intersect1d would sort both again.
    nearest = other.take(other.searchsorted(one), mode="clip")
    common = int(np.count_nonzero(nearest == one))
    return common / (len(one) + len(other) - common)


class NgramSets:
    """The n-gram sets of documents, read from their texts; recently used ones are remembered."""

    def __init__(self, texts: Texts, *, n: int, max_ngrams: int) -> None:
        """``max_ngrams`` of 8 bytes each are remembered at most."""
        self._texts = texts
        self._n = n
        self._room = max_ngrams
        self._recent: OrderedDict[tuple[str, int], Hashes] = OrderedDict()
        self._hashes = WordHashes()

    def of(self, domain: str, number: int) -> Hashes:
        """Return the sorted distinct n-gram hashes of a document."""
        place = (domain, number)
        found = self._recent.pop(place, None)
        if found is None:
            found = self._read(domain, number)
            self._room -= len(found)
        self._recent[place] = found
        while self._room < 0 and len(self._recent) > 1:
            self._room += len(self._recent.popitem(last=False)[1])
        return found

    def _read(self, domain: str, number: int) -> Hashes:
        found = words(self._texts.row(domain, number).text)
        return np.unique(ngram_hashes(self._hashes.of(found), self._n))
