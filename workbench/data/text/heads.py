"""Frequent words, how surprising a document's words are, and weights that follow from it.

A document's entropy is the mean surprisal of its words under the unigram distribution of its
domain's training text: -1/n Σ log2 p(word), in bits a word (Shannon 1948, section 6, with p of the
domain instead of the document). docs/decisions/0016-document-weights.md says why.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from workbench.data.document_weights import document_weights
from workbench.data.manifest import WordHead
from workbench.data.text.words import words

HEAD = 1000
"""Words in the head of the frequencies."""
MOST_WORDS = 100_000
"""Distinct words whose counts are kept; twice as many are held before they are cut back."""


@dataclass(frozen=True, kw_only=True)
class DocumentWords:
    """What the word frequencies of a domain say about one document."""

    words: int
    head: int
    """Of them, among the domain's most frequent words."""
    entropy: float
    """Mean surprisal in bits a word; 0 for a text without words."""


class _Surprisals(dict[str, float]):
    """Bits by word; any other word has those of a word seen once."""

    def __init__(self, counts: Mapping[str, int], total: int) -> None:
        bits = math.log2(max(total, 1))
        super().__init__({word: bits - math.log2(count) for word, count in counts.items()})
        self._unseen = bits

    def __missing__(self, word: str) -> float:
        return self._unseen


class Unigram:
    """The distribution of single words in the text that was counted."""

    def __init__(self, counts: Mapping[str, int], total: int, head: Iterable[str]) -> None:
        self._surprisals = _Surprisals(counts, total)
        self._head = frozenset(head)

    def entropy(self, text: str) -> float:
        """Return the mean surprisal of the text's words in bits; 0 where there are none.

        A word that was not counted, or only before a cut, has the surprisal of one seen once.
        """
        return self.measured(text).entropy

    def measured(self, text: str) -> DocumentWords:
        """Return the number of words, of head words, and the entropy of a text."""
        found = words(text)
        if not found:
            return DocumentWords(words=0, head=0, entropy=0.0)
        bits = sum(map(self._surprisals.__getitem__, found))
        head = sum(map(self._head.__contains__, found))
        return DocumentWords(words=len(found), head=head, entropy=bits / len(found))


class WordCounts:
    """Counts of words in bounded memory.

    At ``2 * most_words`` distinct words the rarest are forgotten, so that ``most_words`` are left.
    A forgotten word that comes again starts at nothing: its count is too low by at most
    ``count_error``, the sum of the greatest counts forgotten at each cut. Counts are never too
    high. This is lossy counting (Manku and Motwani 2002, section 4.2) that cuts by size instead
    of at fixed intervals.
    """

    def __init__(self, most_words: int = MOST_WORDS) -> None:
        if most_words < 1:
            raise ValueError(f"most_words is {most_words}, at least 1 is needed")
        self.total = 0
        """Words counted, forgotten ones included."""
        self.count_error = 0
        self._most_words = most_words
        self._counts: Counter[str] = Counter()

    def update(self, text: str) -> None:
        """Count the words of a text."""
        found = words(text)
        self.total += len(found)
        self._counts.update(found)
        if len(self._counts) > 2 * self._most_words:
            self._cut()

    def merge(self, other: "WordCounts") -> None:
        """Add what another one counted; the errors add up."""
        self.total += other.total
        self.count_error += other.count_error
        self._counts.update(other._counts)
        if len(self._counts) > 2 * self._most_words:
            self._cut()

    def count(self, word: str) -> int:
        """Return how often a word was counted, as `words.words` writes it."""
        return self._counts[word]

    def __len__(self) -> int:
        return len(self._counts)

    def head_words(self, num: int = HEAD) -> tuple[str, ...]:
        """Return the most frequent words, most frequent first, equal ones in code point order."""
        # Ordered by word first, since nlargest keeps the order of equal keys.
        return tuple(nlargest(num, sorted(self._counts), key=self._counts.__getitem__))

    def head(self, num: int = HEAD) -> WordHead:
        """Return the share of the most frequent words among all words counted."""
        inside = sum(nlargest(num, self._counts.values()))
        share = inside / self.total if self.total else 0.0
        return WordHead(words=self.total, share=share, count_error=self.count_error)

    def unigram(self, num: int = HEAD) -> Unigram:
        """Return the distribution, with its ``num`` most frequent words as the head."""
        return Unigram(self._counts, self.total, self.head_words(num))

    def _cut(self) -> None:
        counts = np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))
        place = len(counts) - self._most_words - 1
        greatest = int(np.partition(counts, place)[place])
        # Of equal counts none is kept: which ones would depend on the order of the text.
        self._counts = Counter({w: n for w, n in self._counts.items() if n > greatest})
        self.count_error += greatest


def ranks(entropies: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return for each document the share of documents with lower entropy, 0 to below 1.

    Of equal ones each counts half of the others as lower.
    """
    if len(entropies) == 0:
        return np.zeros(0, dtype=np.float32)
    placed: NDArray[np.float64] = rankdata(entropies, method="average")
    return ((placed - 1) / len(entropies)).astype(np.float32)


def weighted_head(
    rank: NDArray[np.float32],
    num_words: NDArray[np.int64],
    num_head: NDArray[np.int64],
    *,
    decay: float,
) -> float:
    """Return the head's expected share of the words when documents are drawn by their weights.

    The head are the most frequent words of the domain's training text, the same at every decay.

    Args:
        rank: of each document.
        num_words: its words.
        num_head: of them, in the head.
        decay: of the weights; at 1 all documents are drawn alike.
    """
    drawn = document_weights(rank, decay)
    total = float(drawn @ num_words)
    return float(drawn @ num_head) / total if total else 0.0
