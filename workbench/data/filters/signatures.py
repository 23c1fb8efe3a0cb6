"""MinHash signatures of documents, reduced to one key a band.

Each band's key stands for all its rows: two documents have the same key where all rows agree.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from workbench.data.filters.bands import Bands
from workbench.data.text.words import Hashes, WordHashes, ngram_hashes, words

PLACE = np.dtype([("domain", "<u2"), ("number", "<u4"), ("num_bytes", "<u4"), ("label", "<u2")])
"""Where a document is, how long it is, and the number of its language."""
_BATCH_BYTES = 2_000_000
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some documents: text and place of each."""

    texts: list[str]
    places: NDArray[np.void]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of those documents of a batch that have words."""

    places: NDArray[np.void]
    keys: Hashes
    """One row a document, one column a band."""


def batches(documents: Iterable[tuple[str, tuple[int, int, int, int]]]) -> Iterator[Batch]:
    """Yield texts and their places in batches of about 2 MB, in order."""
    texts: list[str] = []
    places: list[tuple[int, int, int, int]] = []
    size = 0
    for text, place in documents:
        texts.append(text)
        places.append(place)
        size += place[2]
        if size >= _BATCH_BYTES:
            yield Batch(texts=texts, places=np.array(places, dtype=PLACE))
            texts, places, size = [], [], 0
    if texts:
        yield Batch(texts=texts, places=np.array(places, dtype=PLACE))


def band_keys(batch: Batch, *, ngram: int, bands: Bands, seed: int) -> Keys:
    """Return the keys of a batch; a document without words has no n-gram and gets none.

    Documents of different languages never have a key in common.
    """
    hashes = WordHashes()
    sets = [ngram_hashes(hashes.of(words(text)), ngram) for text in batch.texts]
    places = batch.places[np.array([len(one) > 0 for one in sets], dtype=bool)]
    rows = signatures([one for one in sets if len(one)], num_hashes=bands.num_hashes, seed=seed)
    keys = np.zeros((len(places), bands.num), dtype=np.uint64)
    keys += (places["label"].astype(np.uint64) + np.uint64(1))[:, None]
    for row in np.moveaxis(rows.reshape(len(places), bands.num, bands.rows), 2, 0):
        keys *= _FACTOR
        keys += row
    return Keys(places=places, keys=keys)


def signatures(sets: list[Hashes], *, num_hashes: int, seed: int) -> NDArray[np.uint32]:
    """Return the MinHash signature of each set, one row each; sets may hold repeats.

    Every row agrees between two sets with the probability of their Jaccard similarity
    (``docs/decisions/0015-minhash.md`` has the measurement).
    """
    if not sets:
        return np.empty((0, num_hashes), dtype=np.uint32)
    offsets = np.zeros(len(sets) + 1, dtype=np.uint64)
    np.cumsum([len(one) for one in sets], out=offsets[1:])
    digests = RMinHash.digest_matrix_from_flat_token_hashes(
        np.concatenate(sets), offsets, num_hashes, seed
    )
    return np.array(digests.to_rows(), dtype=np.uint32)
