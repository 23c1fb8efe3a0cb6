"""Text that a corpus is compared with: halved, kept on disk, and sampled for training."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path

from workbench.data.text.dedup import content_digest
from workbench.data.text.documents import excerpt

TRAINED_ON = 4000
"""At most so many documents of each half of the reference and of a domain train a classifier."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What the hash of a text decides."""

    half: int
    """0 or 1."""
    keep: float
    """The text is kept where this is below the probability of keeping it, 0 <= keep < 1."""
    order: int
    """Those with the smallest train the classifier."""


def draw_of(digest: str, seed: int) -> Draw:
    """Return what the content digest of a text and the seed decide."""
    data = hashlib.blake2b(f"{seed}/{digest}".encode(), digest_size=17).digest()
    keep = (int.from_bytes(data[:8], "big") >> 11) / 2**53
    return Draw(half=data[8] & 1, keep=keep, order=int.from_bytes(data[9:], "big"))


class Sample:
    """The texts with the smallest order, at most `TRAINED_ON`: the same ones in any order."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []

    def add(self, order: int, text: str) -> None:
        """Offer a text."""
        if len(self._heap) < TRAINED_ON:
            heappush(self._heap, (-order, text))
        else:
            heappushpop(self._heap, (-order, text))

    def texts(self) -> list[str]:
        """Return the texts drawn, by their order."""
        return [text for _, text in sorted(self._heap, reverse=True)]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The reference's excerpts on disk, with those that train."""

    path: Path
    """A line ``[half, excerpt]`` a document."""
    num: int
    """Documents."""
    samples: tuple[Sample, Sample]
    """By half."""
    digest: str
    """SHA-256 over the content digests of its documents, in order."""

    def excerpts(self) -> Iterator[tuple[int, str]]:
        """Yield half and excerpt of each document."""
        with self.path.open(encoding="utf-8") as lines:
            for line in lines:
                half, text = json.loads(line)
                yield half, text


def spooled_reference(texts: Iterable[str], path: Path, *, seed: int) -> Reference:
    """Read a reference once, write its excerpts to a file and return it."""
    samples, num, read = (Sample(), Sample()), 0, hashlib.sha256()
    with path.open("w", encoding="utf-8") as file:
        for text in texts:
            seen, digest = excerpt(text), content_digest(text)
            draw = draw_of(digest, seed)
            samples[draw.half].add(draw.order, seen)
            read.update(bytes.fromhex(digest))
            file.write(json.dumps([draw.half, seen]) + "\n")
            num += 1
    return Reference(path=path, num=num, samples=samples, digest=read.hexdigest())
