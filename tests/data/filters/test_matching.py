import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data.filters.matching import area_under_curve, distance, matching

COUNTS = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=2, max_size=12)


def counts(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


@given(COUNTS)
def test_matching_what_is_kept_has_the_shares_of_the_reference(
    pairs: list[tuple[int, int]],
) -> None:
    reference, corpus = (np.array(one, dtype=np.int64) for one in zip(*pairs, strict=True))
    found = matching(reference, corpus)
    kept = corpus * found.acceptance
    if found.p_equal < 0.01:
        assert kept / kept.sum() == pytest.approx(reference / reference.sum())
    assert found.acceptance.max() == 1
    assert found.acceptance.min() > 0
    assert found.unmatched == ()


def test_matching_equal_distributions_lose_nothing() -> None:
    assert matching(counts(10, 20, 30), counts(100, 200, 300)).acceptance.tolist() == [1, 1, 1]
    by_chance = matching(counts(100, 100, 100), counts(110, 95, 95))
    assert by_chance.acceptance.tolist() == [1, 1, 1]
    assert by_chance.p_equal > 0.4


def test_matching_what_the_corpus_lacks_is_unmatched() -> None:
    found = matching(counts(50, 50, 100), counts(300, 0, 100))
    assert found.unmatched == (1,)
    assert found.acceptance == pytest.approx([1 / 6, 0, 1])


def test_matching_no_bin_in_common_keeps_nothing() -> None:
    found = matching(counts(0, 100), counts(100, 0))
    assert found.acceptance.tolist() == [0, 0]
    assert found.unmatched == (1,)


def test_matching_one_bin_has_nothing_to_match() -> None:
    assert matching(counts(0, 100), counts(0, 7)).acceptance.tolist() == [0, 1]


def test_distance_is_zero_for_equal_and_one_for_disjoint_shares() -> None:
    assert distance(counts(1, 3), counts(10, 30)) == 0
    assert distance(counts(1, 0), counts(0, 5)) == 1
    assert distance(counts(1, 1), counts(3, 1)) == 0.25


@given(st.lists(st.integers(0, 9), max_size=15), st.lists(st.integers(0, 9), max_size=15))
def test_area_under_curve_is_the_share_of_pairs_in_order(a: list[int], b: list[int]) -> None:
    pairs = [(x > y) + (x == y) / 2 for x in a for y in b]
    expected = sum(pairs) / len(pairs) if pairs else 0.5
    assert area_under_curve(np.array(a), np.array(b)) == pytest.approx(expected)
