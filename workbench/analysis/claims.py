"""Claims about two arms and the rule that decides them from repeated measurements."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.analysis.quantiles import student_quantile

Direction: TypeAlias = Literal["minimize", "maximize"]
ClaimKind: TypeAlias = Literal["superior", "superior_by", "non_inferior", "equivalent"]
IntervalKind: TypeAlias = Literal["welch_t", "paired_t", "calibrated_t", "perm_exact"]
Outcome: TypeAlias = Literal["supported", "refuted", "inconclusive", "void"]

CLAIM_KINDS: tuple[ClaimKind, ...] = ("superior", "superior_by", "non_inferior", "equivalent")
LARGEST = 1e150
"""Size of a value whose square still fits a double."""
ROUNDING = 8 * sys.float_info.epsilon
"""Values that differ by less than this share of the largest one's size are equal but for rounding.

Differences of pairs are measured by the size of the values that were subtracted.
"""


@dataclass(frozen=True, kw_only=True)
class WelchInterval:
    """An improvement with two one-sided bounds, each at its own full confidence 1-α."""

    estimate: float
    lower: float
    upper: float
    standard_error: float
    degrees_of_freedom: float
    """Welch-Satterthwaite, not rounded."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a claim's rule says, always with estimate, interval and n."""

    outcome: Outcome
    estimate: float | None
    """Improvement of treatment over control, positive is better; none without finite values."""
    lower: float | None
    upper: float | None
    degrees_of_freedom: float | None
    n_control: int
    n_treatment: int
    reason: str = ""
    """Why the outcome is ``void``; empty otherwise."""
    interval: IntervalKind = "welch_t"
    """What the bounds are: Welch's also where the guard of a calibrated rule fell back on them."""
    alpha: float | None = None
    """One-sided error of each bound: a look's or a family's share of the registered α."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an interval shows of a claim; both can hold of ``superior`` with a small effect."""

    refuted: bool
    supported: bool


def improvement(control: float, treatment: float, direction: Direction) -> float:
    """Return how much better the treatment's value is than the control's; positive is better.

    Raises:
        ValueError: the direction is unknown.
    """
    if direction == "minimize":
        return control - treatment
    if direction == "maximize":
        return treatment - control
    raise ValueError(f"direction {direction!r} is neither 'minimize' nor 'maximize'")


def judge(
    control: Sequence[float],
    treatment: Sequence[float],
    *,
    direction: Direction,
    claim_kind: ClaimKind,
    margin: float,
    alpha: float,
) -> Judgement:
    """Return what the claim's rule says of one value a seed in each arm.

    The bounds are Welch's t, two one-sided bounds at 1-α each. A non-finite value, fewer than two
    seeds in an arm, or no variation at all makes the result ``void``: nothing is left out silently
    and nothing is read as 0. Values to be excluded by a registered rule are left out by the caller.

    Raises:
        ValueError: the direction, claim, margin or α is not one that a rule can have.
    """
    check_rule(claim_kind, margin, alpha)
    reason = void_reason(control, treatment)
    if reason:
        return void_judgement(control, treatment, direction, alpha=alpha, reason=reason)
    interval = welch_interval(control, treatment, direction=direction, alpha=alpha)
    return Judgement(
        outcome=outcome_of(claim_kind, margin, interval.lower, interval.upper),
        estimate=interval.estimate,
        lower=interval.lower,
        upper=interval.upper,
        degrees_of_freedom=interval.degrees_of_freedom,
        n_control=len(control),
        n_treatment=len(treatment),
        alpha=alpha,
    )


def void_judgement(
    control: Sequence[float],
    treatment: Sequence[float],
    direction: Direction,
    *,
    alpha: float,
    reason: str,
    interval: IntervalKind = "welch_t",
) -> Judgement:
    """Return the judgement of values that cannot be judged, with what is known."""
    return Judgement(
        outcome="void",
        estimate=known_estimate(control, treatment, direction),
        lower=None,
        upper=None,
        degrees_of_freedom=None,
        n_control=len(control),
        n_treatment=len(treatment),
        reason=reason,
        interval=interval,
        alpha=alpha,
    )


def outcome_of(claim_kind: ClaimKind, margin: float, lower: float, upper: float) -> Outcome:
    """Return the outcome of a claim from the improvement's two bounds (design.md, section 5).

    ``superior(δ)`` is refuted when even the upper bound is below δ, which takes precedence over a
    lower bound above 0: a real effect too small to matter does not support it.

    Raises:
        ValueError: the claim kind is unknown.
    """
    shown = evidence_of(claim_kind, margin, lower, upper)
    if shown.refuted:
        return "refuted"
    return "supported" if shown.supported else "inconclusive"


def evidence_of(claim_kind: ClaimKind, margin: float, lower: float, upper: float) -> Evidence:
    """Return what the two bounds show, each on its own, before one takes precedence.

    Raises:
        ValueError: the claim kind is unknown.
    """
    if claim_kind == "superior":
        return Evidence(refuted=upper < margin, supported=lower > 0)
    if claim_kind == "superior_by":
        return Evidence(refuted=upper < margin, supported=lower > margin)
    if claim_kind == "non_inferior":
        return Evidence(refuted=upper < -margin, supported=lower > -margin)
    if claim_kind == "equivalent":
        beyond = lower > margin or upper < -margin
        return Evidence(refuted=beyond, supported=lower > -margin and upper < margin)
    raise ValueError(f"claim {claim_kind!r} is not one of {list(CLAIM_KINDS)}")


def welch_interval(
    control: Sequence[float], treatment: Sequence[float], *, direction: Direction, alpha: float
) -> WelchInterval:
    """Return Welch's t bounds of the improvement (Welch 1947, eq. 28 for the degrees of freedom).

    Raises:
        ValueError: fewer than two values in an arm, or no variation in either.
    """
    if min(len(control), len(treatment)) < 2:
        raise ValueError(f"Welch's t needs 2 values an arm, got {len(control)}, {len(treatment)}")
    parts = [sample_variance(arm) / len(arm) for arm in (control, treatment)]
    total = math.fsum(parts)
    if total == 0:
        raise ValueError("no variation in either arm, so no interval")
    # As shares of the total, so that squaring tiny variances cannot underflow.
    shares = [part / total for part in parts]
    freedom = 1 / math.fsum(
        share**2 / (len(arm) - 1) for share, arm in zip(shares, (control, treatment), strict=True)
    )
    estimate = improvement(mean(control), mean(treatment), direction)
    reach = student_quantile(freedom, alpha) * math.sqrt(total)
    return WelchInterval(
        estimate=estimate,
        lower=estimate - reach,
        upper=estimate + reach,
        standard_error=math.sqrt(total),
        degrees_of_freedom=freedom,
    )


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, correctly rounded before the division.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("the mean of no values is undefined")
    return math.fsum(values) / len(values)


def sample_variance(values: Sequence[float]) -> float:
    """Return the unbiased variance; exactly 0 when all values are equal but for rounding.

    Raises:
        ValueError: fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"the variance of {len(values)} value is undefined")
    least, most = min(values), max(values)
    if most - least <= ROUNDING * max(abs(least), abs(most)):
        return 0.0  # the rounded mean may differ from the common value
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def check_rule(claim_kind: ClaimKind, margin: float, alpha: float) -> None:
    """Refuse what no rule can have.

    Raises:
        ValueError: the claim is unknown, the margin negative or α outside (0, 0.5).
    """
    if claim_kind not in CLAIM_KINDS:
        raise ValueError(f"claim {claim_kind!r} is not one of {list(CLAIM_KINDS)}")
    if not (math.isfinite(margin) and margin >= 0):
        raise ValueError(f"margin {margin!r} must be finite and not negative")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha {alpha!r} must lie between 0 and 0.5")


def void_reason(control: Sequence[float], treatment: Sequence[float]) -> str:
    """Return why these values cannot be judged by any rule; empty when they can."""
    for name, arm in (("control", control), ("treatment", treatment)):
        bad = [value for value in arm if not math.isfinite(value)]
        if bad:
            return f"{len(bad)} of {len(arm)} {name} values are not finite"
        if any(abs(value) > LARGEST for value in arm):
            return f"{name} has a value beyond {LARGEST:g}: its variance exceeds a double"
        if len(arm) < 2:
            return f"{name} has {len(arm)} value(s); an interval needs at least 2"
    if sample_variance(control) == 0 == sample_variance(treatment):
        return "no variation in either arm: the seeds changed nothing, so no interval exists"
    return ""


def known_estimate(
    control: Sequence[float], treatment: Sequence[float], direction: Direction
) -> float | None:
    """Return the improvement of the means; none without values or where it is not finite.

    Raises:
        ValueError: the direction is unknown.
    """
    # The direction is checked even when no estimate exists.
    improvement(0.0, 0.0, direction)
    if not control or not treatment:
        return None
    try:
        found = improvement(mean(control), mean(treatment), direction)
    except (OverflowError, ValueError):  # a sum beyond a double, or of opposite infinities
        return None
    return found if math.isfinite(found) else None
