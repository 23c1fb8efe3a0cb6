"""Hashes of the n-grams of evaluation sets, and how much of each set a text repeats.

N-grams are sampled by their hash: those whose low bits are zero are looked for, in the evaluation
sets and in the text alike, so that the share found is an estimate without bias of the whole share.
How many documents are touched at all is then a lower bound.
"""

from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.data.manifest import Overlap
from workbench.data.text.words import Hashes, WordHashes, ngram_hashes, words

MOST_HASHES = 2_000_000
"""Pairs of an n-gram and a document that an index holds at most; beyond, it is thinned."""
_PENDING = 1 << 18


@dataclass(frozen=True, kw_only=True)
class NgramIndex:
    """Which documents of which evaluation sets an n-gram stands in.

    Documents of all sets are numbered together. Everything is a flat array.
    """

    ngram: int
    """Words."""
    one_in: int
    """Power of two: hashes that it divides are held."""
    names: tuple[str, ...]
    """Of the sets."""
    hashes: Hashes
    """Distinct, ascending."""
    starts: NDArray[np.int64]
    """``[hashes + 1]``: n-gram ``i`` stands in ``pair_documents[starts[i]:starts[i + 1]]``."""
    pair_documents: NDArray[np.uint32]
    """Document of each pair, ascending within an n-gram."""
    document_sets: NDArray[np.uint16]
    """Number of each document's set."""
    sizes: NDArray[np.int64]
    """Distinct n-grams held of each document; 0 where it is too short or none was sampled."""


class IndexBuilder:
    """Takes the documents of the evaluation sets one by one, in bounded memory."""

    def __init__(self, ngram: int, names: tuple[str, ...], *, most: int = MOST_HASHES) -> None:
        """Begin with no document.

        Args:
            ngram: words.
            names: of the sets, in the order of their numbers.
            most: pairs of an n-gram and a document that are held. The sampling is the smallest
                power of two that keeps to it, whatever the order of the documents.
        """
        self._ngram = ngram
        self._most = most
        self._one_in = 1
        self._names = names
        self._known = WordHashes()
        self._hashes = np.empty(0, dtype=np.uint64)
        self._documents = np.empty(0, dtype=np.uint32)
        self._pending: list[tuple[int, Hashes]] = []
        self._num_pending = 0
        self._sets = array("H")

    def add(self, set_number: int, text: str) -> None:
        """Add the next document."""
        document = len(self._sets)
        self._sets.append(set_number)
        found = np.unique(sampled_ngrams(text, self._ngram, self._one_in, self._known))
        if len(found):
            self._pending.append((document, found))
            self._num_pending += len(found)
        if self._num_pending > _PENDING:
            self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        self._hashes = np.concatenate([self._hashes, *(found for _, found in self._pending)])
        added = [np.full(len(found), document, np.uint32) for document, found in self._pending]
        self._documents = np.concatenate([self._documents, *added])
        self._pending, self._num_pending = [], 0
        while len(self._hashes) > self._most:
            self._one_in *= 2
            kept = self._hashes & np.uint64(self._one_in - 1) == 0
            self._hashes, self._documents = self._hashes[kept], self._documents[kept]

    def index(self) -> NgramIndex:
        """Return the index of what was added."""
        self._settle()
        document_sets = np.asarray(self._sets, dtype=np.uint16)
        return _index(
            self._ngram,
            self._one_in,
            self._names,
            self._hashes,
            self._documents,
            document_sets,
        )


def _index(
    ngram: int,
    one_in: int,
    names: tuple[str, ...],
    hashes: Hashes,
    documents: NDArray[np.uint32],
    document_sets: NDArray[np.uint16],
) -> NgramIndex:
    order = np.lexsort((documents, hashes))
    ordered = hashes[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] + np.uint64(1)))
    return NgramIndex(
        ngram=ngram,
        one_in=one_in,
        names=names,
        hashes=ordered[first],
        starts=np.append(first, len(ordered)).astype(np.int64),
        pair_documents=documents[order],
        document_sets=document_sets,
        sizes=np.bincount(documents, minlength=len(document_sets)).astype(np.int64),
    )


def sampled_ngrams(text: str, ngram: int, one_in: int, known: WordHashes) -> Hashes:
    """Return the hashes of a text's n-grams that the sampling takes, in order, with repeats.

    A text of fewer words has none.
    """
    found = words(text)
    if len(found) < ngram:
        return np.empty(0, dtype=np.uint64)
    hashed = ngram_hashes(known.of(found), ngram)
    if one_in > 1:
        hashed = hashed[hashed & np.uint64(one_in - 1) == 0]
    return hashed


def set_overlaps(
    index: NgramIndex, found: NDArray[np.bool_], threshold: float
) -> dict[str, Overlap]:
    """Return how much of each set was found.

    Args:
        index: what was looked for.
        found: ``[hashes]``: whether each n-gram stands in the text.
        threshold: share of a document's n-grams that marks it.
    """
    widths = np.diff(index.starts)
    pair_found = np.repeat(found, widths)
    num_documents = len(index.sizes)
    found_of = np.bincount(index.pair_documents[pair_found], minlength=num_documents)
    measured = index.sizes > 0
    marked = measured & (found_of >= threshold * index.sizes)
    pair_sets = index.document_sets[index.pair_documents]
    pair_hashes = np.repeat(np.arange(len(widths)), widths)
    overlaps = {}
    for number, name in enumerate(index.names):
        mine = index.document_sets == number
        held = np.unique(pair_hashes[pair_sets == number])
        overlaps[name] = Overlap(
            documents=int(mine.sum()),
            ngrams=len(held),
            found=int(found[held].sum()),
            touched=int((mine & (found_of > 0)).sum()),
            contaminated=int((mine & marked).sum()),
            unmeasured=int((mine & ~measured).sum()),
        )
    return overlaps


def write_index(index: NgramIndex, path: Path) -> None:
    """Write an index as ``ngrams.npz``: equal indexes are equal bytes. It holds no text."""
    documents = index.pair_documents
    with path.open("wb") as file:
        np.savez(
            file,
            hash=np.repeat(index.hashes, np.diff(index.starts)),
            document=documents,
            set_of_document=index.document_sets,
            names=np.asarray(index.names, dtype=np.str_),
            ngram=np.asarray([index.ngram, index.one_in], dtype=np.int64),
        )


def read_index(path: Path) -> NgramIndex:
    """Return the index of a file that `write_index` wrote.

    Raises:
        OSError, ValueError, KeyError: the file is not one.
    """
    with np.load(path, allow_pickle=False) as arrays:
        ngram, one_in = (int(value) for value in arrays["ngram"])
        return _index(
            ngram,
            one_in,
            tuple(str(name) for name in arrays["names"]),
            arrays["hash"],
            arrays["document"],
            arrays["set_of_document"],
        )
