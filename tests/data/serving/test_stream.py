import json
from collections import Counter

import numpy as np
import pytest

from tests.data.numbered import NumberedSource, drawn, stream
from workbench.data.corpus import Corpus
from workbench.data.serving.draws import window_order
from workbench.data.serving.stream import Accounting
from workbench.data.serving.weights import DecaySchedule
from workbench.errors import ConflictError, RunFailedError


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


def test_resume_of_a_state_of_version_1_goes_on_exactly() -> None:
    """A run saved by an earlier version: its state had no cursor, weights or dropped domains."""
    source, mixtures = NumberedSource(a=41, b=11), [(0, {"a": 0.6, "b": 0.4})]
    first = stream(source, mixtures)
    uninterrupted = drawn(stream(source, mixtures), 20)[4 * 9 :]
    drawn(first, 9)
    state = first.state_dict()
    for name in ("cursor", "weights", "dropped_after"):
        del state[name]
    second = stream(source, mixtures)
    second.load_state_dict({**state, "version": 1})
    assert drawn(second, 11) == uninterrupted


def test_resume_of_a_state_of_a_later_version_is_refused() -> None:
    state = stream(NumberedSource(a=41), [(0, {"a": 1.0})]).state_dict()
    with pytest.raises(ConflictError, match="version 3"):
        stream(NumberedSource(a=41), [(0, {"a": 1.0})]).load_state_dict({**state, "version": 3})


def test_resume_at_another_batch_size_goes_on_at_the_next_sequence() -> None:
    """One mixture and no weights: what is drawn does not depend on how it is cut into steps."""
    source, mixtures = NumberedSource(a=61, b=21), [(0, {"a": 0.6, "b": 0.4})]
    uninterrupted = drawn(stream(source, mixtures, sequences=1), 60)
    first = stream(source, mixtures, sequences=4)
    together = drawn(first, 5)
    second = stream(source, mixtures, sequences=10)
    second.load_state_dict(first.state_dict())
    together += drawn(second, 2)
    third = stream(source, mixtures, sequences=2)
    third.load_state_dict(second.state_dict())
    assert together + drawn(third, 10) == uninterrupted
    assert third.accounting().tokens == {"a": 72, "b": 48}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"mixtures": [(0, {"a": 1.0}), (9, {"b": 1.0})]}, "the mixture changes with the step"),
        ({"weights": DecaySchedule(first=0.99, last=0.98, steps=9)}, "document weights change"),
    ],
)
def test_resume_at_another_batch_size_is_refused_where_steps_decide(
    more: dict, reason: str
) -> None:
    options = {"mixtures": [(0, {"a": 1.0})], **more}
    source = NumberedSource(a=41, b=11)
    state = stream(source, sequences=4, **options).state_dict()
    with pytest.raises(ConflictError, match=f"sequences 4, this run 8, and {reason}"):
        stream(source, sequences=8, **options).load_state_dict(state)


@pytest.mark.parametrize("stop", [20, 60, 199])
def test_two_hundred_numbered_samples_stopped_and_resumed_twice_come_once_an_epoch(
    stop: int,
) -> None:
    """D2: 200 samples, stopped at 20, resumed twice: every one exactly once an epoch."""
    source = NumberedSource(a=401)  # 200 windows of 2 targets
    mixtures = [(0, {"a": 1.0})]
    seen: list[int] = []
    state = None
    for part in (stop, 7, 600 - stop - 7):
        one = stream(source, mixtures, sequences=1)
        if state is not None:
            one.load_state_dict(json.loads(json.dumps(state)))
        seen += [start for _, start in drawn(one, part)]
        state = one.state_dict()
    epochs = [seen[k : k + 200] for k in (0, 200, 400)]
    assert all(sorted(epoch) == list(range(0, 400, 2)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_two_ranks_killed_in_the_middle_of_epoch_one_see_full_permutations() -> None:
    """D12: two ranks, three epochs, killed in the middle of the second."""
    source, mixtures = NumberedSource(a=81), [(0, {"a": 1.0})]  # 40 windows, 10 steps an epoch
    ranks = [stream(source, mixtures, rank=r, num_ranks=2) for r in (0, 1)]
    seen = [start for _ in range(14) for one in ranks for _, start in drawn(one, 1)]
    states = [json.loads(json.dumps(one.state_dict())) for one in ranks]
    again = [stream(source, mixtures, rank=r, num_ranks=2) for r in (0, 1)]
    for one, state in zip(again, states, strict=True):
        one.load_state_dict(state)
    seen += [start for _ in range(16) for one in again for _, start in drawn(one, 1)]
    epochs = [seen[k : k + 40] for k in (0, 40, 80)]
    assert all(sorted(epoch) == list(range(0, 80, 2)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert seen == [start for _, start in drawn(stream(source, mixtures), 30)]


def test_skip_leads_to_the_state_of_the_steps_themselves() -> None:
    source = NumberedSource(a=41, b=11)
    mixtures = [(0, {"a": 0.9, "b": 0.1}), (10, {"a": 0.25, "b": 0.75}), (25, {"b": 1.0})]
    for steps in (0, 1, 10, 24, 40):
        walked, skipped = stream(source, mixtures), stream(source, mixtures)
        drawn(walked, steps)
        skipped.skip(steps)
        assert skipped.state_dict() == walked.state_dict()
        assert drawn(skipped, 5) == drawn(walked, 5)


def test_domain_is_dropped_at_its_limit_and_its_share_goes_to_the_others() -> None:
    source = NumberedSource(a=21, b=2001, c=2001)  # 10, 1000 and 1000 windows
    mixtures = [(0, {"a": 0.5, "b": 0.3, "c": 0.2})]
    numbers = stream(source, mixtures, dropped_after={"a": 2.5})
    domains = [domain for domain, _ in drawn(numbers, 100)]
    assert domains.count(0) == 25
    assert 0 not in domains[52:]
    after = Counter(domains[52:])
    assert after[1] / after.total() == pytest.approx(0.6, abs=0.01)
    resumed = stream(source, mixtures, dropped_after={"a": 2.5})
    first = stream(source, mixtures, dropped_after={"a": 2.5})
    before = drawn(first, 13)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [domain for domain, _ in before + drawn(resumed, 87)] == domains


def test_stream_with_every_domain_dropped_says_so() -> None:
    numbers = stream(NumberedSource(a=21), [(0, {"a": 1.0})], sequences=5, dropped_after={"a": 1})
    assert len(drawn(numbers, 2)) == 10
    with pytest.raises(RunFailedError, match="dropped before step 3"):
        numbers.next_step()


def test_masked_batch_says_which_document_each_token_is_of() -> None:
    class Ended(NumberedSource):
        def tokens(self, split: str, domain: str) -> np.ndarray:
            return np.array([5, 6, 0, 7, 0, 8, 9], dtype=np.uint16)

    batch = stream(
        Ended(a=7), [(0, {"a": 1.0})], sequences=2, seq_len=6, documents="masked"
    ).next_step()
    assert batch.segments is not None
    assert batch.segments.dtype == np.int32
    assert batch.segments.tolist() == [[0, 0, 0, 1, 1, 2, 2]] * 2
    assert stream(Ended(a=7), [(0, {"a": 1.0})]).next_step().segments is None


def test_tiny_sources_are_all_seen() -> None:
    """D3: lengths 3/4/3, shares 0.2/0.6/0.2: all ten items come up."""
    lengths = {"a": 3, "b": 4, "c": 3}
    source = NumberedSource(**{name: 2 * count + 1 for name, count in lengths.items()})
    seen = set(drawn(stream(source, [(0, {"a": 0.2, "b": 0.6, "c": 0.2})], sequences=5), 3))
    items = {(i, 2 * n) for i, count in enumerate(lengths.values()) for n in range(count)}
    assert seen == items


@pytest.mark.parametrize("lengths", [{"a": 1}, {"a": 1, "b": 2, "c": 300}, {"a": 3, "b": 1}])
def test_sources_shorter_than_a_window_serve_forever(lengths: dict[str, int]) -> None:
    """D3: a domain of one document of one token, beside others or alone."""
    mixture = dict.fromkeys(lengths, 1 / len(lengths))
    numbers = stream(NumberedSource(**lengths), [(0, mixture)], seq_len=8, sequences=6)
    weighted = stream(
        NumberedSource(**lengths),
        [(0, mixture)],
        seq_len=8,
        sequences=6,
        weights=DecaySchedule(first=0.99, last=0.92, steps=30),
    )
    for one in (numbers, weighted):
        seen = {domain for domain, _ in drawn(one, 30)}
        assert seen == set(range(len(lengths)))


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


def test_first_windows_of_a_stream_are_pinned_for_ever() -> None:
    """As the first version served them; a run must mean the same after an upgrade."""
    source = NumberedSource(a=41, b=11)
    found = drawn(stream(source, [(0, {"a": 0.7, "b": 0.3})]), 4)
    assert found == [
        (0, 12),
        (1, 0),
        (0, 10),
        (0, 4),
        (0, 28),
        (1, 4),
        (0, 6),
        (0, 16),
        (1, 2),
        (0, 38),
        (0, 18),
        (1, 8),
        (0, 30),
        (0, 0),
        (0, 34),
        (1, 6),
    ]


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
