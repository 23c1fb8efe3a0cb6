"""Keys of documents on disk, a file a band, and which documents have one in common.

Memory: keys are held for one band at a time, 8 bytes a document; after that only documents that
share a key count, with 8 bytes a band each.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.data.signatures import PLACE, Keys

Numbers = NDArray[np.uint32]


class KeyFiles:
    """Places and keys of documents, appended batch by batch."""

    def __init__(self, folder: Path, *, num_bands: int) -> None:
        self._places = folder / "places"
        self._bands = [folder / f"band-{number:04}" for number in range(num_bands)]
        for path in (self._places, *self._bands):
            path.write_bytes(b"")

    def append(self, batch: Keys) -> None:
        """Add the documents of a batch after those already there."""
        for path, column in zip(
            (self._places, *self._bands), (batch.places, *batch.keys.T), strict=True
        ):
            with path.open("ab") as file:
                file.write(column.tobytes())

    def places(self) -> NDArray[np.void]:
        """Return the place of every document, in the order in which they came."""
        return np.fromfile(self._places, dtype=PLACE)

    def number(self) -> NDArray[np.bool_]:
        """Put `shared` numbers in the place of the keys; return who shares a key with anyone."""
        sharing = np.zeros(self._places.stat().st_size // PLACE.itemsize, dtype=bool)
        for path in self._bands:
            numbers = shared(np.fromfile(path, dtype=np.uint64))
            sharing |= numbers > 0
            path.write_bytes(numbers.tobytes())
        return sharing

    def numbers(self, documents: NDArray[np.int64]) -> Numbers:
        """Return the numbers of some documents, one row each, one column a band."""
        found = np.zeros((len(documents), len(self._bands)), dtype=np.uint32)
        for band, path in enumerate(self._bands):
            found[:, band] = np.fromfile(path, dtype=np.uint32)[documents]
        return found


def shared(keys: NDArray[np.uint64]) -> Numbers:
    """Return a number for each key that occurs twice or more, from 1; 0 for the others."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again = ordered[1:] == ordered[:-1]  # this key and the one before it
    repeats = np.zeros(len(keys), dtype=bool)
    repeats[1:] |= again
    repeats[:-1] |= again
    first = repeats.copy()
    first[1:] &= ~again
    numbers = np.zeros(len(keys), dtype=np.uint32)
    numbers[order] = np.where(repeats, np.cumsum(first), 0)
    return numbers


class KeptDocuments:
    """Those documents that were kept so far, found by the keys they share with another."""

    def __init__(self, numbers: Numbers) -> None:
        """``numbers`` has a row for every document that may be asked about."""
        self._numbers = numbers
        most = numbers.max(axis=0, initial=0).tolist()
        # A chain a key: the document kept last, and before each the one kept before it. Both count
        # from 1; 0 ends a chain.
        self._last = [np.zeros(num + 1, dtype=np.uint32) for num in most]
        self._before = np.zeros_like(numbers)

    def keep(self, document: int) -> None:
        """Add a document to those that are found."""
        for band, number in enumerate(self._numbers[document].tolist()):
            if number:
                self._before[document, band] = self._last[band][number]
                self._last[band][number] = document + 1

    def sharing(self, document: int) -> list[int]:
        """Return the kept documents that share a key with this one.

        Those with the most keys in common come first, of equal ones the lower number.
        """
        common: Counter[int] = Counter()
        for band, number in enumerate(self._numbers[document].tolist()):
            if number:
                common.update(self._chain(band, int(self._last[band][number])))
        return sorted(common, key=lambda other: (-common[other], other))

    def _chain(self, band: int, last: int) -> Iterator[int]:
        while last:
            yield last - 1
            last = int(self._before[last - 1, band])
