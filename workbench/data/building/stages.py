"""What a stage of a build is, and how one is applied: rejects taken out, counted and sampled."""

import json
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import Json, fingerprint, freeze
from workbench.data.building.losses import refuse_loss
from workbench.data.building.samples import (
    Drawn,
    IsSealed,
    Samples,
    excerpt,
    shown_record,
    stored_record,
)
from workbench.data.building.table import Table
from workbench.data.manifest import Removed, Sample, StageName, StageRecord

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
    twin: str = ""
    """Content digest of the kept document that it repeats."""
    sealed: bool = False
    """It repeats text of the sealed split; for stages that know the splits."""


class Stage(Protocol):
    """One filter of a build."""

    @property
    def name(self) -> StageName:
        """What it is called in manifests and refusals."""

    @property
    def max_share_lost(self) -> float | None:
        """A source that loses more of its bytes than this stops the build."""

    @property
    def keeps(self) -> tuple[str, ...]:
        """Files of the scratch folder that stay with the result."""

    def settings(self) -> dict[str, Json]:
        """Return what decides the result: thresholds, seeds, versions of libraries and models."""

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        """Yield the rows to leave out, each once; the table changes only afterwards.

        Args:
            table: what the stages before kept; languages may be set.
            work: an empty folder for scratch files, removed afterwards but for ``keeps``.
            progress: told the share done, 0 to 1.
        """

    def findings(self) -> dict[str, Json]:
        """Return what was measured, after ``rejects`` was exhausted."""


def stage_key(previous: str, name: str, settings: Json) -> str:
    """Return the key of a stage's result: all that decides it, the stages before included."""
    return fingerprint({"after": previous, "name": name, "settings": settings})


def apply_stage(
    stage: Stage,
    table: Table,
    folder: Path,
    *,
    key: str,
    settings: dict[str, Json],
    progress: Callable[[float], None],
) -> None:
    """Write what a stage leaves out, and its record, to a folder; the table keeps its rows."""
    tallies = {domain: _Tally(stage.name, table, domain) for domain in table.domains}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        for rejected in stage.rejects(table, work=Path(work), progress=progress):
            tallies[rejected.domain].add(rejected)
        for name in stage.keeps:
            Path(work, name).rename(folder / name)
    record = StageRecord(
        name=stage.name,
        key=key,
        settings=freeze(settings),
        removed={domain: tally.removed() for domain, tally in tallies.items()},
        findings=freeze(stage.findings()),
    )
    stored = stored_record(record, {domain: tally.drawn() for domain, tally in tallies.items()})
    (folder / _RECORD).write_text(json.dumps(stored), "utf-8")
    for domain, tally in tallies.items():
        np.save(folder / f"{domain}.rejects.npy", tally.rejects())
    table.save_labels(folder)


def take_result(
    table: Table, folder: Path, *, max_share_lost: float | None, is_sealed: IsSealed
) -> StageRecord:
    """Apply a stage's written result to the table and return its record.

    Args:
        table: what came into the stage.
        folder: where `apply_stage` wrote.
        max_share_lost: of the stage.
        is_sealed: which texts are hidden from the samples.

    Raises:
        InvalidFileError: a source loses more than the stage may take; examples are shown.
    """
    record = shown_record(json.loads((folder / _RECORD).read_text("utf-8")), is_sealed)
    refuse_loss(record, table, max_share_lost)
    for domain in table.domains:
        table.reject(domain, np.load(folder / f"{domain}.rejects.npy"))
    table.load_labels(folder)
    return record


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

    def drawn(self) -> list[Drawn]:
        found = []
        for rejected in self._samples.drawn():
            row = self.table.row(self.domain, rejected.number)
            told = f"{rejected.reason}: {rejected.why}" if rejected.why else rejected.reason
            found.append(
                Drawn(
                    sample=Sample(id=row.id, why=told, excerpt=excerpt(row.text)),
                    reason=rejected.reason,
                    digest=row.digest,
                    twin=rejected.twin,
                    sealed=rejected.sealed,
                )
            )
        return found

    def removed(self) -> Removed:
        return Removed(
            documents=len(self.numbers),
            bytes=self.num_bytes,
            reasons=dict(sorted(self.reasons.items())),
        )
