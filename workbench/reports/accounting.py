"""What was declared against what ran, and what every outcome cost."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.registry.entries import NoiseFloor, RunEnded
from workbench.reports.facts import (
    Cited,
    ExperimentFacts,
    Source,
    SweepFacts,
    merged_sources,
    of_kind,
)
from workbench.reports.lineage import Attempt, RunLineage, run_lineages

TRIAL_STATES = ("completed", "pruned", "failed", "diverged", "lost")
Fate = Literal["kept", "stopped", "wasted"]
"""``kept`` gave a value; ``stopped`` was pruned by rule; ``wasted`` gave none or was discarded."""
_FATES: dict[str, Fate] = {"completed": "kept", "pruned": "stopped", "open": "kept"}

Stage = Literal["noise floor", "sweep", "exploratory sweep", "ladder", "full scale"]


@dataclass(frozen=True, kw_only=True)
class SweepAccounting:
    """Declared, ran, pruned, failed: the whole search."""

    declared: Cited[int] | None
    counts: tuple[tuple[str, Cited[int]], ...]
    """Trials by state, in a fixed order; only states that occur."""
    finished: bool
    disagreements: tuple[str, ...]
    """Where the sweep's own closing count and its trial entries differ."""

    @property
    def ran(self) -> int:
        """Trials that ended in any state."""
        return sum(cited.value for _, cited in self.counts)


def sweep_accounting(sweep: SweepFacts) -> SweepAccounting:
    """Return the accounting of a sweep, counted from its trial entries."""
    counts = []
    for state in TRIAL_STATES:
        trials = [trial for trial in sweep.trials if trial.value.state == state]
        if trials:
            counts.append((state, Cited(value=len(trials), sources=merged_sources(trials))))
    return SweepAccounting(
        declared=_declared(sweep),
        counts=tuple(counts),
        finished=bool(sweep.ends) and sweep.ends[-1].value.finished,
        disagreements=tuple(_disagreements(sweep, {state: c.value for state, c in counts})),
    )


def _declared(sweep: SweepFacts) -> Cited[int] | None:
    if sweep.starts:
        first = sweep.starts[0]
        return Cited(value=first.value.budget_trials, sources=first.sources)
    if sweep.ends:
        return Cited(value=sweep.ends[0].value.declared, sources=sweep.ends[0].sources)
    return None


def _disagreements(sweep: SweepFacts, counted: dict[str, int]) -> Iterable[str]:
    if not sweep.ends or not sweep.ends[-1].value.finished:
        return
    stated = {state: n for state, n in sweep.ends[-1].value.counts.items() if n}
    for state in sorted(set(stated) | set(counted)):
        if stated.get(state, 0) != counted.get(state, 0):
            yield (
                f"the closing entry states {stated.get(state, 0)} {state} trials, "
                f"the trial entries show {counted.get(state, 0)}"
            )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Device time of one stage that came to one end."""

    stage: Stage
    outcome: str
    fate: Fate
    items: int
    """Trials, proxy runs, runs or attempts; repeats of a noise floor."""
    device_seconds: float
    tokens: int
    """0 where the record does not say: of noise floors."""
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The cost of a claim, its failures included."""

    costs: tuple[Cost, ...]

    @property
    def device_seconds(self) -> float:
        """Total."""
        return math.fsum(cost.device_seconds for cost in self.costs)

    @property
    def tokens(self) -> int:
        """Training tokens, discarded ones included."""
        return sum(cost.tokens for cost in self.costs)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that was counted."""
        found = {s.sequence: s for cost in self.costs for s in cost.sources}
        return tuple(found[sequence] for sequence in sorted(found))

    def by_fate(self, fate: Fate) -> float:
        """Return the device seconds that came to one fate."""
        return math.fsum(cost.device_seconds for cost in self.costs if cost.fate == fate)

    def share(self, fate: Fate) -> float:
        """Return the share of device time that came to one fate; 0 when nothing ran."""
        return self.by_fate(fate) / self.device_seconds if self.device_seconds else 0.0


@dataclass(frozen=True, kw_only=True)
class _Item:
    outcome: str
    device_seconds: float
    tokens: int
    sources: tuple[Source, ...]


def bill(facts: ExperimentFacts) -> Bill:
    """Return the cost of an experiment by stage and outcome, in the order of the loop."""
    costs = [
        *_floor_costs(facts),
        *_sweep_costs(facts.exploratory, "exploratory sweep"),
        *_sweep_costs(facts.sweep, "sweep"),
        *_grouped("ladder", _ladder_items(facts)),
        *_grouped("full scale", _run_items(run_lineages(facts, "confirmatory"))),
        *_grouped("full scale", _run_items(run_lineages(facts, "exploratory"))),
    ]
    return Bill(costs=tuple(costs))


def _floor_costs(facts: ExperimentFacts) -> list[Cost]:
    """Return the cost of the noise floors that were measured under this subject."""
    floors = of_kind(facts.entries, NoiseFloor)
    return [
        Cost(
            stage="noise floor",
            outcome="completed",
            fate="kept",
            items=len(floor.value.repeats),
            device_seconds=floor.value.device_seconds,
            tokens=0,
            sources=floor.sources,
        )
        for floor in floors
        if floor.value.device_seconds > 0
    ]


def _sweep_costs(
    sweep: SweepFacts | None, stage: Literal["sweep", "exploratory sweep"]
) -> list[Cost]:
    if sweep is None:
        return []
    items = [
        _Item(
            outcome=trial.value.state,
            device_seconds=trial.value.device_seconds,
            tokens=trial.value.tokens,
            sources=trial.sources,
        )
        for trial in sweep.trials
    ]
    return _grouped(stage, items)


def _ladder_items(facts: ExperimentFacts) -> list[_Item]:
    return [
        _Item(
            outcome=run.value.state,
            device_seconds=run.value.device_seconds,
            tokens=run.value.tokens,
            sources=run.sources,
        )
        for run in facts.proxy_runs
    ]


def _run_items(lineages: Sequence[RunLineage]) -> list[_Item]:
    return [item for run in lineages for attempt in run.attempts for item in _halves(run, attempt)]


def _halves(run: RunLineage, attempt: Attempt) -> list[_Item]:
    """Divide an attempt's cost between kept and discarded steps, in proportion to the steps."""
    if attempt.ended is None:
        return []
    trained = max(1, attempt.last_step - attempt.first_step)
    lost = attempt.discarded_steps / trained
    parts = [(run.state, 1 - lost), ("discarded", lost)]
    return [_part(attempt.ended, outcome, share) for outcome, share in parts if share > 0]


def _part(end: Cited[RunEnded], outcome: str, share: float) -> _Item:
    return _Item(
        outcome=outcome,
        device_seconds=end.value.device_seconds * share,
        tokens=round(end.value.tokens * share),
        sources=end.sources,
    )


def _grouped(stage: Stage, items: Sequence[_Item]) -> list[Cost]:
    order: Callable[[str], int] = (*TRIAL_STATES, "open", "discarded", "killed").index
    outcomes = sorted(Counter(item.outcome for item in items), key=order)
    costs = []
    for outcome in outcomes:
        found = [item for item in items if item.outcome == outcome]
        costs.append(
            Cost(
                stage=stage,
                outcome=outcome,
                fate=_FATES.get(outcome, "wasted"),
                items=len(found),
                device_seconds=math.fsum(item.device_seconds for item in found),
                tokens=sum(item.tokens for item in found),
                sources=tuple(source for item in found for source in item.sources),
            )
        )
    return costs
