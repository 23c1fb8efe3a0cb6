import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data.document_weights import document_weights
from workbench.data.text.heads import WordCounts, ranks, weighted_head
from workbench.data.text.words import words

TEXTS = st.lists(st.text(alphabet="abcde ", max_size=30), max_size=12)


def counted(texts: list[str], most_words: int = 100_000) -> WordCounts:
    counts = WordCounts(most_words)
    for text in texts:
        counts.update(text)
    return counts


def zipf_texts(num: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(3000)]
    shares = [1 / (number + 1) for number in range(3000)]
    return [
        " ".join(generator.choices(vocabulary, shares, k=generator.randint(5, 120)))
        for _ in range(num)
    ]


@given(TEXTS)
def test_word_counts_without_a_cut_are_exact(texts: list[str]) -> None:
    counts = counted(texts)
    exact = Counter(word for text in texts for word in words(text))
    assert counts.total == exact.total()
    assert counts.count_error == 0
    assert {word: counts.count(word) for word in exact} == exact
    assert len(counts) == len(exact)


@given(TEXTS, st.integers(1, 6))
def test_word_counts_after_cuts_are_too_low_by_at_most_the_error(
    texts: list[str], most_words: int
) -> None:
    counts = counted(texts, most_words)
    exact = Counter(word for text in texts for word in words(text))
    assert counts.total == exact.total()
    assert len(counts) <= 2 * most_words
    for word, number in exact.items():
        assert number - counts.count_error <= counts.count(word) <= number


def test_word_counts_cut_keeps_the_head_of_a_long_tail() -> None:
    texts = zipf_texts(400)
    exact, cut = counted(texts), counted(texts, 500)
    assert len(cut) <= 1000 < len(exact)
    assert 0 < cut.count_error < 40
    assert set(cut.head_words(20)) == set(exact.head_words(20))
    assert cut.head(20).share == pytest.approx(exact.head(20).share, rel=0.01)
    assert cut.head(20).count_error == cut.count_error


@given(TEXTS, TEXTS, st.integers(1, 6))
def test_word_counts_merged_keep_their_promise(
    first: list[str], second: list[str], most_words: int
) -> None:
    merged = counted(first, most_words)
    merged.merge(counted(second, most_words))
    exact = Counter(word for text in first + second for word in words(text))
    assert merged.total == exact.total()
    for word, number in exact.items():
        assert number - merged.count_error <= merged.count(word) <= number


def test_word_counts_head_is_the_share_of_the_most_frequent() -> None:
    counts = counted(["The cat, the dog.", "THE bird and a dog"])
    assert counts.head_words(2) == ("the", "dog")
    assert counts.head_words(4) == ("the", "dog", "a", "and")
    assert counts.head(2).words == 9
    assert counts.head(2).share == pytest.approx(5 / 9)
    assert counts.head(100).share == 1


def test_word_counts_of_nothing_have_an_empty_head() -> None:
    head = WordCounts().head()
    assert (head.words, head.share, head.count_error) == (0, 0.0, 0)
    assert WordCounts().unigram().entropy("anything") == 0


def test_word_counts_without_room_are_refused() -> None:
    with pytest.raises(ValueError, match="most_words is 0"):
        WordCounts(0)


def test_unigram_entropy_is_the_mean_surprisal_of_the_words() -> None:
    unigram = counted(["a a a a b b c c"]).unigram()
    assert unigram.entropy("a") == pytest.approx(1)
    assert unigram.entropy("A, b!") == pytest.approx(1.5)
    assert unigram.entropy("a b c c") == pytest.approx((1 + 2 + 2 + 2) / 4)


def test_unigram_entropy_of_an_unseen_word_is_that_of_one_seen_once() -> None:
    unigram = counted(["a a a a b b c d"]).unigram()
    assert unigram.entropy("never") == unigram.entropy("d") == pytest.approx(3)


def test_unigram_entropy_of_a_text_without_words_is_zero() -> None:
    assert counted(["a b"]).unigram().entropy(" !\n") == 0


def test_unigram_mean_surprisal_over_all_text_is_the_entropy_of_the_distribution() -> None:
    texts = zipf_texts(50)
    counts = counted(texts)
    shares = np.array(list(Counter(w for t in texts for w in words(t)).values())) / counts.total
    whole = counts.unigram().entropy(" ".join(texts))
    assert whole == pytest.approx(-(shares * np.log2(shares)).sum())


def test_unigram_measures_words_and_head_of_a_document() -> None:
    found = counted(["a a a b b c"]).unigram(2).measured("a c b x a")
    assert (found.words, found.head) == (5, 3)
    assert found.entropy == pytest.approx((1 + math.log2(6) + math.log2(3) + math.log2(6) + 1) / 5)


@given(st.lists(st.integers(0, 6), max_size=20))
def test_ranks_are_the_share_of_documents_with_lower_entropy(values: list[int]) -> None:
    found = ranks(np.array(values, dtype=np.float32))
    expected = [
        (sum(v < own for v in values) + (sum(v == own for v in values) - 1) / 2) / len(values)
        for own in values
    ]
    assert found.dtype == np.float32
    assert found == pytest.approx(expected)


def test_weighted_head_is_the_expectation_of_drawn_documents() -> None:
    texts = zipf_texts(200)
    counts = counted(texts)
    found = [counts.unigram(50).measured(text) for text in texts]
    rank = ranks(np.array([d.entropy for d in found], dtype=np.float32))
    num_words, num_head = (np.array([getattr(d, n) for d in found]) for n in ("words", "head"))
    share = {d: weighted_head(rank, num_words, num_head, decay=d) for d in (1, 0.999, 0.95)}
    assert share[1] == pytest.approx(counts.head(50).share)
    assert share[0.95] < share[0.999] < share[1]
    drawn = random.Random(0).choices(range(200), document_weights(rank, 0.95).tolist(), k=20_000)
    realised = num_head[drawn].sum() / num_words[drawn].sum()
    assert share[0.95] == pytest.approx(realised, rel=0.01)


def test_weighted_head_of_no_words_is_zero() -> None:
    none = np.zeros(1, dtype=np.int64)
    assert weighted_head(np.zeros(1, dtype=np.float32), none, none, decay=0.9) == 0
