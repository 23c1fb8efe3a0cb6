"""Ranks of real proxies: the 1M models of a public table against its 60M models.

256 mixtures of data were trained at both scales. Each number is recomputed here in the plainest
way there is, and by scipy.
"""

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from workbench.analysis.ranks import RankAgreement, agreement, rank_agreement

Table = dict[str, dict[str, float]]
STANDARD_ERROR = 0.005
"""Assumed: the table repeats no mixture, so its seed noise is not known."""

MIXTURES = [str(index) for index in range(1, 129)]
"""Half of them, where a noise ceiling is simulated, which takes time with the square."""


def table(file: Path) -> Table:
    """Return the losses by domain and then by mixture."""
    with file.open(encoding="utf-8", newline="") as rows:
        found = list(csv.DictReader(rows))
    columns = [name for name in found[0] if name.startswith("metric/")]
    return {name: {row["index"]: float(row[name]) for row in found} for name in columns}


@pytest.fixture(scope="module")
def losses(shared_data: Path) -> tuple[Table, Table]:
    folder = shared_data / "regmix"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: the public table is not in the repository")
    mixtures = [(folder / f"test_mixture_{size}.csv").read_bytes() for size in ("1m", "60m")]
    assert mixtures[0] == mixtures[1], "rows of the two sizes are not the same mixtures"
    return tuple(table(folder / f"test_pile_loss_{size}.csv") for size in ("1m", "60m"))


def ranked(proxy: dict[str, float], full: dict[str, float]) -> RankAgreement:
    return rank_agreement(
        proxy,
        full,
        direction="minimize",
        standard_error=STANDARD_ERROR,
        generator=np.random.default_rng(3),
    )


def plain(proxy: dict[str, float], full: dict[str, float]) -> tuple[float, float, float]:
    """Return tau-b, pairwise accuracy and regret by going through every pair."""
    alike = against = proxy_ties = full_ties = 0
    for one, other in combinations(full, 2):
        ours, theirs = proxy[one] - proxy[other], full[one] - full[other]
        alike += ours * theirs > 0
        against += ours * theirs < 0
        proxy_ties += ours == 0
        full_ties += theirs == 0
    pairs = len(full) * (len(full) - 1) // 2
    tau = (alike - against) / ((pairs - proxy_ties) * (pairs - full_ties)) ** 0.5
    undecided = pairs - full_ties - alike - against
    accuracy = (alike + undecided / 2) / (pairs - full_ties)
    lowest = min(proxy.values())
    followed = [full[name] for name in proxy if proxy[name] == lowest]
    return tau, accuracy, sum(followed) / len(followed) - min(full.values())


def test_table_is_the_one_that_is_described(losses: tuple[Table, Table]) -> None:
    for found in losses:
        assert len(found) == 13
        assert {len(column) for column in found.values()} == {256}


@pytest.mark.parametrize("number", range(13))
def test_agreement_on_a_domain_is_what_every_pair_says(
    losses: tuple[Table, Table], number: int
) -> None:
    domain = list(losses[0])[number]
    proxy, full = (found[domain] for found in losses)
    ours, theirs = (-np.array([values[name] for name in full]) for values in (proxy, full))
    found = agreement(ours, theirs)
    tau, accuracy, regret = plain(proxy, full)
    assert found.tau == pytest.approx(tau, rel=1e-12)
    assert found.tau == pytest.approx(kendalltau(ours, theirs).statistic, rel=1e-12)
    assert found.pairwise_accuracy == pytest.approx(accuracy, rel=1e-12)
    assert found.regret == pytest.approx(regret, rel=1e-12, abs=1e-12)


def test_proxies_of_the_table_agree_with_full_scale_but_below_the_ceiling(
    losses: tuple[Table, Table],
) -> None:
    proxy, full = (
        {name: sum(column[name] for column in found.values()) / 13 for name in MIXTURES}
        for found in losses
    )
    found = ranked(proxy, full)
    tau, accuracy, regret = plain(proxy, full)
    assert found.m == len(MIXTURES)
    assert found.found.tau == pytest.approx(tau, rel=1e-12)
    assert found.found.pairwise_accuracy == pytest.approx(accuracy, rel=1e-12)
    assert found.found.regret == pytest.approx(regret, rel=1e-12, abs=1e-12)
    lists = ([values[name] for name in full] for values in (proxy, full))
    expected = kendalltau(*lists, alternative="greater")
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.found.tau > 0.6
    assert found.found.tau < found.ceiling_tau_low
    assert found.ceiling.pairwise_accuracy > found.found.pairwise_accuracy
    assert found.conclusion == (
        "agrees, but less than the noise of full scale would let a perfect proxy"
    )


def test_shuffled_proxies_show_no_agreement(losses: tuple[Table, Table]) -> None:
    domain = next(iter(losses[0]))
    proxy, full = ({name: found[domain][name] for name in MIXTURES} for found in losses)
    values = np.random.default_rng(5).permutation(list(proxy.values()))
    shuffled = dict(zip(proxy, map(float, values), strict=True))
    assert ranked(shuffled, full).conclusion == "no agreement shown"


def test_nine_mixtures_of_the_table_conclude_nothing(losses: tuple[Table, Table]) -> None:
    domain = next(iter(losses[0]))
    proxy, full = ({name: found[domain][name] for name in list(found[domain])[:9]}
                   for found in losses)  # fmt: skip
    assert ranked(proxy, full).conclusion == "no conclusion, m<10"
