"""Recorded numbers held against recomputed ones."""

import math
from collections.abc import Iterator, Mapping

_TOLERANCE = 1e-9
"""Relative; another machine's mathematical library may differ in the last bits."""


def differs(name: str, recorded: float | None, found: float | None) -> Iterator[str]:
    """Yield a sentence where two values differ by more than rounding; NaN is like NaN."""
    if recorded is None and found is None:
        return
    if recorded is None or found is None or not _close(recorded, found):
        yield f"{name}: recorded {recorded!r}, recomputed {found!r}"


def mapping_differs(
    name: str, recorded: Mapping[str, float], found: Mapping[str, float]
) -> Iterator[str]:
    """Yield where two mappings have other keys, or other values under one."""
    if set(recorded) != set(found):
        yield f"{name}: recorded {sorted(recorded)}, recomputed {sorted(found)}"
    for key in sorted(set(recorded) & set(found)):
        yield from differs(f"{name}, {key}", recorded[key], found[key])


def _close(first: float, second: float) -> bool:
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-12)
