"""Runs as the sequence of their attempts, and the canonical curve that survives of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.registry.entries import CurvePoint, EvaluationPoint, RunEnded, RunStarted
from workbench.reports.facts import Cited, ExperimentFacts, Source

RunState = Literal["completed", "failed", "killed", "lost", "diverged", "open"]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One process life of a run."""

    started: Cited[RunStarted]
    ended: Cited[RunEnded] | None
    """Absent while it runs, or when nobody has found it dead yet."""
    survives_to: int
    """Last step of this attempt that the canonical curve keeps."""

    @property
    def number(self) -> int:
        """Counted from 1 within the run."""
        return self.started.value.attempt

    @property
    def first_step(self) -> int:
        """The step that it started after."""
        return self.started.value.from_step

    @property
    def last_step(self) -> int:
        """The last step that it reached; its first while it is open."""
        return self.ended.value.last_step if self.ended else self.first_step

    @property
    def discarded_steps(self) -> int:
        """Steps that were trained and then thrown away."""
        return max(0, self.last_step - max(self.survives_to, self.first_step))

    @property
    def outcome(self) -> RunState:
        """How it ended."""
        return self.ended.value.outcome if self.ended else "open"

    @property
    def sources(self) -> tuple[Source, ...]:
        """Its start and, if there is one, its end."""
        return self.started.sources + (self.ended.sources if self.ended else ())


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch of a training curve: kept, or trained and thrown away."""

    attempt: int
    kept: bool
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, kw_only=True)
class RunLineage:
    """A run of one arm and seed with all its attempts."""

    run: str
    arm: str
    seed_index: int
    seed: str
    mode: str
    attempts: tuple[Attempt, ...]

    @property
    def state(self) -> RunState:
        """The outcome of the last attempt."""
        return self.attempts[-1].outcome

    @property
    def planned_steps(self) -> int:
        """Steps that the run was to train for; 0 before any attempt ended."""
        ended = [a.ended.value.planned_steps for a in self.attempts if a.ended]
        return ended[-1] if ended else 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The curve of each attempt, cut where the canonical curve leaves it."""
        found = [segment for attempt in self.attempts for segment in _segments(attempt)]
        return tuple(found)

    @property
    def evaluations(self) -> tuple[EvaluationPoint, ...]:
        """Validation metrics along the canonical curve."""
        return tuple(
            point
            for attempt in self.attempts
            if attempt.ended
            for point in attempt.ended.value.evaluations
            if point.step <= attempt.survives_to
        )

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every start and end."""
        return tuple(source for attempt in self.attempts for source in attempt.sources)


def run_lineages(facts: ExperimentFacts, mode: str = "") -> tuple[RunLineage, ...]:
    """Return the runs, ordered by arm as registered and by seed index.

    Args:
        facts: The experiment.
        mode: Which runs; by default the confirmatory ones, or the exploratory ones where nothing
            is registered.
    """
    mode = mode or ("confirmatory" if facts.confirmatory else "exploratory")
    ends = {(c.value.run, c.value.attempt): c for c in facts.ends if c.value.mode == mode}
    starts: dict[str, list[Cited[RunStarted]]] = defaultdict(list)
    for start in facts.starts:
        if start.value.mode == mode:
            starts[start.value.run].append(start)
    lineages = [_lineage(run, attempts, ends) for run, attempts in starts.items()]
    arms = facts.registration.value.arms if facts.registration else []
    order = {arm: place for place, arm in enumerate(arms)}
    return tuple(
        sorted(lineages, key=lambda r: (order.get(r.arm, len(order)), r.arm, r.seed_index, r.run))
    )


def _lineage(
    run: str,
    starts: Sequence[Cited[RunStarted]],
    ends: dict[tuple[str, int], Cited[RunEnded]],
) -> RunLineage:
    ordered = sorted(starts, key=lambda start: start.value.attempt)
    first = ordered[0].value
    attempts = []
    for place, start in enumerate(ordered):
        ended = ends.get((run, start.value.attempt))
        kept = ended.value.surviving_step if ended else start.value.from_step
        # A later attempt may have gone back further than this one's last checkpoint.
        later = [follower.value.from_step for follower in ordered[place + 1 :]]
        attempts.append(Attempt(started=start, ended=ended, survives_to=min([kept, *later])))
    return RunLineage(
        run=run,
        arm=first.arm,
        seed_index=first.seed_index,
        seed=first.seed,
        mode=first.mode,
        attempts=tuple(attempts),
    )


def _segments(attempt: Attempt) -> list[Segment]:
    if attempt.ended is None:
        return []
    curve = attempt.ended.value.curve
    kept = tuple(point for point in curve if point.step <= attempt.survives_to)
    lost = tuple(point for point in curve if point.step > attempt.survives_to)
    if kept and lost:
        # The discarded stretch starts where the kept one ends, so that the line is not broken.
        lost = (kept[-1], *lost)
    pairs: Iterable[tuple[bool, tuple[CurvePoint, ...]]] = ((True, kept), (False, lost))
    return [Segment(attempt=attempt.number, kept=k, points=p) for k, p in pairs if p]
