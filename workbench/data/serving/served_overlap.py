"""Overlap of the evaluation sets with the tokens that a run was served, not with all it might be.

The sets are known by the hashes in ``ngrams.npz``, so that the sealed split stays shut. The served
tokens are decoded and looked through once, document by document.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray
from tokenizers import Tokenizer

from workbench.data.filters.ngram_finder import finder_of
from workbench.data.filters.ngram_index import NgramIndex, read_index, set_overlaps
from workbench.data.manifest import NGRAMS_NAME, Manifest, damaged, file_sha256
from workbench.data.tokenizer import END_OF_TEXT_ID
from workbench.registry.entries import ServedOverlap, SetOverlap

Ranges: TypeAlias = NDArray[np.int64]
"""``[windows, 2]``: the first token of each window and the one after its last."""

MOST_BYTES = 128_000_000
"""UTF-8 bytes of served text that are looked through at most, about; beyond, windows are sampled
by a hash of their place: tens of seconds, whatever the length of the run."""
_BLOCK = 1 << 16
"""Windows that begin in one stretch of so many tokens are sampled together: n-grams that reach
from one window into the next are kept."""
_CHUNK = 1 << 18
_REACH = 1 << 12
"""Tokens that consecutive chunks share, so that no n-gram is cut by reading in chunks."""


class Windows(Protocol):
    """The windows of one domain; `served.ServedWindows` is one."""

    @property
    def times(self) -> NDArray[np.int64]:
        """How often each was served."""

    @property
    def first(self) -> NDArray[np.int64]:
        """Its first token in the domain's training split."""

    @property
    def stop(self) -> NDArray[np.int64]:
        """The token after its last."""


class ServedCorpus(Protocol):
    """What is read of a corpus; `corpus.Corpus` is one."""

    @property
    def folder(self) -> Path:
        """Where its files are."""

    @property
    def manifest(self) -> Manifest:
        """What it was built from."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the tokens."""

    def tokens(self, split: str, domain: str) -> NDArray[Any]:
        """The tokens of a domain."""


def served_overlap(
    corpus: ServedCorpus, served: Mapping[str, Windows], *, most_bytes: int = MOST_BYTES
) -> ServedOverlap:
    """Return how much of each evaluation set stands in the windows that were served.

    Text is looked at as it was served: an n-gram that begins in a served window and ends in one
    that was not is not counted, nor is one across the end of a document. Where windows were
    sampled, what was found is a lower bound.

    Args:
        corpus: the corpus that the windows are of.
        served: by domain, the windows of the training split that a stream delivered.
        most_bytes: how much is looked through.

    Raises:
        IntegrityError: ``ngrams.npz`` is not the file that was built.
    """
    index = _index_of(corpus)
    finder = finder_of(index)
    found = np.zeros(len(index.hashes), dtype=np.bool_)
    windows = {domain: _ranges(of) for domain, of in sorted(served.items())}
    kept = _sampled(corpus, windows, most_bytes)
    for domain, ranges in kept.items():
        tokens = corpus.tokens("train", domain)
        for text in _texts(corpus.tokenizer, tokens, ranges):
            found[finder.places(text)] = True
    threshold = corpus.manifest.contamination.threshold
    return ServedOverlap(
        ngram=index.ngram,
        threshold=threshold,
        one_in=index.one_in,
        windows=sum(map(len, windows.values())),
        measured_windows=sum(map(len, kept.values())),
        sets={
            name: SetOverlap.model_validate(overlap.model_dump(exclude={"samples"}))
            for name, overlap in set_overlaps(index, found, threshold).items()
        },
    )


def _ranges(windows: Windows) -> Ranges:
    once = windows.times > 0
    return np.stack([windows.first[once], windows.stop[once]], axis=1)


def _index_of(corpus: ServedCorpus) -> NgramIndex:
    path = corpus.folder / NGRAMS_NAME
    if not path.is_file() or file_sha256(path) != corpus.manifest.ngrams_sha256:
        raise damaged(corpus.folder, f"{NGRAMS_NAME} is not the file that was built")
    return read_index(path)


def _sampled(
    corpus: ServedCorpus, windows: Mapping[str, Ranges], most_bytes: int
) -> dict[str, Ranges]:
    """Return the windows that are looked through, an equal share of each domain's."""
    shards = corpus.manifest.shards["train"]
    total = sum(
        int((ranges[:, 1] - ranges[:, 0]).sum()) * shards[domain].bytes / shards[domain].tokens
        for domain, ranges in windows.items()
    )
    if total <= most_bytes:
        return dict(windows)
    below = int(most_bytes / total * 2**64)
    kept = {}
    for domain, ranges in windows.items():
        blocks, block_of = np.unique(ranges[:, 0] // _BLOCK, return_inverse=True)
        chosen = [_draw(corpus.manifest.fingerprint, domain, int(b)) < below for b in blocks]
        kept[domain] = ranges[np.asarray(chosen, dtype=np.bool_)[block_of]]
    return kept


def _draw(fingerprint: str, domain: str, block: int) -> int:
    return int(xxhash.xxh3_64_intdigest(f"served/v1|{fingerprint}|{domain}|{block}".encode()))


def _texts(tokenizer: Tokenizer, tokens: NDArray[Any], ranges: Ranges) -> Iterator[str]:
    """Yield the text of token ranges in pieces that no end of a document crosses."""
    for begin, end in _merged(ranges):
        for start in range(begin, end, _CHUNK):
            ids = np.asarray(tokens[start : min(end, start + _CHUNK + _REACH)])
            pieces = np.split(ids, np.flatnonzero(ids == END_OF_TEXT_ID))
            yield from tokenizer.decode_batch([piece.tolist() for piece in pieces if len(piece)])


def _merged(ranges: Ranges) -> list[tuple[int, int]]:
    """Return ranges that touch or overlap as one."""
    runs: list[tuple[int, int]] = []
    for start, end in ranges[np.argsort(ranges[:, 0], kind="stable")].tolist():
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((start, end))
    return runs
