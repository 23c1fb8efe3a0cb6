"""Student's t and the beta distribution, in plain Python.

Verification and chronicles need a few numbers of these, and importing scipy for them took half of
the time (docs/decisions/0012). Tests compare them with scipy's to 12 digits.
"""

import math

_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
"""Of ln Γ beyond Stirling's formula, in odd powers of 1/x (DLMF 5.11.1)."""
_LARGE = 10.0
"""From here on `_STIRLING` is exact to 15 digits."""
_TINY = 1e-300


def student_quantile(freedom: float, tail: float) -> float:
    """Return what Student's t exceeds with this probability, to 12 digits.

    Args:
        freedom: degrees of freedom, at least 0.5; need not be whole.
        tail: probability above, between 0 and 0.5, both excluded.

    Raises:
        ValueError: a number is out of range.
    """
    if not (math.isfinite(freedom) and freedom >= 0.5 and 0 < tail < 0.5):
        raise ValueError(f"no t quantile of {freedom!r} degrees of freedom and tail {tail!r}")
    # t²/(ν + t²) has the beta distribution (1/2, ν/2) (DLMF 8.17, Johnson et al. 1995, eq. 28.4).
    share, rest = _split(0.5, freedom / 2, 1 - 2 * tail, 2 * tail)
    return math.sqrt(freedom * share / rest)


def student_tail(freedom: float, t: float) -> float:
    """Return the probability with which Student's t exceeds a value, to 12 digits.

    Args:
        freedom: degrees of freedom, at least 0.5; need not be whole.
        t: the value, not NaN.

    Raises:
        ValueError: a number is out of range.
    """
    if not (math.isfinite(freedom) and freedom >= 0.5) or math.isnan(t):
        raise ValueError(f"no tail of t with {freedom!r} degrees of freedom beyond {t!r}")
    # ν/(ν + t²) has the beta distribution (ν/2, 1/2) (DLMF 8.17, Johnson et al. 1995, eq. 28.4).
    share = freedom / (freedom + t * t)
    if share == 0 or t == 0:
        beyond = 0.0 if t else 0.5
    elif t * t < freedom:
        # 1 - share would lose the digits of a small t.
        beyond = _shares(t * t / (freedom + t * t), 0.5, freedom / 2)[1] / 2
    else:
        beyond = _shares(share, freedom / 2, 0.5)[0] / 2
    return beyond if t >= 0 else 1 - beyond


def beta_quantile(a: float, b: float, below: float) -> float:
    """Return the x at which the regularised incomplete beta function I_x(a, b) has this value.

    Args:
        a: first parameter, at least 0.25.
        b: second parameter, at least 0.25.
        below: the value, between 0 and 1, both excluded.

    Raises:
        ValueError: a number is out of range.
    """
    if not (math.isfinite(a + b) and min(a, b) >= 0.25 and 0 < below < 1):
        raise ValueError(f"no quantile {below!r} of a beta distribution ({a!r}, {b!r})")
    return _split(a, b, below, 1 - below)[0]


def _split(a: float, b: float, below: float, above: float) -> tuple[float, float]:
    """Return the quantile and what it lacks to 1, the smaller of them to full precision."""
    lower, _ = _shares(0.5, a, b)
    if below <= lower:
        x = _root(a, b, below, above)
        return x, 1 - x
    x = _root(b, a, above, below)
    return 1 - x, x


def _root(a: float, b: float, below: float, above: float) -> float:
    """Return the quantile, which is at most 0.5, by Newton's method on logarithms in a bracket."""
    log_beta = _log_beta(a, b)
    low, high = math.log(_TINY), math.log(0.5)
    # I_x is at most x^a / (a B(a, b)) for b of 1 and more.
    at = min(high, max(low, (math.log(below * a) + log_beta) / a))
    while True:
        x = math.exp(at)
        lower, upper = _shares(x, a, b)
        # On the side that is the smaller one, because the other has fewer digits of it.
        side, error = lower, math.log(max(lower, _TINY) / below)
        if above < below:
            side, error = upper, math.log(above / max(upper, _TINY))
        low, high = (at, high) if error < 0 else (low, at)
        slope = math.exp(a * at + (b - 1) * math.log1p(-x) - log_beta) / max(side, _TINY)
        step = -error / slope if slope else math.inf
        if min(abs(step), high - low) <= 4 * math.ulp(at):
            return math.exp(at)
        # Strictly inside, so that the bracket shrinks with every turn.
        at = at + step if low < at + step < high else (low + high) / 2


def _shares(x: float, a: float, b: float) -> tuple[float, float]:
    """Return I_x(a, b) and 1 - I_x(a, b), the one on x's side of the mean to full precision."""
    y = 1 - x
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x <= (a + 1) / (a + b + 2):
        lower = front / _fraction(a, b, x, y)
        return lower, 1 - lower
    upper = front / _fraction(b, a, y, x)
    return 1 - upper, upper


def _fraction(a: float, b: float, x: float, y: float) -> float:
    """Return the continued fraction under I_x(a, b), y = 1 - x (DiDonato, Morris 1992, eq. 9).

    By Lentz's method as Thompson and Barnett (1986) changed it.
    """
    value = ahead = a * (a * y - b * x + 1) / (a + 1)
    behind, change, m = 0.0, math.inf, 0
    while abs(change - 1) > 1e-15:
        m += 1
        beside = a + 2 * m - 1
        over = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / beside) ** 2
        under = m + m * (b - m) * x / beside
        under += (a + m) * (a * y - b * x + 1 + m * (2 - x)) / (beside + 2)
        behind = 1 / ((under + over * behind) or _TINY)
        ahead = (under + over / ahead) or _TINY
        change = ahead * behind
        value *= change
    return value


def _log_beta(a: float, b: float) -> float:
    """Return ln B(a, b), whose digits lgamma would cancel for large parameters."""
    small, large = sorted((a, b))
    shift = 1.0
    # B(a, b) = B(a + 1, b) (a + b) / a
    while small < _LARGE:
        shift *= (small + large) / small
        small += 1
    while large < _LARGE:
        shift *= (small + large) / large
        large += 1
    small, large = sorted((small, large))
    total = small + large
    beyond = _beyond_stirling(small) + _beyond_stirling(large) - _beyond_stirling(total)
    return (
        math.log(shift)
        + 0.5 * math.log(2 * math.pi / total)
        + (small - 0.5) * math.log(small / total)
        + (large - 0.5) * math.log1p(-small / total)
        + beyond
    )


def _beyond_stirling(x: float) -> float:
    return math.fsum(part / x ** (2 * n + 1) for n, part in enumerate(_STIRLING))
