"""From a proxy's configuration to full scale: every differing key and what explains it."""

import math
from collections.abc import Iterator, Mapping, Sequence

from workbench.canonical import Json
from workbench.proxies.recipe import dotted, value_at
from workbench.registry.entries import KeyChange
from workbench.registry.proposal import ScalingRule
from workbench.training.config import RunConfig

RELATIVE_TOLERANCE = 1e-3
"""How far a written value may be rounded from what its power rule gives."""


def key_changes(proxy: RunConfig, full: RunConfig, rules: Sequence[ScalingRule]) -> list[KeyChange]:
    """Return each key whose full-scale value differs from the proxy's, with its explanation.

    A key without a rule, or with a power rule that gives another value, is a deviation.
    """
    before, after = proxy.model_dump(mode="json"), full.model_dump(mode="json")
    by_key = {rule.key: rule for rule in rules}
    return list(_changes(before, after, by_key))


def _changes(
    before: Mapping[str, Json], after: Mapping[str, Json], rules: Mapping[str, ScalingRule]
) -> Iterator[KeyChange]:
    old, new = dotted(before), dotted(after)
    for key in sorted({*old, *new}):
        if old.get(key) == new.get(key):
            continue
        explanation, deviation = _explained(rules.get(key), before, after, key)
        yield KeyChange(
            key=key,
            proxy=old.get(key),
            full=new.get(key),
            explained_by=explanation,
            deviation=deviation,
        )


def power(start: float, ratio: float, exponent: float) -> float:
    """Return start × ratio^exponent; NaN where a double cannot hold it."""
    try:
        return start * math.pow(ratio, exponent)
    except (OverflowError, ValueError):
        return math.nan


def follows(found: float, expected: float, *, whole: bool) -> bool:
    """Return whether a written value is what its power rule gives, up to rounding."""
    if whole and math.isfinite(expected) and found == round(expected):
        return True
    return abs(found - expected) <= RELATIVE_TOLERANCE * abs(expected)


def _explained(
    rule: ScalingRule | None, before: Mapping[str, Json], after: Mapping[str, Json], key: str
) -> tuple[str, bool]:
    if rule is None:
        return "deviation: no scaling rule was registered for this key", True
    if rule.rule == "registered" or rule.of is None or rule.exponent is None:
        return f"scaling rule: registered value ({rule.why})", False
    ratio = value_at(after, rule.of) / value_at(before, rule.of)
    expected = power(value_at(before, key), ratio, rule.exponent)
    found = value_at(after, key)
    law = f"proxy × ({rule.of} ratio {ratio:g})^{rule.exponent:g} = {expected:.6g}"
    if follows(found, expected, whole=isinstance(value_at(before, key), int)):
        return f"scaling rule: {law} ({rule.why})", False
    return f"deviation: {law}, but full.yaml says {found!r}", True
