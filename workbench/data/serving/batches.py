"""The sequences of one optimizer step: their tokens, places and documents."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.data.tokenizer import END_OF_TEXT_ID


class BatchShape(Protocol):
    """Sequences of one optimizer step; `training.config.BatchConfig` is one."""

    @property
    def sequences(self) -> int:
        """Sequences a step, over all ranks."""

    @property
    def seq_len(self) -> int:
        """Targets a sequence."""

    @property
    def documents(self) -> Literal["joined", "masked"]:
        """Whether a batch says where its documents begin."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """The sequences of one optimizer step."""

    tokens: NDArray[np.int64]
    """``[sequences, seq_len + 1]``: inputs are all but the last, targets all but the first."""
    domains: NDArray[np.int16]
    """``[sequences]``: number of each sequence's domain in the corpus."""
    segments: NDArray[np.int32] | None = None
    """``[sequences, seq_len + 1]``: which of its sequence's documents each token belongs to, from
    0; end-of-text belongs to the document that it ends. None where documents are joined."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the sequences of one step, or of several, lie in the corpus; one entry a sequence."""

    domains: NDArray[np.int16]
    """Number of the domain in the corpus."""
    epochs: NDArray[np.int64]
    """Of the domain, from 0."""
    windows: NDArray[np.int64]
    """Number of the window in the domain's tokens."""


def segments(tokens: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return for each row which of its documents a token belongs to, from 0.

    End-of-text belongs to the document that it ends.
    """
    found = np.zeros(tokens.shape, dtype=np.int32)
    np.cumsum(tokens[:, :-1] == END_OF_TEXT_ID, axis=1, out=found[:, 1:])
    return found
