"""Held-out text as fixed windows in which every token is scored exactly once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.data.tokenizer import END_OF_TEXT_ID


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Inputs and targets of an evaluation.

    Bits per byte = sum of -log2 p(target) where ``mask`` is true, divided by ``total_bytes``.
    """

    inputs: NDArray[np.int64]
    """``[n, seq_len]``: the token before each target."""
    targets: NDArray[np.int64]
    """``[n, seq_len]``."""
    mask: NDArray[np.bool_]
    """``[n, seq_len]``: false for padding and for end-of-text, which stands for no byte."""
    total_bytes: int
    """UTF-8 bytes of the scored targets."""


def evaluation_windows(
    tokens: NDArray[Any], token_bytes: NDArray[np.int64], *, seq_len: int, max_bytes: int | None
) -> Windows:
    """Return the windows over the first ``max_bytes`` of a token sequence, or over all of it.

    Window k scores targets ``k*seq_len … (k+1)*seq_len - 1``; its first input is the token before
    them, end-of-text for the very first. Nothing is scored twice and nothing is left out.

    Args:
        tokens: shape ``(length,)``, documents each followed by end-of-text.
        token_bytes: UTF-8 bytes of each token of the vocabulary.
        seq_len: positions a window.
        max_bytes: at most this many UTF-8 bytes are scored, cut at a token; at least one token.

    Raises:
        ValueError: no token stands for any byte, or ``max_bytes`` is below 1.
    """
    targets = _first_bytes(tokens, token_bytes, max_bytes)
    total_bytes = int(token_bytes[targets].sum())
    if total_bytes == 0:
        raise ValueError(f"{len(tokens)} tokens hold no text to score")
    num_windows = -(-len(targets) // seq_len)
    padded = np.full(num_windows * seq_len, END_OF_TEXT_ID, dtype=np.int64)
    padded[: len(targets)] = targets
    inputs = np.empty_like(padded)
    inputs[0] = END_OF_TEXT_ID
    inputs[1:] = padded[:-1]
    shape = (num_windows, seq_len)
    mask = token_bytes[padded] > 0
    mask[len(targets) :] = False
    return Windows(
        inputs=inputs.reshape(shape),
        targets=padded.reshape(shape),
        mask=mask.reshape(shape),
        total_bytes=total_bytes,
    )


def _first_bytes(
    tokens: NDArray[Any], token_bytes: NDArray[np.int64], max_bytes: int | None
) -> NDArray[np.int64]:
    if max_bytes is None:
        return np.asarray(tokens, dtype=np.int64)
    if max_bytes < 1:
        raise ValueError(f"max_bytes {max_bytes} must be at least 1")
    # Documents hold no empty text, so at least every second token stands for a byte: this prefix
    # is long enough, and a large split is not read whole.
    prefix = np.asarray(tokens[: 2 * max_bytes + 2], dtype=np.int64)
    within = np.cumsum(token_bytes[prefix]) <= max_bytes
    first_text = int(np.argmax(token_bytes[prefix] > 0)) if len(prefix) else 0
    return prefix[: max(int(within.sum()), first_text + 1)]
