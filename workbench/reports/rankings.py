"""Whether proxies put candidates in the order of full scale, as far as a ledger can tell.

Two kinds of ranking, never mixed:

- *proxies against full scale*: the largest proxy scale against the verdicts' sealed values. One
  experiment has two candidates at full scale, so that several must be comparable to say anything.
- *between proxy scales*: the smallest proxy scale against the largest, over every candidate that a
  promotion re-ran. It says whether small proxies foretell larger ones, not full scale.

Experiments are compared only where everything but the candidate is the same: the recipe's and, for
full scale, full.yaml's text, the control's full-scale configuration, the corpus, the primary
measure, the scales, and the versions of workbench and torch. A candidate is its parameters: the
control of two comparable experiments is one candidate with the seeds of both.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from workbench.analysis.claims import Direction, mean, sample_variance
from workbench.analysis.ranks import RankAgreement, rank_agreement
from workbench.canonical import Json, canonical_json, fingerprint, freeze
from workbench.registry.entries import Promotion, ProxyRun, Registration, Verdict
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal
from workbench.reports.facts import ExperimentFacts, Source, source_of

Kind: TypeAlias = Literal["proxies against full scale", "between proxy scales"]
FULL = "full scale"
CONTROL = "control"
_SEED = 0
"""Of the simulated ceiling: the same ledger gives the same numbers."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Candidates in the order of two scales."""

    kind: Kind
    recipe: str
    """``name@version``."""
    metric: str
    direction: Direction
    smaller: str
    """Scale whose order is put to the test."""
    larger: str
    experiments: tuple[str, ...]
    values: Mapping[str, tuple[float, float]]
    """Means at the smaller and the larger scale by candidate; NaN where there is none."""
    standard_error: float | None
    """Of a mean at the larger scale, from the spread between seeds pooled over the candidates."""
    agreement: RankAgreement | None
    why: str
    """Why there is no agreement to give; empty where there is one."""
    sources: tuple[Source, ...]


@dataclass(kw_only=True)
class _Group:
    """Comparable candidates as they are collected."""

    recipe: str
    metric: str
    direction: Direction
    scales: tuple[str, str]
    experiments: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """By candidate, which is its parameters as canonical JSON."""
    smaller: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    larger: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sources: dict[str, Source] = field(default_factory=dict)

    def add(
        self, params: str, name: str, smaller: Sequence[float], larger: Sequence[float]
    ) -> None:
        """Add the seeds of a candidate; one that is at hand already keeps its first name."""
        if params not in self.names:
            taken = name in self.names.values()
            self.names[params] = f"{name} ({len(self.names)})" if taken else name
        self.smaller[params] += smaller
        self.larger[params] += larger


@dataclass(frozen=True, kw_only=True)
class _Ladder:
    """What a promotion re-ran."""

    facts: ExperimentFacts
    registration: Registration
    proposal: Proposal
    promotion: Promotion
    entries: tuple[Entry, ...]
    """The promotion and the re-runs that it refers to."""

    @property
    def scales(self) -> tuple[str, ...]:
        return self.proposal.design.scales

    def runs(self, candidate: str, scale: str) -> list[float]:
        """Return a value a seed; a NaN for each that has none or is hidden."""
        last: dict[int, float] = {}
        for entry in self.entries:
            run = entry.body
            if isinstance(run, ProxyRun) and (run.candidate, run.scale) == (candidate, scale):
                known = run.state == "completed" and run.value is not None
                last[run.seed_index] = run.value if known and run.value is not None else math.nan
        seeds = range(self.proposal.sweep.rerun.fresh_seeds)
        return [last.get(seed, math.nan) for seed in seeds]


def rankings(found: Iterable[ExperimentFacts]) -> tuple[Ranking, ...]:
    """Return how well smaller scales order candidates, one ranking a comparable group."""
    ladders = [ladder for facts in found if (ladder := _ladder(facts)) is not None]
    full: dict[str, _Group] = {}
    between: dict[str, _Group] = {}
    for ladder in ladders:
        _add_full_scale(full, ladder)
        _add_between(between, ladder)
    return (
        *(_ranking("proxies against full scale", group) for group in full.values()),
        *(_ranking("between proxy scales", group) for group in between.values()),
    )


def _ladder(facts: ExperimentFacts) -> _Ladder | None:
    if facts.registration is None or facts.proposal is None or facts.promotion is None:
        return None
    leaf = facts.promotion.leaf
    promotion = next(entry for entry in facts.entries if entry.leaf == leaf)
    reruns = set(promotion.refs)
    runs = (e for e in facts.entries if e.leaf in reruns and e.kind == ProxyRun.kind)
    return _Ladder(
        facts=facts,
        registration=facts.registration.value,
        proposal=facts.proposal,
        promotion=facts.promotion.value,
        entries=(promotion, *runs),
    )


def _add_full_scale(groups: dict[str, _Group], ladder: _Ladder) -> None:
    """Add the control and the treatment, where a verdict measured both."""
    verdict, registration = ladder.facts.verdict, ladder.registration
    chosen = [c for c in ladder.promotion.candidates if c.name == ladder.promotion.chosen]
    control = [c for c in ladder.promotion.candidates if c.name == CONTROL]
    if verdict is None or verdict.value.outcome == "void" or not (chosen and control):
        return
    if verdict.value.metric != ladder.proposal.measures.primary.metric:
        return
    key: dict[str, Json] = {
        **_sameness(ladder),
        "full": registration.full.sha256,
        "control": ladder.promotion.config_sha256.get(CONTROL, ""),
        "scale": ladder.scales[-1],
    }
    group = _group(groups, key, ladder, (ladder.scales[-1], FULL))
    for arm, candidate in ((CONTROL, control[0]), ("treatment", chosen[0])):
        values = _sealed(verdict.value, arm, registration.num_seeds)
        runs = ladder.runs(candidate.name, ladder.scales[-1])
        group.add(_params(candidate.params), _name(candidate.name, ladder), runs, values)
    group.sources |= {source.leaf: source for source in verdict.sources}


def _sealed(verdict: Verdict, arm: str, registered: int) -> list[float]:
    """Return an arm's sealed values, a NaN for each seed without one."""
    found = [math.nan if s.value is None else s.value for s in verdict.values.get(arm, [])]
    wanted = verdict.num_seeds or registered
    return [*found, *[math.nan] * (wanted - len(found))]


def _add_between(groups: dict[str, _Group], ladder: _Ladder) -> None:
    """Add every candidate that was re-run, where the ladder has more than one scale."""
    smallest, largest = ladder.scales[0], ladder.scales[-1]
    if smallest == largest:
        return
    key: dict[str, Json] = {**_sameness(ladder), "scales": [smallest, largest]}
    group = _group(groups, key, ladder, (smallest, largest))
    for candidate in ladder.promotion.candidates:
        group.add(
            _params(candidate.params),
            _name(candidate.name, ladder),
            ladder.runs(candidate.name, smallest),
            ladder.runs(candidate.name, largest),
        )


def _sameness(ladder: _Ladder) -> dict[str, Json]:
    registration, primary = ladder.registration, ladder.proposal.measures.primary
    return {
        "recipe": registration.recipe.sha256,
        "corpus": registration.data.manifest,
        "measure": freeze(primary.model_dump(mode="json")),
        "workbench": registration.code.workbench,
        "torch": registration.environment.get("torch", ""),
    }


def _group(
    groups: dict[str, _Group], key: dict[str, Json], ladder: _Ladder, scales: tuple[str, str]
) -> _Group:
    primary = ladder.proposal.measures.primary
    group = groups.setdefault(
        fingerprint(key),
        _Group(
            recipe=_recipe_name(ladder),
            metric=primary.metric,
            direction=primary.direction,
            scales=scales,
        ),
    )
    group.experiments.append(ladder.facts.experiment)
    group.sources |= {entry.leaf: source_of(entry) for entry in ladder.entries}
    return group


def _recipe_name(ladder: _Ladder) -> str:
    sweep = ladder.facts.sweep
    return sweep.starts[0].value.recipe if sweep and sweep.starts else ladder.proposal.sweep.recipe


def _params(params: Mapping[str, Json]) -> str:
    return canonical_json(freeze(dict(params))).decode()


def _name(candidate: str, ladder: _Ladder) -> str:
    number = ladder.facts.experiment.partition("-")[0]
    return candidate if candidate == CONTROL else f"{candidate} of {number}"


def _ranking(kind: Kind, group: _Group) -> Ranking:
    smaller, larger = (
        {group.names[params]: _mean(seeds) for params, seeds in values.items()}
        for values in (group.smaller, group.larger)
    )
    error = _standard_error([seeds for seeds in group.larger.values() if _finite(seeds)])
    agreement, why = _agreement(group, smaller, larger, error)
    return Ranking(
        kind=kind,
        recipe=group.recipe,
        metric=group.metric,
        direction=group.direction,
        smaller=group.scales[0],
        larger=group.scales[1],
        experiments=tuple(group.experiments),
        values={name: (smaller[name], larger[name]) for name in smaller},
        standard_error=error,
        agreement=agreement,
        why=why,
        sources=tuple(sorted(group.sources.values(), key=lambda source: source.sequence)),
    )


def _agreement(
    group: _Group, smaller: Mapping[str, float], larger: Mapping[str, float], error: float | None
) -> tuple[RankAgreement | None, str]:
    if error is None:
        return None, "no two seeds of a candidate differ at the larger scale: its noise is unknown"
    try:
        found = rank_agreement(
            smaller,
            larger,
            direction=group.direction,
            standard_error=error,
            generator=np.random.default_rng(_SEED),
        )
    except ValueError as problem:
        return None, str(problem)
    return found, ""


def _mean(seeds: Sequence[float]) -> float:
    """Return the mean; NaN where a seed has no value: what is left would be a kinder sample."""
    return mean(seeds) if _finite(seeds) else math.nan


def _finite(seeds: Sequence[float]) -> bool:
    return bool(seeds) and all(math.isfinite(value) for value in seeds)


def _standard_error(candidates: Sequence[Sequence[float]]) -> float | None:
    """Return √(pooled variance between seeds · mean of 1/seeds); none without any spread."""
    repeated = [seeds for seeds in candidates if len(seeds) > 1]
    freedom = sum(len(seeds) - 1 for seeds in repeated)
    squares = math.fsum(sample_variance(seeds) * (len(seeds) - 1) for seeds in repeated)
    if not squares > 0:
        return None
    return math.sqrt(squares / freedom * mean([1 / len(seeds) for seeds in candidates]))
