"""Keys of documents on disk, a file a band, and which documents have one in common.

Memory: while the keys of one band are sorted, about 30 bytes a document; after that, 4 bytes a band
for each document that shares a key and is kept, and for each key shared.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.data.filters.signatures import PLACE, Keys

Numbers = NDArray[np.uint32]
_ROWS_AT_ONCE = 8_192


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

    def number(self) -> tuple[NDArray[np.bool_], list[int]]:
        """Put `shared` numbers in the place of the keys.

        Returns:
            who shares a key with anyone, and how many keys of each band are shared.
        """
        sharing = np.zeros(self._places.stat().st_size // PLACE.itemsize, dtype=bool)
        num_shared = []
        for path in self._bands:
            numbers = shared(np.fromfile(path, dtype=np.uint64))
            sharing |= numbers > 0
            num_shared.append(int(numbers.max(initial=0)))
            path.write_bytes(numbers.tobytes())
        return sharing, num_shared

    def arrange(self, documents: NDArray[np.int64]) -> None:
        """Keep the numbers of these documents only, in this order."""
        for path in self._bands:
            path.write_bytes(np.fromfile(path, dtype=np.uint32)[documents].tobytes())

    def rows(self) -> Iterator[list[int]]:
        """Yield the numbers of one document after the other, one a band."""
        num = self._bands[0].stat().st_size // 4
        for start in range(0, num, _ROWS_AT_ONCE):
            columns = [
                np.fromfile(path, dtype=np.uint32, count=_ROWS_AT_ONCE, offset=4 * start)
                for path in self._bands
            ]
            yield from np.stack(columns, axis=1).tolist()


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

    def __init__(self, num_shared: list[int]) -> None:
        """``num_shared`` keys a band, as `KeyFiles.number` counted them."""
        self._documents = array("I")
        # A chain a key: the document kept last, and before each the one kept before it. Both count
        # the kept ones from 1; 0 ends a chain.
        self._last = [array("I", bytes(4 * (num + 1))) for num in num_shared]
        self._before = array("I")

    def keep(self, document: int, numbers: list[int]) -> None:
        """Add a document, with the number of its key in each band or 0."""
        self._documents.append(document)
        for band, number in enumerate(numbers):
            self._before.append(self._last[band][number] if number else 0)
            self._last[band][number] = len(self._documents)  # nobody looks for number 0

    def sharing(self, numbers: list[int]) -> list[int]:
        """Return the kept documents that share a key with these numbers.

        Those with the most keys in common come first, of equal ones the earliest kept.
        """
        common: Counter[int] = Counter()
        for band, number in enumerate(numbers):
            place = self._last[band][number] if number else 0
            while place:
                common[place] += 1
                place = self._before[(place - 1) * len(numbers) + band]
        ordered = sorted(common, key=lambda place: (-common[place], place))
        return [self._documents[place - 1] for place in ordered]
