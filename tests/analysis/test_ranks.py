"""Rank agreement against scipy and pair counting, under its noise ceiling."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from workbench.analysis.ranks import RankAgreement, agreement, rank_agreement


def agreed(
    proxy: dict[str, float], full: dict[str, float], standard_error: float = 0.01
) -> RankAgreement:
    return rank_agreement(
        proxy, full, direction="minimize", standard_error=standard_error,
        generator=np.random.default_rng(0),
    )  # fmt: skip


def named(values: np.ndarray) -> dict[str, float]:
    return {f"c{i:02d}": float(value) for i, value in enumerate(values)}


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_scipys_tau_and_the_counted_pairs(seed: int) -> None:
    generator = np.random.default_rng(seed)
    ours, theirs = (np.round(generator.standard_normal(9), 1 - seed % 2) for _ in range(2))
    found = agreement(ours, theirs)
    assert found.tau == pytest.approx(kendalltau(ours, theirs).statistic)
    pairs = [(i, j) for i, j in combinations(range(9), 2) if theirs[i] != theirs[j]]
    points = [
        0.5 if ours[i] == ours[j] else float((ours[i] > ours[j]) == (theirs[i] > theirs[j]))
        for i, j in pairs
    ]
    assert found.pairwise_accuracy == pytest.approx(sum(points) / len(pairs))
    best = [theirs[i] for i in range(9) if ours[i] == ours.max()]
    assert found.regret == pytest.approx(theirs.max() - sum(best) / len(best))


def test_regret_is_what_the_proxys_best_costs_in_the_metrics_unit() -> None:
    found = agreed({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 3.30, "b": 3.25, "c": 3.40})
    assert found.found.regret == pytest.approx(0.05)
    assert found.found.pairwise_accuracy == pytest.approx(2 / 3)


def test_few_candidates_give_no_conclusion() -> None:
    values = named(np.arange(9.0))
    assert agreed(values, values).conclusion == "no conclusion, m<10"
    assert agreed(values, values).found.tau == pytest.approx(1.0)


def test_proxy_that_agrees_as_well_as_noise_allows() -> None:
    generator = np.random.default_rng(4)
    truth = generator.standard_normal(20)
    full = named(truth + 0.3 * generator.standard_normal(20))
    found = agreed(named(truth), full, 0.3)
    assert found.conclusion.startswith("agrees as well as the noise")
    assert 0.6 < found.ceiling.tau < 0.95
    assert found.ceiling_tau_low < found.ceiling.tau
    assert found.ceiling.regret > 0
    assert 0.8 < found.ceiling.pairwise_accuracy < 1


def test_proxy_that_agrees_less_than_it_could() -> None:
    generator = np.random.default_rng(5)
    truth = generator.standard_normal(30)
    proxy = named(truth + 1.2 * generator.standard_normal(30))
    found = agreed(proxy, named(truth))
    assert found.conclusion.startswith("agrees, but less")
    assert found.p_value < 0.05


def test_proxy_without_agreement() -> None:
    generator = np.random.default_rng(6)
    proxy, full = (named(generator.standard_normal(15)) for _ in range(2))
    assert agreed(proxy, full).conclusion == "no agreement shown"


def test_proxies_that_are_all_equal_agree_with_nothing() -> None:
    found = agreed(named(np.zeros(12)), named(np.arange(12.0)))
    assert math.isnan(found.found.tau)
    assert found.found.pairwise_accuracy == 0.5
    assert found.found.regret == pytest.approx(5.5)
    assert found.conclusion == "no agreement shown"


@pytest.mark.parametrize("full", [np.zeros(12), 0.01 * np.arange(12.0)])
def test_full_scale_within_its_noise_has_no_order(full: np.ndarray) -> None:
    found = agreed(named(np.arange(12.0)), named(full), 1.0)
    assert found.conclusion.startswith("full-scale differences are within their noise")
    assert math.isnan(found.ceiling.tau)


def test_candidates_without_a_value_are_left_out_and_named() -> None:
    """Cases C: a NaN is in no order and never the best."""
    full = {"a": 1.0, "b": 2.0, "c": math.nan, "d": 4.0, "e": 0.5}
    found = agreed({"a": 1.0, "b": 2.0, "c": -9.0, "d": math.inf}, full)
    assert (found.m, found.left_out) == (2, ("c", "d", "e"))
    assert found.found.regret == 0.0


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(ValueError, match="2 candidates with finite values, got 1"):
        agreed({"a": 1.0, "b": math.nan}, {"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="standard error 0"):
        agreed({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}, 0.0)


def test_agreement_repeats_exactly() -> None:
    values = named(np.random.default_rng(9).standard_normal(12))
    assert agreed(values, values, 0.5) == agreed(values, values, 0.5)
