"""Training batches, a pure function of corpus, seed, mixtures and the number of the step.

Each domain's tokens are cut into fixed windows of ``seq_len + 1`` that overlap by one token, so
that every token is a target once an epoch; each epoch takes the windows in a new order that the
seed decides. Each sequence comes from the domain that is furthest behind its share, so that
realised and stated shares differ by a sequence or so, not by the noise of a draw.

The state is a few counters: nothing is buffered, so nothing is lost or repeated on resume.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import fingerprint
from workbench.errors import ConflictError

State: TypeAlias = dict[str, Any]
"""Plain integers, strings and dictionaries of them."""

_VERSION = 1


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


class BatchShape(Protocol):
    """Sequences of one optimizer step; `training.config.BatchConfig` is one."""

    @property
    def sequences(self) -> int:
        """Sequences a step, over all ranks."""

    @property
    def seq_len(self) -> int:
        """Targets a sequence."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """The sequences of one optimizer step."""

    tokens: NDArray[np.int64]
    """``[sequences, seq_len + 1]``: inputs are all but the last, targets all but the first."""
    domains: NDArray[np.int16]
    """``[sequences]``: number of each sequence's domain in the corpus."""


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
    """How many times each domain's windows were gone through."""


class TokenStream:
    """An endless sequence of training steps that resumes to the exact sequence."""

    def __init__(
        self,
        corpus: TokenSource,
        *,
        batch: BatchShape,
        seed: int,
        mixtures: Sequence[tuple[int, Mapping[str, float]]],
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
        self._seed = seed
        self._rows = _rows(batch.sequences, rank, num_ranks)
        self._windows = [
            _DomainWindows(corpus.tokens("train", domain), domain, batch.seq_len, seed)
            for domain in self._domains
        ]
        self._identity: State = {
            "corpus": corpus.fingerprint,
            "seed": str(seed),  # 64 bits do not fit a JSON number
            "sequences": batch.sequences,
            "seq_len": batch.seq_len,
            "mixtures": fingerprint(self._mixtures),
        }
        self._step = 0
        self._drawn = [0] * len(self._domains)  # sequences, since the beginning
        self._drawn_in_phase = [0] * len(self._domains)  # sequences, under the present mixture

    @property
    def step(self) -> int:
        """Steps delivered so far."""
        return self._step

    def next_step(self) -> StepBatch:
        """Return the next step's sequences, of this rank."""
        phase = self._phase(self._step)
        if self._mixtures[phase][0] == self._step:
            self._drawn_in_phase = [0] * len(self._domains)
        shares = self._mixtures[phase][1]
        places = [self._draw(shares) for _ in range(self._batch.sequences)]
        self._step += 1
        mine = places[self._rows]
        return StepBatch(
            tokens=np.stack([self._windows[domain].at(number) for domain, number in mine]),
            domains=np.asarray([domain for domain, _ in mine], dtype=np.int16),
        )

    def _draw(self, shares: Sequence[float]) -> tuple[int, int]:
        """Return the domain furthest behind its share and the number of its next sequence."""
        after = sum(self._drawn_in_phase) + 1
        deficits = [
            share * after - drawn if share > 0 else -1.0 * after
            for share, drawn in zip(shares, self._drawn_in_phase, strict=True)
        ]
        domain = deficits.index(max(deficits))
        number = self._drawn[domain]
        self._drawn[domain] += 1
        self._drawn_in_phase[domain] += 1
        return domain, number

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
                [n / w.count for n, w in zip(self._drawn, self._windows, strict=True)]
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
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the step at which the state was taken.

        Raises:
            ConflictError: the state is of another corpus, seed, batch size or mixture: going on
                would repeat and skip text without a word.
        """
        expected = {"version": _VERSION, **self._identity}
        for name, value in expected.items():
            if state.get(name) != value:
                raise ConflictError(
                    f"the stream's saved state has {name} {state.get(name)!r}, this run {value!r}",
                    remedy="resume with the configuration that saved it, or start a fresh run",
                )
        self._step = int(state["step"])
        self._drawn = [int(state["drawn"][domain]) for domain in self._domains]
        self._drawn_in_phase = [int(state["drawn_in_phase"][domain]) for domain in self._domains]


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


class _DomainWindows:
    """One domain's fixed windows in the order of each epoch."""

    def __init__(self, tokens: NDArray[Any], domain: str, seq_len: int, seed: int) -> None:
        if len(tokens) < 1:
            raise ValueError(f"domain {domain!r} has no training tokens")
        self._tokens = tokens
        self._domain = domain
        self._width = seq_len + 1
        self._seed = seed
        # The last window ends at the last token; where the stretch does not divide it overlaps
        # the one before. Text shorter than one window is repeated to fill it.
        self.count = max(1, -(-(len(tokens) - 1) // seq_len))
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def at(self, number: int) -> NDArray[np.int64]:
        """Return the window drawn as the domain's ``number``-th sequence, from 0."""
        epoch, place = divmod(number, self.count)
        if epoch != self._epoch:
            self._order = window_order(self._seed, self._domain, epoch, self.count)
            self._epoch = epoch
        if len(self._tokens) < self._width:
            return np.resize(np.asarray(self._tokens, dtype=np.int64), self._width)
        start = int(self._order[place]) * (self._width - 1)
        start = min(start, len(self._tokens) - self._width)
        return np.asarray(self._tokens[start : start + self._width], dtype=np.int64)


def window_order(seed: int, domain: str, epoch: int, count: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(count)`` that seed, domain and epoch decide.

    From the raw output of Philox, which NumPy keeps the same between versions (NEP 19), unlike
    that of its ``permutation``.
    """
    name = f"stream/v{_VERSION}|{seed}|{domain}|{epoch}"
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    return np.argsort(np.random.Philox(key=key).random_raw(count), kind="stable")
