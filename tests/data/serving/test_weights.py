"""Windows drawn by the weights of their documents, against slow and obvious versions."""

import json
from collections import Counter

import numpy as np
import pytest

from tests.data.numbered import DOCUMENT_ROW, NumberedSource, drawn, stream
from workbench.data.serving.draws import DomainDraws
from workbench.data.serving.weights import (
    DecaySchedule,
    WindowWeights,
    num_windows,
    window_bounds,
)

MIXTURE = [(0, {"a": 0.7, "b": 0.3})]
STEEP = DecaySchedule(first=0.999, last=0.92, steps=60)


def rows_of(lengths: list[int], ranks: list[float]) -> np.ndarray:
    rows = np.zeros(len(lengths), dtype=DOCUMENT_ROW)
    rows["start"] = np.cumsum([0, *lengths[:-1]])
    rows["rank"] = ranks
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_mean_is_the_mean_over_the_tokens_of_the_window(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 40, size=random.integers(1, 60)).tolist()
    ranks = random.random(len(lengths)).tolist()
    num_tokens, seq_len, decay = sum(lengths), int(random.integers(2, 50)), 0.97
    weights = WindowWeights(
        rows_of(lengths, ranks), num_tokens=num_tokens, seq_len=seq_len, steepest=0.95
    )
    by_token = [
        decay ** (100 * (1 - float(np.float32(rank))))
        for rank, length in zip(ranks, lengths, strict=True)
        for _ in range(length)
    ]
    count = num_windows(num_tokens, seq_len)
    expected = []
    for window in range(count):
        start = max(0, min(window * seq_len, num_tokens - seq_len - 1))
        part = by_token[start : start + seq_len + 1]
        expected.append(sum(part) / len(part))
    found = weights.mean(np.arange(count), decay)
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("decay", [0.95, 0.96, 0.98, 0.999, 1.0])
def test_relative_weight_is_at_most_one_and_one_is_reached_at_the_steepest(decay: float) -> None:
    random = np.random.default_rng(3)
    lengths = random.integers(1, 200, size=300).tolist()
    weights = WindowWeights(
        rows_of(lengths, random.random(300).tolist()),
        num_tokens=sum(lengths),
        seq_len=64,
        steepest=0.95,
    )
    found = weights.relative(np.arange(num_windows(sum(lengths), 64)), decay)
    assert found.max() <= 1 + 1e-12
    assert found.max() > (1 - 1e-12 if decay in (0.95, 1.0) else 0.9)


def test_rows_that_do_not_begin_at_the_first_token_are_refused() -> None:
    rows = rows_of([5, 5], [0.0, 0.5])
    rows["start"] += 1
    with pytest.raises(ValueError, match="do not cover"):
        WindowWeights(rows, num_tokens=11, seq_len=4, steepest=0.99)


def test_decay_is_linear_from_the_first_to_the_last_step() -> None:
    decay = DecaySchedule(first=0.999, last=0.991, steps=5)
    found = [decay.at(step) for step in (1, 2, 3, 5, 6)]
    assert found == pytest.approx([0.999, 0.997, 0.995, 0.991, 0.991])
    assert DecaySchedule(first=0.99, last=0.98, steps=1).at(1) == 0.99


def test_decay_of_one_serves_what_no_weights_serve() -> None:
    source = NumberedSource(a=401, b=61)
    flat = DecaySchedule(first=1.0, last=1.0, steps=100)
    plain, weighted = stream(source, MIXTURE), stream(source, MIXTURE, weights=flat)
    assert drawn(weighted, 100) == drawn(plain, 100)


def test_windows_come_as_often_as_their_weights_say() -> None:
    """400 windows through many epochs: counts within 5 standard deviations of the weights."""
    source = NumberedSource(every=16, a=16 * 25 + 1)
    decay = DecaySchedule(first=0.98, last=0.98, steps=1)
    numbers = stream(source, [(0, {"a": 1.0})], sequences=50, seq_len=4, weights=decay)
    found = Counter(start for _, start in drawn(numbers, 400))
    weights = WindowWeights(
        source.documents("train", "a"), num_tokens=16 * 25 + 1, seq_len=4, steepest=0.98
    )
    starts, _ = window_bounds(np.arange(100), 16 * 25 + 1, 4)
    expected = weights.relative(np.arange(100), 0.98)
    expected *= 20_000 / expected.sum()
    for start, wanted in zip(starts.tolist(), expected.tolist(), strict=True):
        assert abs(found[start] - wanted) < 5 * wanted**0.5


def test_window_comes_at_most_once_an_epoch_and_passed_over_ones_come_again() -> None:
    source = NumberedSource(a=401)
    rows = source.documents("train", "a")
    weights = WindowWeights(rows, num_tokens=401, seq_len=4, steepest=0.98)
    draws = DomainDraws(domain="a", seed=1, count=100, weights=weights)
    epochs, windows = draws.take(2000, 0.98)
    assert len(set(zip(epochs.tolist(), windows.tolist(), strict=True))) == 2000
    assert set(windows.tolist()) == set(range(100))
    assert sorted(epochs.tolist()) == epochs.tolist()


def test_take_in_parts_is_take_at_once() -> None:
    rows = NumberedSource(a=401).documents("train", "a")

    def draws() -> DomainDraws:
        weights = WindowWeights(rows, num_tokens=401, seq_len=4, steepest=0.95)
        return DomainDraws(domain="a", seed=1, count=100, weights=weights)

    whole, parts = draws(), draws()
    _, expected = whole.take(1000, 0.97)
    found = [window for num in [1, 2, 97, 100, 0, 300, 500] for window in parts.take(num, 0.97)[1]]
    assert found == expected.tolist()
    assert parts.cursor == whole.cursor


@pytest.mark.parametrize("stop", [0, 1, 13, 37, 59])
def test_weighted_stream_resumes_exactly_on_other_ranks(stop: int) -> None:
    """D2, D12: with the decay changing at every step."""
    source = NumberedSource(a=201, b=61)
    uninterrupted = drawn(stream(source, MIXTURE, weights=STEEP), 60)
    first = stream(source, MIXTURE, weights=STEEP)
    before = drawn(first, stop)
    state = json.loads(json.dumps(first.state_dict()))
    ranks = [stream(source, MIXTURE, weights=STEEP, rank=r, num_ranks=2) for r in (0, 1)]
    for one in ranks:
        one.load_state_dict(state)
    before += [pair for _ in range(60 - stop) for one in ranks for pair in drawn(one, 1)]
    assert before == uninterrupted


def test_weighted_stream_draws_text_of_high_entropy_more_often() -> None:
    source = NumberedSource(a=2001)
    early = stream(source, [(0, {"a": 1.0})], weights=STEEP)
    first = [start for _, start in drawn(early, 50)]
    early.skip(200)
    last = [start for _, start in drawn(early, 50)]
    assert np.mean(last) > np.mean(first) + 200


@pytest.mark.parametrize("last", [0.92, 0.999, 0.9])
def test_skip_of_a_weighted_stream_is_exact_though_it_draws_many_steps_at_once(last: float) -> None:
    """Against step by step, with a decay that changes which windows are taken at every step."""
    source = NumberedSource(a=2001, b=61)
    decays = DecaySchedule(first=0.98, last=last, steps=300)
    mixtures = [(0, {"a": 0.7, "b": 0.3}), (77, {"a": 0.5, "b": 0.5})]
    walked, skipped, many = (stream(source, mixtures, weights=decays) for _ in range(3))
    steps = [walked.next_places() for _ in range(300)]
    skipped.skip(300)
    assert skipped.state_dict() == walked.state_dict()
    found = many.next_places(300)
    assert found.windows.tolist() == [w for places in steps for w in places.windows.tolist()]
    assert found.epochs.tolist() == [e for places in steps for e in places.epochs.tolist()]
    assert found.domains.tolist() == [d for places in steps for d in places.domains.tolist()]
    assert many.state_dict() == walked.state_dict()
