"""Domains whose tokens are their own positions, so that a window says where it is from."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from workbench.data.corpus import Corpus
from workbench.data.serving.stream import TokenStream
from workbench.training.config import BatchConfig

DOCUMENT_ROW = np.dtype([("start", "<u8"), ("entropy", "<f4"), ("rank", "<f4")])


class NumberedSource:
    """Tokens 0, 1, 2, … of each domain; documents of ``every`` tokens with rising rank."""

    fingerprint = "sha256:numbered"

    def __init__(self, *, every: int = 7, **lengths: int) -> None:
        self.lengths = lengths
        self.every = every
        self.domains = tuple(sorted(lengths))

    def tokens(self, split: str, domain: str) -> np.ndarray:
        assert split == "train"
        return np.arange(self.lengths[domain], dtype=np.uint32)

    def documents(self, split: str, domain: str) -> np.ndarray:
        assert split == "train"
        starts = np.arange(0, self.lengths[domain], self.every)
        rows = np.zeros(len(starts), dtype=DOCUMENT_ROW)
        rows["start"] = starts
        rows["rank"] = np.arange(len(starts)) / len(starts)
        return rows


def stream(
    source: NumberedSource | Corpus,
    mixtures: Sequence[tuple[int, dict[str, float]]],
    *,
    sequences: int = 4,
    seq_len: int = 2,
    seed: int = 7,
    documents: Literal["joined", "masked"] = "joined",
    **more: Any,
) -> TokenStream:
    batch = BatchConfig(sequences=sequences, seq_len=seq_len, documents=documents)
    return TokenStream(source, batch=batch, seed=seed, mixtures=mixtures, **more)


def drawn(stream: TokenStream, steps: int) -> list[tuple[int, int]]:
    """Domain and first token of each sequence of the next steps."""
    batches = [stream.next_step() for _ in range(steps)]
    return [
        (int(domain), int(row[0]))
        for batch in batches
        for row, domain in zip(batch.tokens, batch.domains, strict=True)
    ]
