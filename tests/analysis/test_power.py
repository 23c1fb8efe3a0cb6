"""The noise that a plan can stand, against simulation."""

import numpy as np
import pytest

from workbench.analysis.claims import judge
from workbench.analysis.power import largest_sd


@pytest.mark.parametrize("n", [2, 3, 8])
def test_largest_sd_simulated_superiority_has_the_wanted_power(n: int) -> None:
    sd = largest_sd(0.01, n=n, alpha=0.05, power=0.8)
    generator = np.random.default_rng(7)
    shown = 0
    for _ in range(2000):
        control = generator.normal(2.0, sd, n)
        treatment = generator.normal(1.99, sd, n)
        rule = judge(
            control.tolist(),
            treatment.tolist(),
            direction="minimize",
            claim_kind="superior_by",
            margin=0.0,
            alpha=0.05,
        )
        shown += rule.outcome == "supported"
    # Three standard errors of 2,000 draws.
    assert shown / 2000 == pytest.approx(0.8, abs=0.027)


def test_largest_sd_equivalence_is_stricter_than_one_side() -> None:
    one = largest_sd(0.01, n=5, alpha=0.05, power=0.8)
    both = largest_sd(0.01, n=5, alpha=0.05, power=0.8, sides=2)
    assert 0 < both < one


def test_largest_sd_large_n_approaches_the_normal_formula() -> None:
    # z(0.95) + z(0.8) = 1.645 + 0.842
    sd = largest_sd(1.0, n=5000, alpha=0.05, power=0.8)
    assert sd == pytest.approx(1.0 / ((1.6449 + 0.8416) * (2 / 5000) ** 0.5), rel=1e-3)


@pytest.mark.parametrize(
    "wrong", [{"distance": 0.0}, {"n": 1}, {"alpha": 0.0}, {"power": 1.0}, {"sides": 3}]
)
def test_largest_sd_impossible_plan_is_refused(wrong: dict[str, float]) -> None:
    plan = {"distance": 0.01, "n": 3, "alpha": 0.05, "power": 0.8} | wrong
    with pytest.raises(ValueError, match="no power for"):
        largest_sd(plan.pop("distance"), **plan)  # type: ignore[arg-type]
