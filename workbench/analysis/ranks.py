"""Whether proxies put candidates in the order that full scale does, as far as noise lets one see.

No proxy can agree with full-scale values better than those agree with the truth behind them. The
noise ceiling is what a proxy without any error would reach, by simulation: the candidates' true
values are taken to be the observed ones, drawn together so that truth plus noise has the spread
that was observed, and noise is put on them again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from workbench.analysis.claims import Direction, improvement
from workbench.analysis.intervals import Array

FEWEST_CANDIDATES = 10
_NUM_CEILINGS = 2000
_LEAST_QUANTILE = 0.05
_ALPHA = 0.05
_MOST_PAIRS = 4_000_000
"""Pairs held in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well one order of candidates follows another."""

    tau: float
    """Tau-b; NaN where all values of one side are equal."""
    pairwise_accuracy: float
    """Share of the pairs that differ at full scale which the proxy orders alike; its ties count
    half."""
    regret: float
    """What following the proxy's best costs at full scale, in the metric's unit; never negative."""


@dataclass(frozen=True, kw_only=True)
class RankAgreement:
    """The agreement of proxies with full scale, beside what noise allows."""

    m: int
    """Candidates with a finite value at both scales."""
    left_out: tuple[str, ...]
    """Candidates without one; they are in no order and never the best."""
    found: Agreement
    p_value: float
    """Of no positive association (Kendall's test, one-sided)."""
    ceiling: Agreement
    """Mean of what a proxy without error would reach."""
    ceiling_tau_low: float
    """Lower 5 % quantile of its tau."""
    conclusion: str
    """``no conclusion, m<10`` where there are too few candidates for one."""


def rank_agreement(
    proxy: Mapping[str, float],
    full: Mapping[str, float],
    *,
    direction: Direction,
    standard_error: float,
    generator: np.random.Generator,
) -> RankAgreement:
    """Return how well proxies order the candidates that full scale measured as well.

    Args:
        proxy: Value by candidate at proxy scale.
        full: Value by candidate at full scale.
        direction: Which way is better, at both.
        standard_error: Of one full-scale value: the seeds' spread over √seeds.
        generator: For the ceiling.

    Raises:
        ValueError: fewer than two candidates with both values, or a standard error that is not
            finite and positive.
    """
    if not (math.isfinite(standard_error) and standard_error > 0):
        raise ValueError(f"standard error {standard_error!r} must be finite and positive")
    names = sorted(proxy.keys() | full.keys())
    both = [n for n in names if _finite(proxy.get(n)) and _finite(full.get(n))]
    if len(both) < 2:
        raise ValueError(f"an order takes 2 candidates with finite values, got {len(both)}")
    # Larger is better from here on.
    ours = np.array([improvement(0.0, proxy[name], direction) for name in both])
    theirs = np.array([improvement(0.0, full[name], direction) for name in both])
    ceilings, taus = _ceilings(theirs, standard_error, generator)
    found = agreement(ours, theirs)
    p_value = float(kendalltau(ours, theirs, alternative="greater").pvalue)
    low = float(np.quantile(taus, _LEAST_QUANTILE)) if len(taus) else math.nan
    return RankAgreement(
        m=len(both),
        left_out=tuple(name for name in names if name not in both),
        found=found,
        p_value=p_value,
        ceiling=ceilings,
        ceiling_tau_low=low,
        conclusion=_conclusion(len(both), found.tau, p_value, low),
    )


def agreement(ours: Array, theirs: Array) -> Agreement:
    """Return how well our order follows theirs; larger values are better in both."""
    taus, accuracies, regrets = _agreements(ours[None], theirs[None])
    return Agreement(
        tau=float(taus[0]), pairwise_accuracy=float(accuracies[0]), regret=float(regrets[0])
    )


def _agreements(ours: Array, theirs: Array) -> tuple[Array, Array, Array]:
    """Return tau-b (Kendall 1945), pairwise accuracy and regret of each row."""
    rows, columns = np.triu_indices(ours.shape[1], k=1)
    our_signs = np.sign(ours[:, rows] - ours[:, columns])
    their_signs = np.sign(theirs[:, rows] - theirs[:, columns])
    alike = np.sum(our_signs * their_signs, axis=1)
    our_pairs, their_pairs = (np.sum(signs != 0, axis=1) for signs in (our_signs, their_signs))
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = alike / np.sqrt(our_pairs * their_pairs)
        accuracy = (alike / their_pairs + 1) / 2
    # Of tied best proxies any may be followed: their mean.
    best = ours == ours.max(axis=1, keepdims=True)
    followed = np.sum(theirs * best, axis=1) / np.sum(best, axis=1)
    return tau, accuracy, theirs.max(axis=1) - followed


def _ceilings(
    theirs: Array, standard_error: float, generator: np.random.Generator
) -> tuple[Agreement, Array]:
    observed = float(np.var(theirs, ddof=1))
    share = max(0.0, 1 - standard_error**2 / observed) if observed > 0 else 0.0
    if share == 0:
        nothing = Agreement(tau=math.nan, pairwise_accuracy=math.nan, regret=math.nan)
        return nothing, np.array([])
    truth = theirs.mean() + math.sqrt(share) * (theirs - theirs.mean())
    noise = generator.standard_normal((_NUM_CEILINGS, len(truth))) * standard_error
    step = max(1, _MOST_PAIRS // len(truth) ** 2)
    parts = [
        _agreements(np.broadcast_to(truth, rows.shape), truth + rows)
        for rows in (noise[i : i + step] for i in range(0, _NUM_CEILINGS, step))
    ]
    taus, accuracies, regrets = (np.concatenate(column) for column in zip(*parts, strict=True))
    ceiling = Agreement(
        tau=float(taus.mean()),
        pairwise_accuracy=float(accuracies.mean()),
        regret=float(regrets.mean()),
    )
    return ceiling, taus


def _conclusion(m: int, tau: float, p_value: float, low: float) -> str:
    if m < FEWEST_CANDIDATES:
        return f"no conclusion, m<{FEWEST_CANDIDATES}"
    if math.isnan(low):
        return "full-scale differences are within their noise: there is no order to agree with"
    # A NaN tau (all proxies equal) is no agreement.
    if not (tau >= low or p_value <= _ALPHA):
        return "no agreement shown"
    if tau >= low:
        return "agrees as well as the noise of full scale lets any proxy agree"
    return "agrees, but less than the noise of full scale would let a perfect proxy"


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
