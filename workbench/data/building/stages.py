"""What a stage of a build is, and how one is applied: rejects taken out, counted and sampled."""

import heapq
import json
import math
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import Json, fingerprint, freeze
from workbench.data.building.table import Table
from workbench.data.manifest import Removed, Sample, StageName, StageRecord
from workbench.errors import InvalidFileError

T = TypeVar("T")

NUM_SAMPLES = 10
"""Rejected documents a domain and stage that the manifest shows."""
EXCERPT = 300
"""Characters of a text that are shown."""

_RECORD = "record.json"


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A row that a stage leaves out."""

    domain: str
    number: int
    reason: str
    """One of a few; counted."""
    why: str
    """The evidence for this one: a score, which document it repeats."""


class Stage(Protocol):
    """One filter of a build."""

    @property
    def name(self) -> StageName:
        """What it is called in manifests and refusals."""

    @property
    def max_share_lost(self) -> float | None:
        """A source that loses more of its bytes than this stops the build."""

    def settings(self) -> dict[str, Json]:
        """Return what decides the result: thresholds, seeds, versions of libraries and models."""

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        """Yield the rows to leave out, each once; the table changes only afterwards.

        Args:
            table: what the stages before kept; languages may be set.
            work: an empty folder for scratch files, removed afterwards.
            progress: told the share done, 0 to 1.
        """

    def findings(self) -> dict[str, Json]:
        """Return what was measured, after ``rejects`` was exhausted."""


def stage_key(previous: str, name: str, settings: Json) -> str:
    """Return the key of a stage's result: all that decides it, the stages before included."""
    return fingerprint({"after": previous, "name": name, "settings": settings})


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


def apply_stage(
    stage: Stage,
    table: Table,
    folder: Path,
    *,
    key: str,
    settings: dict[str, Json],
    progress: Callable[[float], None],
) -> None:
    """Write what a stage leaves out, and its record, to a folder; the table keeps its rows.

    Raises:
        InvalidFileError: a source loses more than the stage allows; examples are shown.
    """
    tallies = {domain: _Tally(stage.name, table, domain) for domain in table.domains}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for rejected in stage.rejects(table, work=Path(work), progress=progress):
            tallies[rejected.domain].add(rejected)
    for tally in tallies.values():
        tally.refuse_loss(stage)
    record = StageRecord(
        name=stage.name,
        key=key,
        settings=freeze(settings),
        removed={domain: tally.removed() for domain, tally in tallies.items()},
        findings=freeze(stage.findings()),
    )
    (folder / _RECORD).write_text(record.model_dump_json(), "utf-8")
    for domain, tally in tallies.items():
        np.save(folder / f"{domain}.rejects.npy", tally.rejects())
    table.save_labels(folder)


def take_result(table: Table, folder: Path) -> StageRecord:
    """Apply a stage's written result to the table and return its record."""
    for domain in table.domains:
        table.reject(domain, np.load(folder / f"{domain}.rejects.npy"))
    table.load_labels(folder)
    return StageRecord.model_validate(json.loads((folder / _RECORD).read_text("utf-8")))


@dataclass
class _Tally:
    """What a stage leaves out of one domain."""

    stage: str
    table: Table
    domain: str
    numbers: "array[int]" = field(default_factory=lambda: array("Q"))
    reasons: Counter[str] = field(default_factory=Counter)
    num_bytes: int = 0

    def __post_init__(self) -> None:
        self._left = self.table.kept(self.domain).copy()
        self._samples: Samples[Rejected] = Samples(self.stage)

    def add(self, rejected: Rejected) -> None:
        if not self._left[rejected.number]:
            raise ValueError(f"{self.stage} rejects {rejected} twice, or after it was left out")
        self._left[rejected.number] = False
        self.numbers.append(rejected.number)
        self.reasons[rejected.reason] += 1
        self.num_bytes += self.table.num_bytes(self.domain, rejected.number)
        identity = f"{self.domain}|{self.table.digest(self.domain, rejected.number)}"
        self._samples.add(identity, rejected)

    def rejects(self) -> NDArray[np.uint64]:
        return np.sort(np.asarray(self.numbers, dtype=np.uint64))

    def samples(self) -> list[Sample]:
        found = []
        for rejected in self._samples.drawn():
            row = self.table.row(self.domain, rejected.number)
            told = f"{rejected.reason}: {rejected.why}" if rejected.why else rejected.reason
            found.append(Sample(id=row.id, why=told, excerpt=excerpt(row.text)))
        return found

    def removed(self) -> Removed:
        return Removed(
            documents=len(self.numbers),
            bytes=self.num_bytes,
            reasons=dict(sorted(self.reasons.items())),
            samples=tuple(self.samples()),
        )

    def refuse_loss(self, stage: Stage) -> None:
        limit, before = stage.max_share_lost, self.table.kept_bytes(self.domain)
        if limit is None or before == 0 or self.num_bytes <= limit * before:
            return
        share = self.num_bytes / before
        shown = [f"  {s.id}: {s.why}\n    {s.excerpt[:100]!r}" for s in self.samples()[:3]]
        examples = "\n".join(shown)
        raise InvalidFileError(
            f"{stage.name} would take {share:.1%} of the bytes of {self.domain!r}, more than "
            f"max_share_lost {limit}; for example:\n{examples}",
            remedy=f"write {stage.name}.max_share_lost: {math.ceil(share * 100) / 100} in the "
            "recipe if that is meant, or change the stage's other settings",
        )
