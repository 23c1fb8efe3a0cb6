"""The noise that a plan can stand, against simulation."""

import numpy as np
import pytest

from workbench.analysis.claims import ClaimKind, judge
from workbench.analysis.power import outcome_chances, seeds_needed, spread_bounds


@pytest.mark.parametrize(
    ("kind", "margin", "true", "sd", "n"),
    [
        ("superior", 0.02, 0.02, 0.012, 3),
        ("superior", 0.02, 0.0, 0.004, 3),
        ("superior", 0.02, 0.01, 0.002, 5),
        ("superior_by", 0.02, 0.05, 0.02, 2),
        ("non_inferior", 0.02, 0.0, 0.01, 4),
        ("equivalent", 0.02, 0.0, 0.01, 4),
        ("equivalent", 0.02, 0.03, 0.005, 8),
    ],
)
def test_outcome_chances_are_those_of_simulated_verdicts(
    kind: ClaimKind, margin: float, true: float, sd: float, n: int
) -> None:
    chances = outcome_chances(kind, margin, true=true, sd=sd, n=n, alpha=0.05)
    generator = np.random.default_rng(11)
    counts = dict.fromkeys(chances, 0)
    draws = 2000
    for _ in range(draws):
        rule = judge(
            generator.normal(2.0, sd, n).tolist(),
            generator.normal(2.0 - true, sd, n).tolist(),
            direction="minimize",
            claim_kind=kind,
            margin=margin,
            alpha=0.05,
        )
        counts[rule.outcome] += 1
    assert sum(chances.values()) == pytest.approx(1.0)
    for outcome, chance in chances.items():
        # Three standard errors of the draws, and the sum's own error.
        allowed = 3 * (chance * (1 - chance) / draws) ** 0.5 + 0.003
        assert counts[outcome] / draws == pytest.approx(chance, abs=allowed), outcome


def test_seeds_needed_is_the_first_count_with_the_power() -> None:
    plan = {"true": 0.02, "sd": 0.02, "alpha": 0.05}
    n = seeds_needed("superior", 0.02, power=0.8, **plan)
    assert n is not None
    powers = [outcome_chances("superior", 0.02, n=k, **plan)["supported"] for k in (n - 1, n)]
    assert powers[0] < 0.8 <= powers[1]
    assert seeds_needed("superior", 0.02, power=0.8, true=0.02, sd=0.5, alpha=0.05) is None


def test_outcome_chances_impossible_plan_is_refused() -> None:
    for wrong in ({"sd": 0.0}, {"n": 1}, {"alpha": 0.6}):
        with pytest.raises(ValueError, match="no chances for"):
            outcome_chances(
                "superior", 0.0, **({"true": 1.0, "sd": 1.0, "n": 3, "alpha": 0.05} | wrong)
            )
    with pytest.raises(ValueError, match="is not one of"):
        outcome_chances("better", 0.0, true=1.0, sd=1.0, n=3, alpha=0.05)  # type: ignore[arg-type]


def test_spread_bounds_hold_the_true_spread_as_often_as_promised() -> None:
    generator = np.random.default_rng(3)
    found = [
        spread_bounds(float(np.std(generator.normal(0, 2, 5), ddof=1)), 4) for _ in range(2000)
    ]
    share = sum(low <= 2 <= high for low, high in found) / 2000
    assert share == pytest.approx(0.9, abs=0.021)
    with pytest.raises(ValueError, match="no interval"):
        spread_bounds(1.0, 0)
