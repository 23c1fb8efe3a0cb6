"""The e-process against numerical integration of its definition, and its own guarantees."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from workbench.analysis.eprocess import C_SQUARED, critical_t, e_value


def integrated(values: list[float]) -> float:
    """The mixture over d > 0 of the scale-invariant likelihood ratio, by double integration."""
    x = np.array(values)

    def marginal(d: float) -> float:
        # Over s = 1/σ with the right Haar measure: ∫ s^(n-1) exp(-Σ(x s - d)²/2) ds.
        return quad(
            lambda s: s ** (len(x) - 1) * math.exp(-0.5 * float(np.sum((x * s - d) ** 2))),
            0, 200, limit=400, points=[0.5, 1, 2, 5],
        )[0]  # fmt: skip

    weight = 2 * math.sqrt(C_SQUARED / (2 * math.pi))
    over = quad(
        lambda d: weight * math.exp(-0.5 * C_SQUARED * d * d) * marginal(d), 0, 12, limit=200
    )[0]
    return over / marginal(0.0)


@pytest.mark.parametrize(
    "values", [[0.8, 1.1, -0.2, 1.7], [-0.5, 0.1, -0.9], [0.3, 0.4, 0.2, 0.5, 0.1]]
)
def test_e_value_is_the_integral_of_its_definition(values: list[float]) -> None:
    assert e_value(np.array([values]))[0] == pytest.approx(integrated(values), rel=1e-6)


def test_e_value_does_not_depend_on_the_unit() -> None:
    values = np.array([[0.8, 1.1, -0.2, 1.7]])
    assert e_value(values * 1e-6) == pytest.approx(e_value(values), rel=1e-9)


def test_e_value_without_any_difference_says_nothing() -> None:
    assert e_value(np.zeros((1, 4))).tolist() == [1.0]


def test_e_value_far_below_zero_vanishes_without_failing() -> None:
    assert e_value(-1 - 1e-12 * np.arange(400.0)[None])[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n", [3, 5, 20])
def test_critical_t_is_where_the_evidence_reaches_one_over_alpha(n: int) -> None:
    t = critical_t(n, 0.05)
    shape = np.random.default_rng(7).standard_normal(n)
    shape = (shape - shape.mean()) / shape.std(ddof=1)
    values = shape + t / math.sqrt(n)
    assert e_value(values[None])[0] == pytest.approx(20.0, rel=1e-6)


def test_critical_t_of_too_few_seeds_is_infinite() -> None:
    assert critical_t(2, 0.05) == math.inf
    assert critical_t(3, 0.05) < math.inf
    assert critical_t(3, 0.01) == math.inf


@pytest.mark.parametrize(("n", "alpha"), [(1, 0.05), (5, 0.0), (5, 0.5)])
def test_critical_t_of_no_test_is_refused(n: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="no critical value"):
        critical_t(n, alpha)


def test_evidence_under_no_effect_rarely_ever_reaches_one_over_alpha() -> None:
    """Ville's inequality, over 20 looks of 1,500 experiments."""
    values = np.random.default_rng(3).standard_normal((1500, 20))
    highest = np.max([e_value(values[:, :n]) for n in range(2, 21)], axis=0)
    assert np.mean(highest >= 20) < 0.05
    assert np.mean(highest >= 10) < 0.1
