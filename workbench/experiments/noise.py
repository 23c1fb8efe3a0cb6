"""How much the seeds of one arm differ, as the lab's own experiments measured it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.analysis.claims import sample_variance
from workbench.analysis.power import spread_bounds
from workbench.experiments.floors import floor_entries
from workbench.registry.entries import NoiseFloor, ProxyRun, Registration, Verdict
from workbench.registry.log import LogSource

ENOUGH = 4
"""Degrees of freedom below which a measured spread says too little to hold anybody to it."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """A standard deviation between seeds, and where it is from."""

    sd: float
    """In the metric's unit."""
    origin: Literal["assumed", "measured"]
    source: str
    freedom: int | None = None
    """Degrees of freedom of a measured one."""

    @property
    def is_known(self) -> bool:
        """Whether a proposal is held to it."""
        return self.freedom is None or self.freedom >= ENOUGH

    def lower(self) -> float:
        """Return the smallest spread that the measurements allow (95 % one-sided)."""
        return self.sd if self.freedom is None else spread_bounds(self.sd, self.freedom)[0]

    def sentence(self) -> str:
        """Return the spread with its source in a line."""
        tail = "" if self.freedom is None else f", {self.freedom} degrees of freedom"
        return f"{self.sd:.2g}, {self.origin}: {self.source}{tail}"


def measured_noise(source: LogSource, *, metric: str, corpus: str, but: str) -> Noise | None:
    """Return the spread between seeds that this lab measured on the same corpus and metric.

    In this order: noise floors at full scale, the planned experiment's own first; full-scale runs
    of other experiments that a verdict read; noise floors at a recipe's scale; other experiments'
    re-runs at their largest scale. The first of these that binds anybody is taken. Floors of two
    mixtures or scales are never pooled, because spread differs by both.

    Args:
        source: The log.
        metric: The primary metric.
        corpus: ``name@version``.
        but: The experiment that is being planned.
    """
    subjects = {
        entry.subject
        for entry in source.entries(kind=Registration.kind)
        if isinstance(entry.body, Registration) and entry.body.data.corpus == corpus
    } - {but}
    floors = list(_floors(source, metric, corpus))
    found = [
        _floor([floor for floor in floors if floor.is_full], own=but),
        _pooled(_verdict_groups(source, metric, subjects), "full-scale seeds of"),
        _floor([floor for floor in floors if not floor.is_full], own=but),
        _pooled(_proxy_groups(source, metric, subjects), "proxy re-runs of"),
    ]
    measured = [noise for noise in found if noise is not None]
    return next((noise for noise in measured if noise.is_known), next(iter(measured), None))


@dataclass(frozen=True, kw_only=True)
class _Floor:
    """The repeats of one configuration, whatever entries told of them."""

    body: NoiseFloor
    """The newest that tells of them."""
    values: Mapping[str, float]
    """By seed."""

    @property
    def is_full(self) -> bool:
        return bool(self.body.experiment)

    @property
    def name(self) -> str:
        """Scale and mixture, which decide what the spread is of."""
        body = self.body
        shares = ", ".join(f"{domain} {share:.2g}" for domain, share in body.mixture.items())
        where = f"{body.experiment[:4]} at full scale" if self.is_full else ""
        return f"noise floor of {where or f'{body.recipe} at {body.scale}'} (mixture {shares})"


def _floors(source: LogSource, metric: str, corpus: str) -> Iterator[_Floor]:
    """Yield the floors by configuration: a longer series repeats the seeds of a shorter one."""
    values: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
    newest: dict[tuple[str, str, str, str], NoiseFloor] = {}
    for _, body in floor_entries(source):
        if body.corpus != corpus:
            continue
        key = (body.config_sha256, body.corpus_manifest, body.experiment, body.scale)
        newest[key] = body
        for repeat in body.repeats:
            value = repeat.values.get(metric, math.nan)
            if math.isfinite(value):
                values[key][repeat.seed] = value
    for key, body in newest.items():
        yield _Floor(body=body, values=values[key])


def _floor(floors: Sequence[_Floor], *, own: str) -> Noise | None:
    """Return one floor's spread: the own experiment's, else of the largest model and series."""
    usable = [floor for floor in floors if len(floor.values) >= 2]
    if not usable:
        return None
    best = max(
        usable,
        key=lambda f: (f.body.experiment == own, f.body.parameters, len(f.values)),
    )
    variance = sample_variance(list(best.values.values()))
    if not variance:
        return None
    return Noise(
        sd=math.sqrt(variance),
        origin="measured",
        source=best.name,
        freedom=len(best.values) - 1,
    )


Group = tuple[str, Sequence[float]]
"""An experiment's number and the values of runs that differ by their seed only."""


def _verdict_groups(source: LogSource, metric: str, subjects: set[str]) -> Iterator[Group]:
    for entry in source.entries(kind=Verdict.kind):
        body = entry.body
        if entry.subject in subjects and isinstance(body, Verdict) and body.metric == metric:
            for seeds in body.values.values():
                values = [s.value for s in seeds if s.value is not None and math.isfinite(s.value)]
                yield entry.subject[:4], values


def _proxy_groups(source: LogSource, metric: str, subjects: set[str]) -> Iterator[Group]:
    largest: dict[str, int] = {}
    found: dict[tuple[str, int, str, str], list[float]] = defaultdict(list)
    for entry in source.entries(kind=ProxyRun.kind):
        body = entry.body
        if entry.subject not in subjects or not isinstance(body, ProxyRun):
            continue
        if body.metric != metric or body.value is None or not math.isfinite(body.value):
            continue
        largest[entry.subject] = max(largest.get(entry.subject, 0), body.parameters)
        found[entry.subject, body.parameters, body.scale, body.candidate].append(body.value)
    for (subject, parameters, _, _), values in found.items():
        if parameters == largest[subject]:
            yield subject[:4], values


def _pooled(groups: Iterable[Group], what: str) -> Noise | None:
    usable = [(number, values) for number, values in groups if len(values) >= 2]
    freedom = sum(len(values) - 1 for _, values in usable)
    squares = math.fsum(sample_variance(values) * (len(values) - 1) for _, values in usable)
    if not freedom or not squares:
        return None
    numbers = ", ".join(sorted({number for number, _ in usable}))
    return Noise(
        sd=math.sqrt(squares / freedom),
        origin="measured",
        source=f"{what} {numbers}",
        freedom=freedom,
    )
