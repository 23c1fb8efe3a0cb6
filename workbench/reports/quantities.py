"""How values are written: digits that mean something, a unit, and never a bare NaN."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from workbench.canonical import Json, decimal

MISSING = "—"
MINUS = "\u2212"
THIN = "\u202f"
"""Narrow no-break space, before symbols and between groups of digits."""
SYMBOLS = ("B", "FLOPs", "s")
"""Units that a prefix is written onto; words stand apart from it."""
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WHOLE = re.compile(r"-?\d{1,18}\Z")
_NUMERIC = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?\Z")
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float | None, decimals: int = 4) -> str:
    """Return the value with a fixed number of decimals, a true minus sign, or a dash if absent.

    A non-finite value keeps its mark, ``non-finite(nan)`` and the like.
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return decimal(value)
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: float | None, decimals: int = 4) -> str:
    """Return the value with an explicit sign."""
    text = number(value, decimals)
    if value is None or not math.isfinite(value) or text.startswith(MINUS) or float(text) == 0:
        return text
    return f"+{text}"


def decimals_for(values: Sequence[float | None], *, least: int = 4, most: int = 8) -> int:
    """Return the decimals at which every value and the spread keep two significant digits.

    A bound of 0.00004 must not be printed as 0.0000 beside an outcome that it decides.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    sizes = [abs(value) for value in known if value]
    spread = max(known) - min(known) if len(known) > 1 else 0.0
    needed = [math.ceil(-math.log10(size)) + 1 for size in [*sizes, spread] if size > 0]
    return max(least, min(most, max(needed, default=least)))


def significant(value: float | None, digits: int = 4) -> str:
    """Return the value with significant digits; powers of ten when very large or small."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return decimal(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return power_of_ten(value, digits)
    rounded = f"{value:.{digits}g}"
    text = f"{float(rounded):.10f}".rstrip("0").rstrip(".") if "e" in rounded else rounded
    return text.replace("-", MINUS)


def even(value: float | None, digits: int = 3) -> str:
    """Return the value with trailing zeros kept, so that a column reads at one precision."""
    if value is None or not math.isfinite(value) or (value and not 1e-4 <= abs(value) < 1e4):
        return significant(value, digits)
    return f"{value:#.{digits}g}".rstrip(".").replace("-", MINUS)


def power_of_ten(value: float, digits: int = 3) -> str:
    """Return ``1.23 × 10⁴``."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = str(int(exponent)).translate(_SUPERSCRIPT)
    return f"{mantissa}{THIN}×{THIN}10{power}".replace("-", MINUS)


def count(value: int | None, noun: str = "", plural: str = "") -> str:
    """Return ``1 trial``, ``12 trials`` or a grouped number without a noun."""
    if value is None:
        return MISSING
    text = f"{value:,}".replace(",", THIN).replace("-", MINUS)
    if not noun:
        return text
    return f"{text}\u00a0{noun if value == 1 else plural or noun + 's'}"


def scaled(value: float | None, unit: str = "") -> str:
    """Return three significant digits with an SI prefix: ``1.23 M``."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return decimal(value)
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * 0.9995:
            tail = prefix + unit if unit in SYMBOLS else f"{prefix}\u00a0{unit}".rstrip("\u00a0")
            return f"{value / factor:.3g}{THIN}{tail}".replace("-", MINUS)
    return f"{value:.3g}{THIN}{unit}".rstrip(THIN).replace("-", MINUS)


def duration(seconds: float | None) -> str:
    """Return device or wall time in the unit that reads best: ms, s, min, h."""
    if seconds is None:
        return MISSING
    if not math.isfinite(seconds):
        return decimal(seconds)
    for factor, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if abs(seconds) >= factor * (2.0 if unit == "min" else 1.0):
            return f"{_three_digits(seconds / factor)}{THIN}{unit}"
    return f"0{THIN}s" if seconds == 0 else f"{_three_digits(seconds * 1000)}{THIN}ms"


def _three_digits(value: float) -> str:
    size = abs(value)
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return number(value, decimals)


def device_time(seconds: float | None) -> str:
    """Return device time in device-hours; in smaller units when that is under a hundredth."""
    if seconds is None:
        return MISSING
    if seconds < 36:
        return f"{duration(seconds)} of device time"
    return f"{significant(seconds / 3600, 3)}\u00a0device-hours"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share as per cent."""
    return MISSING if share is None else f"{number(share * 100, decimals)}{THIN}%"


def unit_of(metric: str) -> str:
    """Return the unit of a metric key; empty when it has none that is known."""
    return "bits/byte" if metric.startswith("bpb_") else ""


def with_unit(text: str, metric: str) -> str:
    """Return the formatted value followed by the metric's unit."""
    unit = unit_of(metric)
    return f"{text}\u00a0{unit}" if unit else text


def clock_time(time: str) -> str:
    """Return ``14:03:09`` of an RFC 3339 UTC time."""
    return time[11:19]


def calendar_day(time: str) -> str:
    """Return ``5 January 2026`` of an RFC 3339 UTC time."""
    moment = datetime.fromisoformat(time)
    return f"{moment.day}\u00a0{_MONTHS[moment.month - 1]}\u00a0{moment.year}"


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def stamp(time: str) -> str:
    """Return ``5 January 2026, 14:03:09 UTC``."""
    return f"{calendar_day(time)}, {clock_time(time)}\u00a0UTC"


def plain(value: Json, digits: int = 4) -> str:
    """Return a configuration value in words: rounded numbers, ``key value`` lists."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return significant(value, digits)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}\u00a0{plain(item, digits)}" for key, item in value.items())
    if isinstance(value, str) and _WHOLE.match(value):
        return count(int(value))
    if isinstance(value, str):
        return significant(float(value), digits) if _NUMERIC.match(value) else value
    if isinstance(value, Sequence):
        return ", ".join(plain(item, digits) for item in value)
    return MISSING if value is None else str(value)
