import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from workbench.data.corpus import Corpus
from workbench.data.draws import window_order
from workbench.data.stream import Accounting, TokenStream
from workbench.errors import ConflictError
from workbench.training.config import BatchConfig


class NumberedSource:
    """Domains whose tokens are their own positions, so that a window says where it is from."""

    fingerprint = "sha256:numbered"

    def __init__(self, **lengths: int) -> None:
        self.lengths = lengths
        self.domains = tuple(sorted(lengths))

    def tokens(self, split: str, domain: str) -> np.ndarray:
        assert split == "train"
        return np.arange(self.lengths[domain], dtype=np.uint16)


@dataclass(frozen=True)
class Drawn:
    domain: int
    start: int
    width: int


def stream(
    source: NumberedSource | Corpus,
    mixtures: Sequence[tuple[int, dict[str, float]]],
    *,
    sequences: int = 4,
    seq_len: int = 2,
    seed: int = 7,
    **ranks: int,
) -> TokenStream:
    batch = BatchConfig(sequences=sequences, seq_len=seq_len)
    return TokenStream(source, batch=batch, seed=seed, mixtures=mixtures, **ranks)


def drawn(stream: TokenStream, steps: int) -> list[tuple[int, int]]:
    """Domain and first token of each sequence of the next steps."""
    batches = [stream.next_step() for _ in range(steps)]
    return [
        (int(domain), int(row[0]))
        for batch in batches
        for row, domain in zip(batch.tokens, batch.domains, strict=True)
    ]


def test_step_has_the_shapes_types_and_consecutive_tokens() -> None:
    batch = stream(NumberedSource(a=101, b=51), [(0, {"a": 0.5, "b": 0.5})], seq_len=10).next_step()
    assert batch.tokens.dtype == np.int64
    assert batch.tokens.shape == (4, 11)
    assert batch.domains.dtype == np.int16
    assert (np.diff(batch.tokens, axis=1) == 1).all()


def test_epoch_takes_every_window_once_and_the_next_in_another_order() -> None:
    """D12: each epoch is a full permutation, different per epoch."""
    numbers = stream(NumberedSource(a=81), [(0, {"a": 1.0})])  # 40 windows of 2 targets
    epochs = [[start for _, start in drawn(numbers, 10)] for _ in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(0, 80, 2))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_targets_cover_every_token_when_windows_do_not_divide_the_text() -> None:
    numbers = stream(NumberedSource(a=24), [(0, {"a": 1.0})], seq_len=5, sequences=5)
    batch = numbers.next_step()
    assert set(batch.tokens[:, 1:].reshape(-1).tolist()) == set(range(1, 24))


@pytest.mark.parametrize("stop", [0, 1, 9, 10, 13, 25, 39])
def test_resume_at_any_step_goes_on_exactly(stop: int) -> None:
    """A1, D2, D12: no sequence lost or repeated, through epochs and a change of mixture."""
    source = NumberedSource(a=41, b=11)
    mixtures = [(0, {"a": 0.9, "b": 0.1}), (10, {"a": 0.25, "b": 0.75}), (25, {"b": 1.0})]
    uninterrupted = drawn(stream(source, mixtures), 40)
    first = stream(source, mixtures)
    before = drawn(first, stop)
    saved = json.loads(json.dumps(first.state_dict()))
    second = stream(source, mixtures)
    second.load_state_dict(saved)
    assert before + drawn(second, 40 - stop) == uninterrupted
    assert second.accounting().steps == 40


def test_resume_after_three_batches_of_ten_starts_at_the_thirty_first_sample() -> None:
    """A1: 100 numbered samples, batch 10, killed after batch 3: the union is all, none twice."""
    source = NumberedSource(a=201)  # 100 windows of 2 targets
    first = stream(source, [(0, {"a": 1.0})], sequences=10)
    before = drawn(first, 3)
    second = stream(source, [(0, {"a": 1.0})], sequences=10)
    second.load_state_dict(first.state_dict())
    assert Counter(start for _, start in before + drawn(second, 7)) == Counter(range(0, 200, 2))


def test_resume_twice_and_on_another_number_of_ranks_goes_on_exactly() -> None:
    """D12: two ranks, killed in the middle of an epoch, and one rank afterwards."""
    source = NumberedSource(a=61, b=21)
    mixtures = [(0, {"a": 0.6, "b": 0.4})]
    uninterrupted = drawn(stream(source, mixtures), 12)
    ranks = [stream(source, mixtures, rank=r, num_ranks=2) for r in (0, 1)]
    together = [drawn(one, 1) for _ in range(5) for one in ranks]
    assert ranks[0].state_dict() == ranks[1].state_dict()
    alone = stream(source, mixtures)
    alone.load_state_dict(ranks[1].state_dict())
    together.append(drawn(alone, 4))
    again = [stream(source, mixtures, rank=r, num_ranks=4) for r in range(4)]
    for one in again:
        one.load_state_dict(alone.state_dict())
    together += [drawn(one, 1) for _ in range(3) for one in again]
    assert [sequence for part in together for sequence in part] == uninterrupted


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"seed": 8}, "seed"),
        ({"sequences": 8}, "sequences"),
        ({"seq_len": 4}, "seq_len"),
        ({"mixtures": [(0, {"a": 0.5, "b": 0.5})]}, "mixtures"),
    ],
)
def test_resume_under_another_configuration_is_refused(other: dict, name: str) -> None:
    source = NumberedSource(a=41, b=11)
    options = {"mixtures": [(0, {"a": 1.0})]}
    state = stream(source, **options).state_dict()
    with pytest.raises(ConflictError, match=name):
        stream(source, **{**options, **other}).load_state_dict(state)


def test_resume_on_another_corpus_is_refused() -> None:
    """D6."""
    state = stream(NumberedSource(a=41), [(0, {"a": 1.0})]).state_dict()
    other = NumberedSource(a=41)
    other.fingerprint = "sha256:another"
    with pytest.raises(ConflictError, match="corpus"):
        stream(other, [(0, {"a": 1.0})]).load_state_dict(state)


def test_tiny_sources_are_all_seen() -> None:
    """D3: lengths 3/4/3, shares 0.2/0.6/0.2: all ten items come up."""
    lengths = {"a": 3, "b": 4, "c": 3}
    source = NumberedSource(**{name: 2 * count + 1 for name, count in lengths.items()})
    seen = set(drawn(stream(source, [(0, {"a": 0.2, "b": 0.6, "c": 0.2})], sequences=5), 3))
    items = {(i, 2 * n) for i, count in enumerate(lengths.values()) for n in range(count)}
    assert seen == items


def test_text_shorter_than_a_window_is_repeated_to_fill_it() -> None:
    batch = stream(NumberedSource(a=3), [(0, {"a": 1.0})], seq_len=7).next_step()
    assert (batch.tokens == [0, 1, 2, 0, 1, 2, 0, 1]).all()


def test_realised_shares_and_epochs_are_told_when_a_small_source_repeats() -> None:
    """D5: sizes 10/1000 at equal shares: the small one is gone through 100 times."""
    numbers = stream(NumberedSource(big=2001, small=21), [(0, {"big": 0.5, "small": 0.5})])
    drawn(numbers, 500)
    assert numbers.accounting() == Accounting(
        steps=500,
        tokens={"big": 2000, "small": 2000},
        shares={"big": 0.5, "small": 0.5},
        stated={"big": 0.5, "small": 0.5},
        epochs={"big": 1.0, "small": 100.0},
    )


def test_accounting_averages_the_stated_mixtures_over_the_steps() -> None:
    mixtures = [(0, {"a": 1.0}), (3, {"a": 0.5, "b": 0.5}), (50, {"b": 1.0})]
    numbers = stream(NumberedSource(a=41, b=41), mixtures)
    before = numbers.accounting()
    assert (before.shares, before.stated) == ({}, {})
    drawn(numbers, 4)
    told = numbers.accounting()
    assert told.stated == {"a": 0.875, "b": 0.125}
    assert told.shares == {"a": 0.875, "b": 0.125}


def test_realised_shares_stay_within_a_sequence_of_the_stated_ones() -> None:
    shares = {"a": 0.05, "b": 0.31, "c": 0.64}
    numbers = stream(NumberedSource(a=41, b=41, c=41), [(0, shares)], sequences=3)
    counts = np.zeros(3)
    for step in range(1, 101):
        for domain, _ in drawn(numbers, 1):
            counts[domain] += 1
        assert np.abs(counts - 3 * step * np.array([0.05, 0.31, 0.64])).max() < 1


def test_domain_with_share_zero_is_never_drawn() -> None:
    numbers = stream(NumberedSource(a=41, b=41, c=41), [(0, {"b": 1 / 3, "c": 2 / 3, "a": 0.0})])
    assert 0 not in {domain for domain, _ in drawn(numbers, 300)}


def test_window_order_is_pinned_for_ever() -> None:
    """A change here would silently reorder every run that is resumed after an upgrade."""
    assert window_order(7, "code", 0, 8).tolist() == [7, 5, 4, 0, 2, 6, 1, 3]


def test_same_seed_repeats_and_another_seed_differs(corpus: Corpus) -> None:
    mixture = [(0, corpus.natural_mixture())]
    first = stream(corpus, mixture, seq_len=16).next_step().tokens
    assert (stream(corpus, mixture, seq_len=16).next_step().tokens == first).all()
    assert (stream(corpus, mixture, seq_len=16, seed=2**64 - 1).next_step().tokens != first).any()


@pytest.mark.parametrize(
    "mixtures",
    [
        [],
        [(1, {"a": 1.0})],
        [(0, {"a": 1.0}), (0, {"a": 1.0})],
        [(0, {"a": 1.0, "zzz": 1.0})],
        [(0, {"a": 2.0, "b": -1.0})],
        [(0, {"a": 0.0})],
        [(0, {})],
        [(0, {"a": float("nan")})],
    ],
)
def test_stream_of_what_is_no_mixture_is_refused(
    mixtures: list[tuple[int, dict[str, float]]],
) -> None:
    with pytest.raises(ValueError, match="mixture"):
        stream(NumberedSource(a=41, b=41), mixtures)


@pytest.mark.parametrize(("rank", "num_ranks"), [(0, 3), (2, 2), (-1, 2)])
def test_stream_of_ranks_that_do_not_fit_is_refused(rank: int, num_ranks: int) -> None:
    with pytest.raises(ValueError, match="rank"):
        stream(NumberedSource(a=41), [(0, {"a": 1.0})], rank=rank, num_ranks=num_ranks)


def test_stream_of_a_domain_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="no training tokens"):
        stream(NumberedSource(a=0), [(0, {"a": 1.0})])
