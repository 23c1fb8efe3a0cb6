"""A light classifier of text: logistic regression over hashed single words and pairs of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from workbench.data.text.words import WordHashes, ngram_hashes, words

Scores = NDArray[np.float64]

FEATURES = 2**18
"""Columns that words and pairs are hashed into."""
_MOST_ITERATIONS = 1000


class HashedWords:
    """Turns texts into rows of unit length: counts of words and pairs of words, hashed."""

    def __init__(self) -> None:
        self._hashes = WordHashes()

    def of(self, texts: Sequence[str]) -> Any:
        """Return a sparse matrix ``[len(texts), FEATURES]``; a text without words is a zero row."""
        columns = [self._columns(text) for text in texts]
        ends = np.cumsum([0, *map(len, columns)])
        inside = np.concatenate(columns) if columns else np.empty(0, dtype=np.int32)
        counted = csr_matrix((np.ones(len(inside)), inside, ends), shape=(len(texts), FEATURES))
        counted.sum_duplicates()
        return normalize(counted, copy=False)

    def _columns(self, text: str) -> NDArray[np.int32]:
        single = self._hashes.of(words(text))
        both = np.concatenate([single, ngram_hashes(single, 2)])
        return (both % np.uint64(FEATURES)).astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Says how much a text is like the wanted ones."""

    coefficients: NDArray[np.float64]
    intercept: float

    def scores(self, rows: Any) -> Scores:
        """Return the probability of being wanted, were both kinds equally frequent."""
        logits: Scores = rows @ self.coefficients + self.intercept
        return 1 / (1 + np.exp(-logits))


def trained(wanted: Any, other: Any) -> Classifier:
    """Return the classifier of two sets of rows, each set weighing as much as the other.

    Args:
        wanted: rows of `HashedWords`, at least one.
        other: likewise.
    """
    labels = np.repeat([1, 0], [wanted.shape[0], other.shape[0]])
    rows = vstack([wanted, other], format="csr")
    # The penalty keeps the coefficient of a column that nobody uses at zero, so it can stay out.
    used = np.unique(rows.indices)
    # L-BFGS starts at zero and draws nothing, and sums by one thread have one order: the same rows
    # give the same coefficients, whatever the number of threads that a machine has.
    model = LogisticRegression(class_weight="balanced", max_iter=_MOST_ITERATIONS)
    with threadpool_limits(limits=1):
        model.fit(rows[:, used], labels)
    coefficients = np.zeros(FEATURES)
    coefficients[used] = model.coef_[0]
    return Classifier(coefficients=coefficients, intercept=float(model.intercept_[0]))
