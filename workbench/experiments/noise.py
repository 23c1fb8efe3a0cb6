"""How much the seeds of one arm differ, as the lab's own experiments measured it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.analysis.claims import sample_variance
from workbench.analysis.power import spread_bounds
from workbench.registry.entries import ProxyRun, Registration, Verdict
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
    """Return the pooled spread between seeds of other experiments on the same corpus and metric.

    Full-scale runs that a verdict read count first; where there are none, the ladder's re-runs at
    their largest scale. An experiment never measures its own noise before it ran.

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
    full = _pooled(_verdict_groups(source, metric, subjects), "full-scale seeds of")
    return full or _pooled(_proxy_groups(source, metric, subjects), "proxy re-runs of")


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
