"""Some of what a stage leaves out, for reading; never text of the sealed split.

A stage's result is kept under a key that the splits do not decide. So samples are stored as they
are beside what tells whether they may be shown, and hidden when a manifest or a refusal takes them.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from workbench.canonical import Json
from workbench.data.manifest import Sample, StageRecord

T = TypeVar("T")

NUM_SAMPLES = 10
"""Rejected documents a domain and stage that the manifest shows."""
EXCERPT = 300
"""Characters of a text that are shown."""

IsSealed: TypeAlias = Callable[[str], bool]
"""Whether the text with a content digest belongs to the sealed split."""

_SAME = "same as a document of the sealed test split"
_OWN = "its text belongs to the sealed test split"


class Drawn(BaseModel):
    """A sample as it is stored, and what decides whether it is shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: Sample
    reason: str
    digest: str
    """Content digest of its text."""
    twin: str = ""
    """Content digest of the kept text that it repeats; empty where it repeats none."""
    sealed: bool = False
    """It repeats text of the sealed split, whatever ``twin`` says."""


class Samples(Generic[T]):
    """A few of many, drawn by a hash of their identity: the same ones in any order."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._heap: list[tuple[int, int, T]] = []  # the largest hash on top, negated
        self._num_offered = 0

    def add(self, identity: str, item: T) -> None:
        """Offer an item; its identity decides whether it is drawn."""
        hashed = sha256(f"sample/v1|{self._stage}|{identity}".encode()).digest()
        self._num_offered += 1  # tells equal hashes apart, so that items are never compared
        entry = (-int.from_bytes(hashed[:8], "big"), -self._num_offered, item)
        if len(self._heap) < NUM_SAMPLES:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def drawn(self) -> list[T]:
        """Return the items drawn."""
        return [item for _, _, item in sorted(self._heap, key=lambda e: e[:2], reverse=True)]


def excerpt(text: str) -> str:
    """Return the beginning of a text, fit for any file."""
    return text[:EXCERPT].encode("utf-8", "replace").decode("utf-8")


def shown(drawn: Drawn, is_sealed: IsSealed) -> Sample:
    """Return the sample, without name and text where they would give sealed text away."""
    if drawn.sealed or (drawn.twin and is_sealed(drawn.twin)):
        return hidden(f"{drawn.reason}: {_SAME}")
    if is_sealed(drawn.digest):
        return hidden(f"{drawn.reason}: {_OWN}")
    return drawn.sample


def hidden(why: str) -> Sample:
    """Return a sample that says why, and neither which document it is nor what stands in it."""
    return Sample(id="", why=why, excerpt="")


def stored_record(record: StageRecord, drawn: Mapping[str, Sequence[Drawn]]) -> dict[str, Json]:
    """Return a record and its samples by domain as they are stored."""
    return {
        "record": record.model_dump(mode="json"),
        "drawn": {domain: [one.model_dump() for one in of] for domain, of in drawn.items()},
    }


def shown_record(stored: Mapping[str, Json], is_sealed: IsSealed) -> StageRecord:
    """Return the record of `stored_record` with those of its samples that may be shown."""
    record = StageRecord.model_validate(stored["record"])
    removed = {
        domain: of.model_copy(
            update={
                "samples": tuple(
                    shown(Drawn.model_validate(one), is_sealed) for one in stored["drawn"][domain]
                )
            }
        )
        for domain, of in record.removed.items()
    }
    return record.model_copy(update={"removed": removed})
