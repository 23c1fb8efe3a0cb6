"""How often documents of each kind are kept, so that a corpus takes a reference's distribution."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, rankdata

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]

LEAST_P = 0.01
"""Above it a chi-squared test does not tell the distributions apart, and all is kept."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Probabilities of keeping a document, by bin."""

    acceptance: Shares
    """At most 1, and 1 for the bin that the corpus has least of compared with the reference; 0
    where there is nothing to keep."""
    p_equal: float
    """Probability of such a difference by chance, were the distributions equal."""
    unmatched: tuple[int, ...]
    """Bins, from 0, where the reference has documents and the corpus none: nothing can fill
    them."""


def matching(reference: Counts, corpus: Counts) -> Matching:
    """Return the acceptance that is proportional to reference share / corpus share.

    Args:
        reference: documents by bin, at least one in all.
        corpus: likewise.
    """
    present = corpus > 0
    p_equal = difference_p(reference, corpus)
    ratio = present.astype(np.float64)
    if p_equal < LEAST_P:
        ratio[present] = shares(reference)[present] / shares(corpus)[present]
    # Where the two share no bin every ratio is 0: nothing of the corpus is like the reference.
    greatest = ratio[present].max() or 1.0
    return Matching(
        acceptance=np.minimum(1.0, ratio / greatest),
        p_equal=p_equal,
        unmatched=tuple(np.flatnonzero(~present & (reference > 0)).tolist()),
    )


def difference_p(reference: Counts, corpus: Counts) -> float:
    """Return the p-value of Pearson's chi-squared test that both have one distribution."""
    both = np.stack([reference, corpus])
    both = both[:, both.sum(axis=0) > 0]
    return float(chi2_contingency(both).pvalue) if both.shape[1] > 1 else 1.0


def shares(counts: Counts) -> Shares:
    """Return the counts over their sum; all 0 where there are none."""
    total = counts.sum()
    return counts / total if total else np.zeros(len(counts))


def distance(reference: Counts, corpus: Counts) -> float:
    """Return the total variation distance: half the sum of |differences of shares|, 0 to 1."""
    return float(np.abs(shares(reference) - shares(corpus)).sum() / 2)


def area_under_curve(wanted: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the probability that a wanted score is above another one; ties count half.

    0.5 where the classifier tells nothing apart (Mann and Whitney 1947).
    """
    if not len(wanted) or not len(other):
        return 0.5
    placed = rankdata(np.concatenate([wanted, other]))[: len(wanted)].sum()
    return float((placed - len(wanted) * (len(wanted) + 1) / 2) / (len(wanted) * len(other)))
