"""Training batches, a pure function of corpus, seed, mixtures and the number of the step.

Each domain's tokens are cut into fixed windows of ``seq_len + 1`` that overlap by one token, so
that every token is a target once an epoch; each epoch takes the windows in a new order that the
seed decides. Each sequence comes from the domain that is furthest behind its share, so that
realised and stated shares differ by a sequence or so, not by the noise of a draw.

The state is a few counters: nothing is buffered, so nothing is lost or repeated on resume.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import fingerprint
from workbench.data.serving.batches import BatchShape, Places, StepBatch, segments
from workbench.data.serving.draws import DomainDraws
from workbench.data.serving.saved_state import Bounds, counters, whole
from workbench.data.serving.weights import DecaySchedule, WindowWeights, num_windows, window_bounds
from workbench.errors import ConflictError, RunFailedError

State: TypeAlias = dict[str, Any]
"""Plain integers, strings and dictionaries of them."""

_VERSION = 2
_DRAWN_AT_ONCE = 1 << 16
"""Sequences."""


class TokenSource(Protocol):
    """What a stream reads; `corpus.Corpus` is one."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Every domain, in the order of their numbers."""

    @property
    def fingerprint(self) -> str:
        """Identity of the contents."""

    def tokens(self, split: str, domain: str) -> NDArray[Any]:
        """The tokens of a domain, one long sequence."""

    def documents(self, split: str, domain: str) -> NDArray[Any]:
        """One row a document; only read where documents are weighted."""


@dataclass(frozen=True, kw_only=True)
class Accounting:
    """What a stream delivered, beside what its mixtures said."""

    steps: int
    tokens: dict[str, int]
    """Targets by domain."""
    shares: dict[str, float]
    """Realised share of the targets by domain; empty before the first step."""
    stated: dict[str, float]
    """Share that the mixtures stated, averaged over the steps; empty before the first step."""
    epochs: dict[str, float]
    """How many times as many windows were served as each domain has."""


class TokenStream:
    """An endless sequence of training steps that resumes to the exact sequence."""

    def __init__(
        self,
        corpus: TokenSource,
        *,
        batch: BatchShape,
        seed: int,
        mixtures: Sequence[tuple[int, Mapping[str, float]]],
        weights: DecaySchedule | None = None,
        dropped_after: Mapping[str, float] | None = None,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        """Begin before the first step.

        Args:
            corpus: where the tokens come from.
            batch: the size of a step over all ranks.
            seed: decides the order of the windows.
            mixtures: pairs of a number of steps done and the shares that hold from then on, as
                `RunConfig.phase_ends` counts: the first is at 0, the numbers rise.
            weights: how much rarer documents of low entropy come up; None draws all alike.
            dropped_after: epochs after which a domain's share goes to the others in proportion.
            rank: which equal part of each step's sequences `next_step` returns.
            num_ranks: must divide the sequences. The state does not depend on it, so that a run
                resumes on another number of ranks.

        Raises:
            ValueError: mixtures that do not begin at 0 or do not rise, an unknown domain, no
                share above 0, or ranks that do not divide the sequences.
        """
        if not 0 <= rank < num_ranks or batch.sequences % num_ranks:
            raise ValueError(
                f"rank {rank} of {num_ranks} cannot take a part of {batch.sequences} sequences"
            )
        self._domains = tuple(corpus.domains)
        self._mixtures = _checked(mixtures, self._domains)
        self._batch = batch
        self._weights = weights
        self._rows = _rows(batch.sequences, rank, num_ranks)
        self._tokens = [_training_tokens(corpus, domain) for domain in self._domains]
        self._draws = [
            DomainDraws(
                domain=domain,
                seed=seed,
                count=num_windows(len(tokens), batch.seq_len),
                weights=_window_weights(corpus, domain, len(tokens), batch.seq_len, weights),
            )
            for domain, tokens in zip(self._domains, self._tokens, strict=True)
        ]
        self._limits = _limits(dropped_after or {}, self._domains, [d.count for d in self._draws])
        self._identity: State = {
            "corpus": corpus.fingerprint,
            "seed": str(seed),  # 64 bits do not fit a JSON number
            "sequences": batch.sequences,
            "seq_len": batch.seq_len,
            "mixtures": fingerprint(self._mixtures),
            "weights": weights and [weights.first, weights.last, weights.steps],
            "dropped_after": dict(dropped_after) if dropped_after else None,
        }
        self._step = 0
        self._drawn = [0] * len(self._domains)  # sequences, since the beginning
        # Sequences since the mixture last changed, be it by a phase or by a domain dropped.
        self._drawn_in_phase = [0] * len(self._domains)
        self._resized = (0, 0)  # steps and sequences where sequences a step last changed

    @property
    def step(self) -> int:
        """Steps delivered so far."""
        return self._step

    @property
    def domains(self) -> tuple[str, ...]:
        """Every domain, in the order of their numbers."""
        return self._domains

    @property
    def is_weighted(self) -> bool:
        """Whether documents are drawn by weight, so that windows are passed over."""
        return self._weights is not None

    def next_step(self) -> StepBatch:
        """Return the next step's sequences, of this rank.

        Raises:
            RunFailedError: every domain of the mixture was dropped.
        """
        places = self.next_places()
        width = self._batch.seq_len + 1
        domains = places.domains[self._rows]
        tokens = np.empty((len(domains), width), dtype=np.int64)
        pairs = zip(domains.tolist(), places.windows[self._rows].tolist(), strict=True)
        for row, (domain, window) in enumerate(pairs):
            tokens[row] = _window(self._tokens[domain], window, width)
        masked = self._batch.documents == "masked"
        return StepBatch(
            tokens=tokens, domains=domains, segments=segments(tokens) if masked else None
        )

    def next_places(self, steps: int = 1) -> Places:
        """Go some steps on and return where their sequences lie, of all ranks, reading no token.

        Raises:
            RunFailedError: every domain of the mixture was dropped.
        """
        parts: list[Places] = []
        end = self._step + steps
        while self._step < end:
            parts.append(self._places(self._steps_at_once(end)))
        if len(parts) == 1:
            return parts[0]
        return Places(
            domains=np.concatenate([part.domains for part in parts]),
            epochs=np.concatenate([part.epochs for part in parts]),
            windows=np.concatenate([part.windows for part in parts]),
        )

    def skip(self, steps: int) -> None:
        """Go so many steps on, as `next_step` would, reading no token.

        Raises:
            RunFailedError: every domain of the mixture was dropped.
        """
        end = self._step + steps
        while self._step < end:
            part = self._steps_at_once(end)
            if self._weights is not None:
                self._places(part)
                continue
            chosen = self._choose(self._begun_phase(), part * self._batch.sequences)
            nums = np.bincount(chosen, minlength=len(self._draws)).tolist()
            for draws, num in zip(self._draws, nums, strict=True):
                draws.position += num
            self._step += part

    def _places(self, steps: int) -> Places:
        """Return where the sequences of steps under one mixture lie."""
        num_sequences = self._batch.sequences
        chosen = self._choose(self._begun_phase(), steps * num_sequences)
        decays = np.asarray(
            [self._weights.at(self._step + 1 + k) if self._weights else 1.0 for k in range(steps)]
        )
        self._step += steps
        epochs = np.empty(len(chosen), dtype=np.int64)
        windows = np.empty(len(chosen), dtype=np.int64)
        for domain, draws in enumerate(self._draws):
            rows = np.flatnonzero(chosen == domain)
            if len(rows):
                epochs[rows], windows[rows] = draws.take(len(rows), decays[rows // num_sequences])
        return Places(domains=chosen, epochs=epochs, windows=windows)

    def _steps_at_once(self, end: int) -> int:
        """Return how many of the steps up to ``end`` have one mixture and fit in memory."""
        begins = [begin for begin, _ in self._mixtures if begin > self._step]
        fitting = max(1, _DRAWN_AT_ONCE // self._batch.sequences)
        return min([end, *begins, self._step + fitting]) - self._step

    def window_bounds(
        self, domain: int, windows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first token of a domain's windows and the one after their last."""
        return window_bounds(windows, len(self._tokens[domain]), self._batch.seq_len)

    def times_passed(self) -> dict[str, NDArray[np.int64]]:
        """Return by domain how often each window was passed; without weights, was served."""
        return self._by_domain([draws.times_passed() for draws in self._draws])

    def num_windows(self) -> dict[str, int]:
        """Return by domain how many windows an epoch has."""
        return self._by_domain([draws.count for draws in self._draws])

    def _begun_phase(self) -> Sequence[float]:
        """Return the shares of the phase of the next step, its counters at 0 where it begins."""
        phase = self._phase(self._step)
        if self._mixtures[phase][0] == self._step:
            self._drawn_in_phase = [0] * len(self._domains)
        return self._mixtures[phase][1]

    def _choose(self, stated: Sequence[float], num: int) -> NDArray[np.int16]:
        """Return the domains of the next sequences, each the one furthest behind its share."""
        chosen: list[int] = []
        shares, after = self._left(stated), sum(self._drawn_in_phase)
        for _ in range(num):
            after += 1
            domain, most = -1, -math.inf
            for candidate, share in shares:
                deficit = share * after - self._drawn_in_phase[candidate]
                if deficit > most:
                    domain, most = candidate, deficit
            chosen.append(domain)
            self._drawn[domain] += 1
            self._drawn_in_phase[domain] += 1
            if self._drawn[domain] >= self._limits[domain]:
                self._drawn_in_phase = [0] * len(self._domains)
                # After the very last draw of a run nothing needs to be left.
                shares, after = self._left(stated) if len(chosen) < num else [], 0
        return np.asarray(chosen, dtype=np.int16)

    def _left(self, stated: Sequence[float]) -> list[tuple[int, float]]:
        """Return the domains that can be drawn from with their shares."""
        left = [
            (domain, share)
            for domain, share in enumerate(stated)
            if share > 0 and self._drawn[domain] < self._limits[domain]
        ]
        if not left:
            raise RunFailedError(
                f"every domain of the mixture was dropped before step {self._step + 1}",
                remedy="raise availability.max_epochs, lower steps, or set exhausted to repeat",
            )
        if len(left) == sum(share > 0 for share in stated):
            return left
        total = math.fsum(share for _, share in left)
        return [(domain, share / total) for domain, share in left]

    def _phase(self, step: int) -> int:
        return max(i for i, (begin, _) in enumerate(self._mixtures) if begin <= step)

    def accounting(self) -> Accounting:
        """Return the realised shares and epochs of all ranks together."""
        total = sum(self._drawn)
        return Accounting(
            steps=self._step,
            tokens=self._by_domain([n * self._batch.seq_len for n in self._drawn]),
            shares=self._by_domain([n / total for n in self._drawn]) if total else {},
            stated=self._by_domain(self._stated_shares()) if self._step else {},
            epochs=self._by_domain(
                [n / draws.count for n, draws in zip(self._drawn, self._draws, strict=True)]
            ),
        )

    def _by_domain(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._domains, values, strict=True))

    def _stated_shares(self) -> list[float]:
        ends = [begin for begin, _ in self._mixtures[1:]] + [self._step]
        stated = [0.0] * len(self._domains)
        for (begin, shares), end in zip(self._mixtures, ends, strict=True):
            weight = max(0, min(end, self._step) - begin) / self._step
            stated = [old + weight * share for old, share in zip(stated, shares, strict=True)]
        return stated

    def state_dict(self) -> State:
        """Return what `load_state_dict` needs to go on after the last step."""
        return {
            "version": _VERSION,
            **self._identity,
            "step": self._step,
            "drawn": self._by_domain(self._drawn),
            "drawn_in_phase": self._by_domain(self._drawn_in_phase),
            "cursor": self._by_domain([list(draws.cursor) for draws in self._draws]),
            "resized": dict(zip(("step", "drawn"), self._resized, strict=True)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the step at which the state was taken; unchanged where it is refused.

        Another number of sequences a step goes on at the next sequence where no step decides what
        is drawn: one mixture for the whole run and unweighted documents. A state of the format
        before this one, which knew neither weights nor dropped domains, is read as well.

        Raises:
            ConflictError: the state is of another corpus, seed, batch size or mixture: going on
                would repeat and skip text without a word.
            IntegrityError: its counters are not those of any stream; the message names which.
        """
        for name, value in {"version": _VERSION, **self._identity}.items():
            saved = self._saved(state, name)
            if saved != value and not (name == "sequences" and self._is_free_of_steps):
                raise ConflictError(
                    f"the stream's saved state has {name} {saved!r}, this run {value!r}"
                    f"{self._why(name)}",
                    remedy="resume with the configuration that saved it, or start a fresh run",
                )
        sequences = whole(state, "sequences", least=1)
        found = counters(state, sequences, self._bounds())
        self._step = found.step
        self._drawn = list(found.drawn)
        self._drawn_in_phase = list(found.drawn_in_phase)
        for draws, position in zip(self._draws, found.positions, strict=True):
            draws.position = position
        is_resized = sequences != self._batch.sequences
        self._resized = (found.step, sum(found.drawn)) if is_resized else found.resized

    def _bounds(self) -> Bounds:
        return Bounds(
            domains=self._domains,
            counts=[draws.count for draws in self._draws],
            limits=self._limits,
            begins=[begin for begin, _ in self._mixtures],
            weighted=self.is_weighted,
        )

    def _saved(self, state: Mapping[str, Any], name: str) -> Any:
        saved = state.get(name)
        old = name == "version" and type(saved) is int and saved == 1
        return _VERSION if old and not self.is_weighted else saved

    @property
    def _is_free_of_steps(self) -> bool:
        return len(self._mixtures) == 1 and self._weights is None

    def _why(self, name: str) -> str:
        if name != "sequences":
            return ""
        what = "the mixture changes" if len(self._mixtures) > 1 else "document weights change"
        return f", and {what} with the step"


def _checked(
    mixtures: Sequence[tuple[int, Mapping[str, float]]], domains: tuple[str, ...]
) -> list[tuple[int, list[float]]]:
    begins = [begin for begin, _ in mixtures]
    if not begins or begins[0] != 0 or sorted(set(begins)) != begins:
        raise ValueError(f"mixtures must begin at step 0 and rise, got {begins}")
    checked = []
    for begin, mixture in mixtures:
        unknown = sorted(set(mixture) - set(domains))
        total = sum(mixture.values())
        if unknown or min(mixture.values(), default=0) < 0 or not 0 < total < math.inf:
            raise ValueError(f"mixture {dict(mixture)} from step {begin} does not fit {domains}")
        checked.append((begin, [mixture.get(domain, 0.0) / total for domain in domains]))
    return checked


def _rows(sequences: int, rank: int, num_ranks: int) -> slice:
    part = sequences // num_ranks
    return slice(rank * part, (rank + 1) * part)


def _training_tokens(corpus: TokenSource, domain: str) -> NDArray[Any]:
    tokens = corpus.tokens("train", domain)
    if len(tokens) < 1:
        raise ValueError(f"domain {domain!r} has no training tokens")
    return tokens


def _window_weights(
    corpus: TokenSource, domain: str, num_tokens: int, seq_len: int, decays: DecaySchedule | None
) -> WindowWeights | None:
    if decays is None:
        return None
    return WindowWeights(
        corpus.documents("train", domain),
        num_tokens=num_tokens,
        seq_len=seq_len,
        steepest=decays.steepest,
    )


def _limits(
    max_epochs: Mapping[str, float], domains: Sequence[str], counts: Sequence[int]
) -> list[float]:
    """Return the sequences after which each domain is dropped, infinity where it never is."""
    return [
        max(1, math.floor(max_epochs[domain] * count)) if domain in max_epochs else math.inf
        for domain, count in zip(domains, counts, strict=True)
    ]


def _window(tokens: NDArray[Any], window: int, width: int) -> NDArray[Any]:
    if len(tokens) < width:
        return np.resize(tokens, width)
    start = min(window * (width - 1), len(tokens) - width)
    return tokens[start : start + width]
