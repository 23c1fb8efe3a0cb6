"""How many bands of how many MinHash rows find pairs at a threshold."""

import math
from dataclasses import dataclass

import numpy as np

from workbench.errors import InvalidFileError

_POINTS = 1_001


@dataclass(frozen=True, kw_only=True)
class Bands:
    """Two documents are compared when all rows of at least one band agree."""

    num: int
    rows: int
    """Hashes in each band."""

    @property
    def num_hashes(self) -> int:
        """Hashes a document."""
        return self.num * self.rows

    def detection(self, similarity: float) -> float:
        """Return the probability that a pair of this Jaccard similarity s is compared.

        It is 1 − (1 − s^r)^b for b bands of r rows (Leskovec, Rajaraman and Ullman, Mining of
        Massive Datasets, section 3.4.2), where each row agrees with probability s by itself.
        """
        return float(1 - (1 - similarity**self.rows) ** self.num)


def bands_for(*, threshold: float, detection: float, num_hashes: int) -> Bands:
    """Return the bands that compare the fewest pairs below the threshold.

    Of all that compare a pair at the threshold with probability ``detection`` or more and need at
    most ``num_hashes``, it is the one with the least area under the detection curve from
    similarity 0 to the threshold; of equal ones, the one of fewest hashes.

    Raises:
        InvalidFileError: ``num_hashes`` are too few.
    """
    possible = [
        Bands(num=num, rows=rows)
        for rows in range(1, num_hashes + 1)
        if (num := _fewest(threshold**rows, detection)) * rows <= num_hashes
    ]
    if not possible:
        needed = int(_fewest(threshold, detection))  # bands of one row need the fewest hashes
        raise InvalidFileError(
            f"near_duplicates: {num_hashes} hashes a document cannot find {detection} of the pairs "
            f"at similarity {threshold}, {needed} can",
            remedy=f"set near_duplicates.num_hashes to {needed} or more, or raise the threshold",
        )
    return min(possible, key=lambda bands: (_area(bands, threshold), bands.num_hashes))


def _fewest(agree: float, detection: float) -> int:
    """Return how many bands it takes where one agrees with probability ``agree``."""
    if agree >= 1:
        return 1
    if agree < 1e-12:
        return 2**62  # more than anyone may ask for: no band ever agrees
    num = max(1, math.ceil(math.log1p(-detection) / math.log1p(-agree)))
    # The quotient of two logarithms may be a rounding error below a whole number.
    return num if 1 - (1 - agree) ** num >= detection else num + 1


def _area(bands: Bands, threshold: float) -> float:
    similarity = np.linspace(0, threshold, _POINTS)
    return float(np.trapezoid(1 - (1 - similarity**bands.rows) ** bands.num, similarity))
