"""Quantiles in plain Python, against scipy's and against closed forms."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, betaincinv, stdtr, stdtrit

from workbench.analysis.quantiles import beta_quantile, student_quantile, student_tail

FREEDOMS = (0.5, 1, 1.0001, 2, 2.3, 3, 4, 5.7, 8, 12.3, 19.9, 20, 33, 99.5, 250, 1e3, 1e5, 1e9)
TAILS = (0.4, 0.25, 0.1, 0.05, 0.025, 0.0125, 0.005, 1e-3, 1e-4, 1e-6, 1e-10)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_student_quantile_is_that_of_scipy_to_12_digits(freedom: float) -> None:
    for tail in TAILS:
        # The lower tail, because 1 - tail has lost digits of it.
        expected = -float(stdtrit(freedom, tail))
        assert student_quantile(freedom, tail) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tail", [*TAILS, 0.499, 0.4999999])
def test_student_quantile_of_one_two_and_four_degrees_is_the_closed_form(tail: float) -> None:
    # Shaw (2006), section 2.
    assert student_quantile(1, tail) == pytest.approx(1 / math.tan(math.pi * tail), rel=1e-9)
    two = (1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail))
    assert student_quantile(2, tail) == pytest.approx(two, rel=1e-9)
    root = 2 * math.sqrt(tail * (1 - tail))
    four = 2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1)
    # The closed form itself cancels near the middle.
    assert student_quantile(4, tail) == pytest.approx(four, rel=1e-9, abs=1e-8)


@given(st.floats(0.5, 1e6), st.floats(1e-12, 0.4999))
@settings(max_examples=300, deadline=None)
def test_student_quantile_leaves_the_tail_that_was_asked_for(freedom: float, tail: float) -> None:
    left = float(stdtr(freedom, -student_quantile(freedom, tail)))
    assert left == pytest.approx(tail, rel=1e-10)


@given(st.floats(0.25, 5e3), st.floats(0.25, 5e3), st.floats(1e-6, 1 - 1e-6))
@settings(max_examples=300, deadline=None)
def test_beta_quantile_is_where_the_distribution_has_the_value(
    a: float, b: float, below: float
) -> None:
    found = beta_quantile(a, b, below)
    assert 0 <= found <= 1
    # Near 1 the value changes by more than its error from one double to the next.
    before, after = (float(betainc(a, b, math.nextafter(found, end))) for end in (0, 1))
    assert before * (1 - 1e-9) <= below <= after * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 30, 31, 100, 3000])
def test_beta_quantile_of_counts_is_that_of_scipy_to_12_digits(n: int) -> None:
    for hits in {1, n // 3 + 1, n // 2 + 1, n}:
        for below in (0.005, 0.025, 0.5, 0.975):
            expected = float(betaincinv(hits, n - hits + 1, below))
            assert beta_quantile(hits, n - hits + 1, below) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("freedom", "tail"),
    [(0.4, 0.1), (math.inf, 0.1), (math.nan, 0.1), (3, 0.0), (3, 0.5), (3, math.nan), (3, -0.1)],
)
def test_student_quantile_out_of_range_is_refused(freedom: float, tail: float) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        student_quantile(freedom, tail)


@pytest.mark.parametrize(
    ("a", "b", "below"), [(0.2, 1, 0.5), (1, 0.2, 0.5), (1, math.inf, 0.5), (1, 1, 0), (1, 1, 1)]
)
def test_beta_quantile_out_of_range_is_refused(a: float, b: float, below: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        beta_quantile(a, b, below)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_student_tail_is_that_of_scipy_to_12_digits(freedom: float) -> None:
    for t in (0.0, 1e-3, 0.3, 0.999, 1.0, 1.7, 2.9, 7.0, 25.0):
        expected = float(stdtr(freedom, -t))
        assert student_tail(freedom, t) == pytest.approx(expected, rel=1e-11, abs=1e-300)
        assert student_tail(freedom, -t) == pytest.approx(float(stdtr(freedom, t)), rel=1e-12)


@pytest.mark.parametrize("t", [1e-9, 1e-4, 0.5, 3.0, 1e4])
def test_student_tail_of_one_degree_is_the_closed_form(t: float) -> None:
    # scipy's is 0.5 for the smallest.
    assert student_tail(1, t) == pytest.approx(math.atan2(1, t) / math.pi, rel=1e-13)


def test_student_tail_goes_from_one_to_nothing() -> None:
    assert [student_tail(3, t) for t in (-math.inf, 0, math.inf)] == [1.0, 0.5, 0.0]
    assert student_tail(3, 1e200) == 0.0


@given(st.floats(0.5, 1e6), st.floats(1e-12, 0.4999))
@settings(max_examples=300, deadline=None)
def test_student_tail_and_quantile_undo_each_other(freedom: float, tail: float) -> None:
    assert student_tail(freedom, student_quantile(freedom, tail)) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize(
    ("freedom", "t"), [(0.4, 1.0), (math.inf, 1.0), (math.nan, 1.0), (3, math.nan)]
)
def test_tail_of_what_is_no_t_is_refused(freedom: float, t: float) -> None:
    with pytest.raises(ValueError, match="no tail of t"):
        student_tail(freedom, t)
