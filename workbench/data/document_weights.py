"""How often a document is drawn, by where its entropy stands in its domain."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Decay: TypeAlias = float | NDArray[np.float64]
"""One for all, or one each; above 0 and at most 1."""

_STEEPNESS = 100


def document_weights(rank: NDArray[np.floating], decay: Decay) -> NDArray[np.float64]:
    """Return each document's relative probability of being drawn: ``decay ** (100 · (1 - rank))``.

    1 at rank 1, and decay^100 for the document with the least entropy: text of frequent words comes
    up less often. Our definition (docs/decisions/0016).

    Raises:
        ValueError: a decay outside 0 < decay <= 1.
    """
    if not (np.min(decay) > 0 and np.max(decay) <= 1):
        raise ValueError(f"decay is {decay}, it must be above 0 and at most 1")
    exponent = _STEEPNESS * (1.0 - np.asarray(rank, dtype=np.float64))
    return np.asarray(np.exp(exponent * np.log(decay)), dtype=np.float64)
