"""From a recipe's dimensions to the values of one trial, and back to a sampler's coordinates.

A sampler only knows independent coordinates: numbers between bounds, or one of several choices.
Simplex points are made from them here, so that every sampler searches the same space.
"""

import math
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from workbench.canonical import Json
from workbench.proxies.bounded import Room, bounded_point, bounded_units
from workbench.proxies.recipe import (
    Choice,
    Dimension,
    LogUniform,
    MixtureSpace,
    PhaseSpace,
    nested,
)

Coordinate: TypeAlias = int | float
"""A number between bounds, or the position of a choice."""

UNIT_LOW, UNIT_HIGH = 1e-9, 1 - 1e-9
"""Bounds of the coordinate u of a share: -log(u) is finite, and never 0 for all shares."""


class Source(Protocol):
    """Whatever proposes coordinates: a search, or fixed values."""

    def between(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Return a number between the bounds."""

    def one_of(self, name: str, count: int) -> int:
        """Return the position of one of ``count`` choices."""


def draw(
    space: Mapping[str, Dimension], control: Mapping[str, Json], source: Source
) -> dict[str, Json]:
    """Return the values of one trial as a nested configuration fragment, unrounded.

    Args:
        space: Dotted key to dimension.
        control: The control's value under each dotted key: phases without a range keep theirs.
        source: Where the coordinates come from, asked in the order of the space.
    """
    return nested({key: _value(key, space[key], control[key], source) for key in space})


def coordinates(
    space: Mapping[str, Dimension], values: Mapping[str, Json]
) -> dict[str, Coordinate]:
    """Return the coordinates nearest to the values under the space's dotted keys.

    A value outside its dimension is moved to the nearest bound; one that has no place in it (a
    choice that is not offered) is left out.
    """
    found: dict[str, Coordinate] = {}
    for key, dimension in space.items():
        found.update(_coordinates(key, dimension, values[key]))
    return found


def coordinate_names(space: Mapping[str, Dimension]) -> tuple[str, ...]:
    """Return the names of all coordinates, in the order in which `draw` asks for them."""
    names: list[str] = []
    for key, dimension in space.items():
        names += [f"{key}.{part}" for part in _parts(dimension)] or [key]
    return tuple(names)


def _value(key: str, dimension: Dimension, control: Json, source: Source) -> Json:
    if isinstance(dimension, MixtureSpace):
        return _mixture(key, dimension, source)
    if isinstance(dimension, PhaseSpace):
        return _fractions(key, dimension, control, source)
    if isinstance(dimension, Choice):
        return dimension.values[source.one_of(key, len(dimension.values))]
    log = isinstance(dimension, LogUniform)
    return source.between(key, dimension.low, dimension.high, log=log)


def _mixture(key: str, dimension: MixtureSpace, source: Source) -> dict[str, float]:
    if dimension.maximum:
        units = [source.between(name, UNIT_LOW, UNIT_HIGH) for name in _names(key, dimension)]
        parts = bounded_point(units, _room(dimension))
        pairs = zip(dimension.domains, parts, strict=True)
        return {
            domain: min(dimension.minimum + part, dimension.maximum.get(domain, 1.0))
            for domain, part in pairs
        }
    # Normalised exponentials are uniform on the simplex: Dirichlet(1) as independent Gamma(1)
    # variates (Devroye 1986, chapter XI, theorem 4.1).
    weights = {
        domain: -math.log(source.between(f"{key}.{domain}", UNIT_LOW, UNIT_HIGH))
        for domain in dimension.domains
    }
    total = math.fsum(weights.values())
    free = 1 - dimension.minimum * len(weights)
    return {d: dimension.minimum + free * weight / total for d, weight in weights.items()}


def _fractions(
    key: str, dimension: PhaseSpace, control: Mapping[str, float], source: Source
) -> dict[str, float]:
    ranged = {
        phase: source.between(f"{key}.{phase}", low, high)
        for phase, (low, high) in dimension.ranges.items()
    }
    values = {phase: ranged.get(phase, share) for phase, share in control.items()}
    others = math.fsum(share for phase, share in values.items() if phase != dimension.rest)
    # A remainder of -1e-17 is rounding, not a negative phase.
    return values | {dimension.rest: max(0.0, 1 - others)}


def _coordinates(key: str, dimension: Dimension, value: Json) -> dict[str, Coordinate]:
    if isinstance(dimension, MixtureSpace):
        return _mixture_coordinates(key, dimension, value)
    if isinstance(dimension, PhaseSpace):
        return {
            f"{key}.{phase}": _within(value[phase], low, high)
            for phase, (low, high) in dimension.ranges.items()
        }
    if isinstance(dimension, Choice):
        return {key: dimension.values.index(value)} if value in dimension.values else {}
    return {key: _within(value, dimension.low, dimension.high)}


def _mixture_coordinates(
    key: str, dimension: MixtureSpace, shares: Mapping[str, float]
) -> dict[str, Coordinate]:
    if dimension.maximum:
        parts = [shares.get(domain, 0.0) - dimension.minimum for domain in dimension.domains]
        units = bounded_units(parts, _room(dimension))
        names = _names(key, dimension)
        return {n: _within(u, UNIT_LOW, UNIT_HIGH) for n, u in zip(names, units, strict=True)}
    # Any common factor of the exponentials gives the same shares; their expected sum, one each,
    # puts the point where the sampler would most often look for it.
    free = 1 - dimension.minimum * len(dimension.domains)
    found: dict[str, Coordinate] = {}
    for domain in dimension.domains:
        part = max(0.0, shares.get(domain, 0.0) - dimension.minimum) / free
        unit = math.exp(-part * len(dimension.domains))
        found[f"{key}.{domain}"] = _within(unit, UNIT_LOW, UNIT_HIGH)
    return found


def _names(key: str, dimension: Dimension) -> list[str]:
    return [f"{key}.{part}" for part in _parts(dimension)]


def _room(dimension: MixtureSpace) -> Room:
    """Return what the minimum leaves to share out."""
    free = 1 - dimension.minimum * len(dimension.domains)
    caps = [
        min(dimension.maximum.get(domain, 1.0) - dimension.minimum, free)
        for domain in dimension.domains
    ]
    return Room(total=free, caps=tuple(caps))


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _parts(dimension: Dimension) -> tuple[str, ...]:
    if isinstance(dimension, MixtureSpace):
        # Under upper bounds the shares are drawn one after the other; the last is what is left.
        return dimension.domains[:-1] if dimension.maximum else dimension.domains
    return tuple(dimension.ranges) if isinstance(dimension, PhaseSpace) else ()
