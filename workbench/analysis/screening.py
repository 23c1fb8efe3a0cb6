"""Many candidates at once, none of them a claim: the share of false ones among those kept.

Screening chooses what is run again; it never supports a verdict.
"""

import math

from workbench.analysis.quantiles import student_tail


def improvement_p_value(
    improvement: float, control: tuple[float, int], candidate: tuple[float, int]
) -> float:
    """Return the one-sided p-value of no improvement by Welch's t (Welch 1947); NaN without a test.

    There is none where an arm has fewer than two values, nothing varies, or a number is not finite.

    Args:
        improvement: Of the candidate's mean over the control's, positive is better.
        control: Its sample standard deviation and number of values.
        candidate: The same of the candidate.
    """
    parts = [sd**2 / n if n > 1 else math.nan for sd, n in (control, candidate)]
    total = math.fsum(parts)
    if not (math.isfinite(improvement) and math.isfinite(total) and total > 0):
        return math.nan
    sizes = (control[1], candidate[1])
    shares = [part / total for part in parts]
    freedom = 1 / math.fsum(share**2 / (n - 1) for share, n in zip(shares, sizes, strict=True))
    return student_tail(freedom, improvement / math.sqrt(total))


def kept_by_false_discovery(p_values: list[float], rate: float) -> list[bool]:
    """Return which candidates the Benjamini-Hochberg step-up keeps, in the order given.

    A NaN is a candidate without a test: it is never kept and still counts in the number tried.

    Raises:
        ValueError: a p-value outside [0, 1], or a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise ValueError(f"rate {rate!r} must lie between 0 and 1")
    if any(not (math.isnan(p) or 0 <= p <= 1) for p in p_values):
        raise ValueError(f"p-values {p_values!r} must lie between 0 and 1")
    num = len(p_values)
    rising = sorted(p for p in p_values if not math.isnan(p))
    # Benjamini and Hochberg (1995), eq. 1: the largest p that is at most its rank's share.
    most = max((p for rank, p in enumerate(rising, 1) if p <= rank * rate / num), default=-1.0)
    return [p <= most for p in p_values]
