"""Every version of the proposal's form: what is new in it, and how an older one becomes it.

A version is never changed once a proposal was registered in it. A new one adds a row to `VERSIONS`
with the step from the version before; `Proposal` then is the new one, and everything that was
registered before is read through the steps. Versions differ by whole keys and by the texts that a
key allows; both are enough to refuse in a version's files what it does not have.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from workbench.canonical import Json

Place = tuple[str, ...]
"""Keys from the top; ``*`` for each item of a list."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of the form."""

    new: tuple[Place, ...]
    """Keys that the version before does not have."""
    from_previous: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Returns the values of the version before as values of this one."""
    narrower_before: Mapping[Place, str] = field(default_factory=dict)
    """By key, the pattern of all texts that the version before allows there, anchored."""


def _second(value: Mapping[str, Json]) -> dict[str, Json]:
    """Return v1 as v2: contingencies were for any phase, and what v2 adds was left unsaid."""
    result = dict(value)
    plans = value.get("contingencies")
    if isinstance(plans, list | tuple):
        result["contingencies"] = [
            {"phase": "any", **plan} if isinstance(plan, Mapping) else plan for plan in plans
        ]
    return result


VERSIONS: Mapping[str, Version] = {
    "v1": Version(new=(), from_previous=dict),
    "v2": Version(
        new=(
            ("measures", "primary", "evaluation_set_hash"),
            ("decision", "noise"),
            ("decision", "underpowered"),
            ("decision", "family"),
            ("decision", "noise_floor"),
            ("contingencies", "*", "phase"),
            ("embargo",),
        ),
        from_previous=_second,
        narrower_before={
            ("design", "pairing"): "^none$",
            ("decision", "interval"): "^welch_t$",
            ("decision", "stopping"): r"^fixed\([0-9]+\)$",
            ("decision", "multiplicity"): "^none$",
        },
    ),
}
"""Oldest first."""

NEWEST = list(VERSIONS)[-1]


def version_of(value: Json) -> str:
    """Return the version that a proposal says it has; the newest where it says none that is known.

    What is wrong with such a proposal is then told in the newest version's terms.
    """
    said = value.get("proposal") if isinstance(value, Mapping) else None
    return said if isinstance(said, str) and said in VERSIONS else NEWEST


def upgraded(value: Json) -> Json:
    """Return the values of a proposal in the newest version; whatever is no such stays as it is."""
    if not isinstance(value, Mapping) or version_of(value) != value.get("proposal"):
        return value
    result = dict(value)
    for name in later_than(version_of(value)):
        result = {**VERSIONS[name].from_previous(result), "proposal": name}
    return result


@dataclass(frozen=True, kw_only=True)
class Newer:
    """Something in a proposal that its version of the form does not have."""

    path: tuple[str | int, ...]
    text: str | None
    """What is too new there; None where it is the key itself."""
    since: str
    """The version that has it."""


def unknown_to(version: str, value: Json) -> Iterator[Newer]:
    """Yield each key of a proposal, and each text under one, that its version does not have."""
    for name in later_than(version):
        for place in VERSIONS[name].new:
            yield from (Newer(path=path, text=None, since=name) for path in _found(value, place))
        for place, pattern in VERSIONS[name].narrower_before.items():
            text = _at(value, place)
            if isinstance(text, str) and not re.fullmatch(pattern, text):
                yield Newer(path=place, text=text, since=name)


def later_than(version: str) -> list[str]:
    """Return the versions after one, oldest first."""
    names = list(VERSIONS)
    return names[names.index(version) + 1 :]


def _at(value: Json, place: Place) -> Json:
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _found(value: Json, place: Place) -> Iterator[tuple[str | int, ...]]:
    if not place:
        yield ()
        return
    first, rest = place[0], place[1:]
    if first == "*" and isinstance(value, list):
        for i, item in enumerate(value):
            yield from ((i, *path) for path in _found(item, rest))
    elif isinstance(value, Mapping) and first in value:
        yield from ((first, *path) for path in _found(value[first], rest))
