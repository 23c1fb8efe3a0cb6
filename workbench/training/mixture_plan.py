"""What a run's mixtures take from each domain, phase by phase, before a step is done."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.data.corpus import Corpus
from workbench.data.serving.mixture import resolve
from workbench.data.serving.weights import num_windows
from workbench.errors import InvalidFileError, RunFailedError
from workbench.training.config import AvailabilityConfig, RunConfig
from workbench.training.phases import Stretch, average_mixture, stretches
from workbench.training.sampling import run_stream

_REPLAYED = 1 << 20
"""Sequences up to which the draws are replayed, about a second. A longer run comes within a
sequence a domain of the plan, which is less than a millionth of its share."""


@dataclass(frozen=True, kw_only=True)
class PlannedShare:
    """What one phase, or the whole run, takes from one domain."""

    phase: str
    """Empty for the whole run."""
    first_step: int
    last_step: int
    """The step before the first where the phase's share rounds to no step."""
    domain: str
    stated: float
    """Share that the phase's mixture states; of the whole run, averaged over the steps."""
    realised: float | None
    """Share of the targets that the stream gives, after what is dropped; None without a step."""
    tokens: int
    """Targets that the phase takes, after what is dropped."""
    epochs: float
    """Of the domain, in this phase."""
    epochs_so_far: float
    """Of the domain, from the run's first step to the phase's last."""
    max_epochs: float | None
    """What ``availability`` allows, None where nothing limits it."""
    at_limit: str
    """What happens in this phase because the limit is reached; empty where it is not."""


@dataclass(frozen=True, kw_only=True)
class MixturePlan:
    """The plan of a whole run; whether it may begin is `refuse_unavailable`'s to say."""

    rows: tuple[PlannedShare, ...]
    """In the order of the phases, also those without a step, then of the domains."""
    total: tuple[PlannedShare, ...]
    """Of the whole run, by domain."""
    refusal: InvalidFileError | None
    """Why the run would be refused."""


def planned_mixture(config: RunConfig, corpus: Corpus) -> MixturePlan:
    """Return what each phase takes from each domain: the stream's draws are replayed.

    Raises:
        InvalidFileError: a mixture or an availability names a domain that the corpus lacks.
    """
    tally, planned = _tallied(config, corpus, stretches(config))
    if config.steps * config.batch.sequences <= _REPLAYED:
        drawn = _replayed(config, corpus)
    else:
        seq_len = config.batch.seq_len
        drawn = Counter({(row.phase, row.domain): row.tokens // seq_len for row in planned})
    rows = _realised(planned, drawn, config, tally.counts)
    total = _total(rows, config, average_mixture(config, corpus))
    return MixturePlan(rows=rows, total=total, refusal=tally.refusal())


def refuse_unavailable(config: RunConfig, corpus: Corpus) -> None:
    """Refuse a run that needs more text than its availability allows.

    Raises:
        InvalidFileError: it does, or a mixture or an availability does not fit the corpus.
    """
    tally, _ = _tallied(config, corpus, [s for s in stretches(config) if s.end > s.begin])
    refusal = tally.refusal()
    if refusal is not None:
        raise refusal


def _tallied(
    config: RunConfig, corpus: Corpus, phases: Sequence[Stretch]
) -> tuple["_Tally", list[PlannedShare]]:
    """Return the tally after the last phase, and the rows by its arithmetic."""
    available = config.availability
    if available is not None and isinstance(available.max_epochs, dict):
        unknown = sorted(set(available.max_epochs) - set(corpus.domains))
        if unknown:
            raise InvalidFileError(
                f"availability.max_epochs names domains {unknown} that the corpus lacks",
                remedy=f"use {', '.join(corpus.domains)}",
            )
    counts = {
        domain: num_windows(len(corpus.tokens("train", domain)), config.batch.seq_len)
        for domain in corpus.domains
    }
    tally = _Tally(config, counts)
    rows: list[PlannedShare] = []
    for stretch in phases:
        stated = stretch.phase.mixture
        mixture = resolve(config.mixture if stated is None else stated, corpus)
        rows += tally.phase(stretch, mixture)
    return tally, rows


def _replayed(config: RunConfig, corpus: Corpus) -> Counter[tuple[str, str]]:
    """Return the sequences that the stream draws, by phase and domain.

    Neither seed nor weights decide of which domain a sequence is.
    """
    stream = run_stream(config.model_copy(update={"document_weights": None}), corpus, seed=0)
    drawn: Counter[tuple[str, str]] = Counter()
    before = stream.accounting().tokens
    for stretch in stretches(config):
        try:
            stream.skip(stretch.end - stretch.begin)
            is_over = False
        except RunFailedError:
            is_over = True  # every domain was dropped; such a run is refused
        after = stream.accounting().tokens
        for domain, tokens in after.items():
            sequences = (tokens - before[domain]) // config.batch.seq_len
            drawn[stretch.phase.name, domain] = sequences
        before = after
        if is_over:
            break
    return drawn


def _realised(
    rows: Sequence[PlannedShare],
    drawn: Counter[tuple[str, str]],
    config: RunConfig,
    counts: Mapping[str, int],
) -> tuple[PlannedShare, ...]:
    """Return the rows with the sequences that were drawn."""
    so_far: Counter[str] = Counter()
    by_phase: Counter[str] = Counter()
    for (phase, _), sequences in drawn.items():
        by_phase[phase] += sequences
    found = []
    for row in rows:
        sequences = drawn[row.phase, row.domain]
        so_far[row.domain] += sequences
        realised = sequences / by_phase[row.phase] if by_phase[row.phase] else None
        found.append(
            replace(
                row,
                realised=realised,
                tokens=sequences * config.batch.seq_len,
                epochs=sequences / counts[row.domain],
                epochs_so_far=so_far[row.domain] / counts[row.domain],
            )
        )
    return tuple(found)


def _total(
    rows: Sequence[PlannedShare], config: RunConfig, stated: Mapping[str, float]
) -> tuple[PlannedShare, ...]:
    tokens: Counter[str] = Counter()
    for row in rows:
        tokens[row.domain] += row.tokens
    last = {row.domain: row for row in rows}
    return tuple(
        replace(
            last[domain],
            phase="",
            first_step=1,
            last_step=config.steps,
            stated=share,
            realised=tokens[domain] / tokens.total() if tokens.total() else None,
            tokens=tokens[domain],
            epochs=last[domain].epochs_so_far,
            at_limit="",
        )
        for domain, share in stated.items()
    )


class _Tally:
    """Sequences taken from each domain while the phases are gone through."""

    def __init__(self, config: RunConfig, counts: Mapping[str, int]) -> None:
        self._config = config
        self.counts = counts
        """Windows an epoch, by domain."""
        self._available: AvailabilityConfig | None = config.availability
        self._caps = self._available.caps(counts) if self._available else {}
        self._limits = {d: max(1, math.floor(c * counts[d])) for d, c in self._caps.items()}
        self._used = dict.fromkeys(counts, 0.0)
        self._nothing_left = 0
        """The first step without any domain, 0 where there is none."""

    def phase(self, stretch: Stretch, stated: Mapping[str, float]) -> list[PlannedShare]:
        """Take what the phase takes and return its rows."""
        before = dict(self._used)
        dropped = self._take(stretch, stated)
        return [
            self._row(stretch, domain, share, self._used[domain] - before[domain], dropped)
            for domain, share in stated.items()
        ]

    def _take(self, stretch: Stretch, stated: Mapping[str, float]) -> dict[str, int]:
        """Take the phase's sequences; return the step in which each dropped domain ended."""
        drops = self._available is not None and self._available.exhausted == "drop"
        limits = self._limits if drops else {}
        sequences = self._config.batch.sequences
        left = float((stretch.end - stretch.begin) * sequences)
        dropped: dict[str, int] = {}
        while left > 0:
            going = {d: s for d, s in stated.items() if s > 0 and self._room(d, limits) > 0}
            if not going:
                step = stretch.end - math.ceil(left / sequences) + 1
                self._nothing_left = self._nothing_left or step
                break
            total = math.fsum(going.values())
            span = min(left, *(self._room(d, limits) / s * total for d, s in going.items()))
            left -= span
            for domain, share in going.items():
                room = self._room(domain, limits)
                taken = span * share / total
                # A rounding error short of the limit would never end.
                self._used[domain] += room if room - taken < 1e-6 else taken
                if limits and self._room(domain, limits) <= 0:
                    dropped[domain] = stretch.end - math.floor(left / sequences)
        return dropped

    def _room(self, domain: str, limits: Mapping[str, int]) -> float:
        return limits.get(domain, math.inf) - self._used[domain]

    def _row(
        self, stretch: Stretch, domain: str, stated: float, taken: float, dropped: Mapping[str, int]
    ) -> PlannedShare:
        count = self.counts[domain]
        return PlannedShare(
            phase=stretch.phase.name,
            first_step=stretch.begin + 1,
            last_step=stretch.end,
            domain=domain,
            stated=stated,
            realised=None,
            tokens=round(taken) * self._config.batch.seq_len,
            epochs=taken / count,
            epochs_so_far=self._used[domain] / count,
            max_epochs=self._caps.get(domain),
            at_limit=self._at_limit(domain, stated, dropped) if stretch.end > stretch.begin else "",
        )

    def _at_limit(self, domain: str, stated: float, dropped: Mapping[str, int]) -> str:
        if self._available is None or domain not in self._limits or not stated:
            return ""
        if self._available.exhausted == "drop":
            if domain in dropped:
                return f"dropped after step {dropped[domain]}, its share goes to the others"
            return "" if self._used[domain] < self._limits[domain] else "dropped before"
        if not self._is_over(domain):
            return ""
        return "refused" if self._available.exhausted == "refuse" else "repeats"

    def _is_over(self, domain: str) -> bool:
        return domain in self._limits and round(self._used[domain]) > self._limits[domain]

    def refusal(self) -> InvalidFileError | None:
        """Return why the run may not begin."""
        if self._nothing_left:
            return InvalidFileError(
                f"availability drops every domain of the mixture before step {self._nothing_left}",
                remedy=f"lower steps to {self._nothing_left - 1}, raise availability.max_epochs, "
                "or set availability.exhausted to repeat",
            )
        if self._available is None or self._available.exhausted != "refuse":
            return None
        over = [domain for domain in self.counts if self._is_over(domain)]
        if not over:
            return None
        return InvalidFileError(
            "the mixture needs more text than availability.max_epochs allows: "
            + "; ".join(map(self._need, over)),
            remedy="lower the shares or steps, raise availability.max_epochs, or set "
            "availability.exhausted to repeat or drop",
        )

    def _need(self, domain: str) -> str:
        epochs = self._used[domain] / self.counts[domain]
        drawn = self._config.steps * self._config.batch.sequences
        # Rounded down, so that the share as written is accepted.
        largest = math.floor(self._limits[domain] / drawn * 1e6) / 1e6
        return (
            f"{domain} would be gone through {epochs:.4g} times of at most "
            f"{self._caps[domain]:.4g} (largest share, averaged over the run: {largest:.6g})"
        )
