"""How often a document is drawn by the entropy of its words, and what that makes of a window.

A document of rank r (the share of its domain's training documents with lower entropy) has the
relative weight ``decay ** (100 · (1 - r))``: text of frequent words comes up less often. Validation
and test text is never weighted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.data.document_weights import Decay, document_weights

_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class DecaySchedule:
    """The decay of the document weights, linear in the step."""

    first: float
    """At the first step, above 0 and at most 1; 1 weighs all documents alike."""
    last: float
    """At the last step."""
    steps: int
    """Of the whole run."""

    def at(self, step: int) -> float:
        """Return the decay of a step, counted from 1; after the last step that of the last."""
        if self.steps <= 1:
            return self.first
        share = min(step - 1, self.steps - 1) / (self.steps - 1)
        return self.first + (self.last - self.first) * share

    @property
    def steepest(self) -> float:
        """The smallest decay of the run, at which the weights differ most."""
        return min(self.first, self.last)


class WindowWeights:
    """The weights of one domain's fixed windows, from those of the documents in them."""

    def __init__(
        self, documents: NDArray[Any], *, num_tokens: int, seq_len: int, steepest: float
    ) -> None:
        """Take the weights to the largest one at the steepest decay.

        Args:
            documents: rows of `corpus.DOCUMENT_ROW` of the domain's training split.
            num_tokens: of that split.
            seq_len: targets a window.
            steepest: the smallest decay that will be asked for.

        Raises:
            ValueError: the rows do not begin at the first token.
        """
        if not len(documents) or documents["start"][0] != 0:
            raise ValueError(f"{len(documents)} document rows do not cover {num_tokens} tokens")
        self._starts = np.asarray(documents["start"], dtype=np.int64)
        self._ranks = np.asarray(documents["rank"], dtype=np.float32)
        self._num_tokens = num_tokens
        self._width = seq_len + 1
        self._steepest = steepest
        self._log_largest = 0.0
        count = num_windows(num_tokens, seq_len)
        blocks = range(0, count, _BLOCK)
        largest = max(
            float(self.mean(np.arange(b, min(count, b + _BLOCK)), steepest).max()) for b in blocks
        )
        self._log_largest = math.log(largest)

    def mean(self, windows: NDArray[np.int64], decay: Decay) -> NDArray[np.float64]:
        """Return the mean weight of each window's tokens, each token having its document's."""
        first, stop = window_bounds(windows, self._num_tokens, self._width - 1)
        low = np.searchsorted(self._starts, first, side="right") - 1
        num = np.searchsorted(self._starts, stop - 1, side="right") - low
        begins = np.cumsum(num) - num
        # The documents of all windows in one row: those of window i from begins[i] on.
        document = np.arange(int(num.sum())) - np.repeat(begins - low, num)
        ends = np.append(self._starts[1:], self._num_tokens)[document]
        held = np.minimum(ends, np.repeat(stop, num)) - np.maximum(
            self._starts[document], np.repeat(first, num)
        )
        # An array of decays also where there is one: the same arithmetic gives the same bits.
        decays = np.repeat(np.broadcast_to(decay, windows.shape), num)
        weighted = held * document_weights(self._ranks[document], decays)
        sums: NDArray[np.float64] = np.add.reduceat(weighted, begins)
        return sums / (stop - first)

    def relative(self, windows: NDArray[np.int64], decay: Decay) -> NDArray[np.float64]:
        """Return each window's weight over the domain's largest, at most 1.

        Exactly the largest at the steepest decay. At a gentler one it is the bound that the power
        mean inequality gives from there, ``largest ** (ln decay / ln steepest)``: a pass over all
        windows a step would cost more than training.
        """
        if self._steepest == 1.0:
            return self.mean(windows, decay)
        share = np.log(np.broadcast_to(decay, windows.shape)) / math.log(self._steepest)
        largest = np.exp(self._log_largest * share)
        return np.asarray(self.mean(windows, decay) / largest, dtype=np.float64)


def num_windows(num_tokens: int, seq_len: int) -> int:
    """Return how many fixed windows of ``seq_len`` targets cover so many tokens, at least one."""
    return max(1, -(-(num_tokens - 1) // seq_len))


def window_bounds(
    windows: NDArray[np.int64], num_tokens: int, seq_len: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each window's first token and the one after its last.

    Windows overlap by one token. The last ends at the last token: where the windows do not divide
    the text it overlaps the one before further. Text shorter than a window is one short window.
    """
    width = min(seq_len + 1, num_tokens)
    first = np.minimum(windows * seq_len, num_tokens - width)
    return first, first + width
