"""Exact deduplication of normalised text: the first document of equal ones is kept."""

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES = 16
# Fixed-length bytes: numpy drops zeros at the end, which is unambiguous where all are as long.
_KEY = np.dtype(f"S{_KEY_BYTES}")
_MOST_RECENT = 1 << 16


def normalise(text: str) -> str:
    """Return the text after NFKC, case folding to lower case and white-space folding.

    Compatibility forms are folded again after lower-casing, so that the result is a fixed point:
    normalising twice changes nothing.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def content_digest(text: str) -> str:
    """Return the hexadecimal SHA-256 of the normalised text: equal for duplicates."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the first document of some text is."""

    domain: int
    """Its domain's place in a list of the caller."""
    number: int


class SeenTexts:
    """The digests of every document so far, over all domains of a corpus, and where each is.

    128 bits of each digest are told apart: two of 10^12 different texts are taken for one with
    probability 10^-15. A document takes 22 bytes, in sorted runs whose sizes double.
    """

    def __init__(self) -> None:
        self._recent: dict[bytes, Place] = {}
        self._runs: list[_Run] = []

    def first(self, digests: Sequence[str]) -> list[Place | None]:
        """Return where each digest was added before, None where it was not."""
        keys = [bytes.fromhex(digest)[:_KEY_BYTES] for digest in digests]
        found = [self._recent.get(key) for key in keys]
        if keys and self._runs:
            sought = np.array(keys, dtype=_KEY)
            for run in self._runs:
                for place in np.flatnonzero(run.holds(sought)):
                    found[place] = run.place(sought[place])
        return found

    def add(self, digest: str, place: Place) -> None:
        """Remember where a text that was not seen before is."""
        self._recent[bytes.fromhex(digest)[:_KEY_BYTES]] = place
        if len(self._recent) >= _MOST_RECENT:
            self._runs.append(_Run.of(self._recent))
            self._recent = {}
            while len(self._runs) > 1 and len(self._runs[-2].keys) <= len(self._runs[-1].keys):
                last = self._runs.pop()
                self._runs[-1] = self._runs[-1].merged(last)


@dataclass(frozen=True)
class _Run:
    """Sorted digests and their places."""

    keys: NDArray[np.bytes_]
    domains: NDArray[np.uint16]
    numbers: NDArray[np.uint32]

    @classmethod
    def of(cls, places: dict[bytes, Place]) -> "_Run":
        return cls(
            np.array(list(places), dtype=_KEY),
            np.array([place.domain for place in places.values()], dtype=np.uint16),
            np.array([place.number for place in places.values()], dtype=np.uint32),
        )._sorted()

    def merged(self, other: "_Run") -> "_Run":
        return _Run(
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.domains, other.domains]),
            np.concatenate([self.numbers, other.numbers]),
        )._sorted()

    def _sorted(self) -> "_Run":
        order = np.argsort(self.keys, kind="stable")
        return _Run(self.keys[order], self.domains[order], self.numbers[order])

    def holds(self, sought: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        places = np.searchsorted(self.keys, sought)
        places[places == len(self.keys)] = 0
        return np.asarray(self.keys[places] == sought)

    def place(self, key: np.bytes_) -> Place:
        at = int(np.searchsorted(self.keys, key))
        return Place(domain=int(self.domains[at]), number=int(self.numbers[at]))
