"""The logs that a log continues: verified with it, and read where it says nothing newer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.registry.log import LogSource
from workbench.registry.places import Place
from workbench.registry.successor import folder_of, forerunners
from workbench.reports.stages import ExperimentStatus
from workbench.reports.verification import Audit, Verification, verify_lab

_OVER = frozenset({"decided", "withdrawn", "hidden"})
"""Stages after which nothing is left to do."""


@dataclass(frozen=True, kw_only=True)
class ForerunnerVerification:
    """Whether a log that another continues is what that other says it is."""

    origin: str
    report: Verification | None
    """None where its files are not there."""
    num_later: int
    """Entries of it after the head that its successor names."""

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts it. Absent files contradict nothing, and are told."""
        return self.report is None or self.report.passed

    def lines(self) -> Iterator[str]:
        """Yield what was found, in a line or two."""
        if self.report is None:
            yield f"note      continues {self.origin}, which is not in {folder_of(self.origin)}"
            return
        *_, last = self.report.lines()
        yield f"before    {last}"
        if self.num_later:
            yield f"note      {self.origin} went on by {self.num_later} entries after its successor"


def verify_forerunners(
    source: LogSource, place: Path | Place, audit: Audit
) -> tuple[ForerunnerVerification, ...]:
    """Verify every log that a log continues, each against the head and key that it names.

    Args:
        source: the newest log, verified before: what its first entry names is believed.
        place: of its published files.
        audit: recomputes the claims.
    """
    found = []
    for forerunner in forerunners(source, place):
        named, report, later = forerunner.named, None, 0
        if forerunner.is_here:
            report = verify_lab(
                forerunner.log, vkey=named.log_key, kept_head=named.head, audit=audit
            )
            later = report.log.size - int(named.head.split("\n")[1]) if report.log.passed else 0
        found.append(
            ForerunnerVerification(origin=named.origin, report=report, num_later=max(0, later))
        )
        if not found[-1].passed:
            # What a log that does not verify says of the one before it is worth nothing.
            break
    return tuple(found)


def joined_statuses(
    present: Sequence[ExperimentStatus],
    before: Sequence[tuple[str, Sequence[ExperimentStatus]]],
    recorded: frozenset[str],
) -> list[ExperimentStatus]:
    """Return where experiments stand, those of earlier logs as far as they came to an end there.

    Args:
        present: of the newest log and the filed folders.
        before: origin and statuses of each log before it, the nearest first.
        recorded: experiments that the newest log knows.
    """
    lines = {line.experiment: line for line in present}
    known = set(recorded)
    for origin, statuses in before:
        for line in statuses:
            if line.experiment not in known:
                known.add(line.experiment)
                lines[line.experiment] = _carried(line, origin)
    return [lines[name] for name in sorted(lines)]


def _carried(line: ExperimentStatus, origin: str) -> ExperimentStatus:
    if line.stage in _OVER or line.stage == "filed":
        return replace(line, detail=f"{line.detail}; in {origin}")
    return replace(
        line,
        stage="filed",
        detail=f"{line.stage} in {origin}, which was lost: register anew",
        next_command=f"workbench check {line.experiment[:4]}",
    )
