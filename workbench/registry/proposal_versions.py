"""Every version of the proposal's form: what is new in it, and how an older one becomes it.

A version is never changed once a proposal was registered in it. A new one adds a row to `VERSIONS`
with the step from the version before; `Proposal` then is the new one, and everything that was
registered before is read through the steps. Versions differ by whole keys only, so that the keys
that a version does not have are enough to refuse them in its files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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
            ("contingencies", "*", "phase"),
            ("embargo",),
        ),
        from_previous=_second,
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
    names = list(VERSIONS)
    result = dict(value)
    for name in names[names.index(version_of(value)) + 1 :]:
        result = {**VERSIONS[name].from_previous(result), "proposal": name}
    return result


def unknown_to(version: str, value: Json) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each key of a proposal that its version does not have, and the version that has it."""
    names = list(VERSIONS)
    for name in names[names.index(version) + 1 :]:
        for place in VERSIONS[name].new:
            yield from ((path, name) for path in _found(value, place))


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
