"""Points of a simplex under upper bounds, uniform for independent uniform coordinates.

The shares are drawn one after the other, each from its exact distribution given those before. The
volume of ``{x ≥ 0, Σx = s, x_j ≤ c_j}`` over n shares is, up to a constant factor,
``Σ_J (-1)^|J| (s - Σ_J c)_+^(n-1)`` over the sets J of bounds (inclusion and exclusion).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

_HALVINGS = 60
"""More than the bits of a double."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is shared out: parts from 0 to their caps with a given sum, caps enough for it."""

    total: float
    caps: tuple[float, ...]

    @property
    def mirrored(self) -> "Room":
        """What the parts leave of their caps: a room as well, with its points in the same shape."""
        return Room(total=max(0.0, math.fsum(self.caps) - self.total), caps=self.caps)

    @property
    def is_tight(self) -> bool:
        """Whether the mirrored room is the smaller one.

        There the volume is a small number and the terms of its sum are not large ones that cancel.
        """
        return self.mirrored.total < self.total


def bounded_point(units: Sequence[float], room: Room) -> list[float]:
    """Return the parts that coordinates between 0 and 1 stand for.

    Args:
        units: one for each part but the last. Independent and uniform ones make a point that is
            uniform among all that the caps allow.
        room: the sum and the caps of the parts.
    """
    if room.is_tight:
        unused = _point(units, room.mirrored)
        return [cap - part for cap, part in zip(room.caps, unused, strict=True)]
    return _point(units, room)


def bounded_units(parts: Sequence[float], room: Room) -> list[float]:
    """Return the coordinates of parts; one outside its bounds is moved to the nearest."""
    if room.is_tight:
        unused = [cap - part for cap, part in zip(room.caps, parts, strict=True)]
        return _units(unused, room.mirrored)
    return _units(parts, room)


def _point(units: Sequence[float], room: Room) -> list[float]:
    parts: list[float] = []
    left = room.total
    for i, unit in enumerate(units):
        share = _Share(left=left, cap=room.caps[i], later=room.caps[i + 1 :])
        parts.append(share.at(unit))
        left -= parts[-1]
    # Rounding may leave the last part 1e-17 outside.
    return [*parts, min(max(left, 0.0), room.caps[-1])]


def _units(parts: Sequence[float], room: Room) -> list[float]:
    units: list[float] = []
    left = room.total
    for i, part in enumerate(parts[:-1]):
        share = _Share(left=left, cap=room.caps[i], later=room.caps[i + 1 :])
        within = min(max(part, share.low), share.high)
        units.append(share.unit(within))
        left -= within
    return units


class _Share:
    """The distribution of one part, given what is left and the caps of the later ones."""

    def __init__(self, *, left: float, cap: float, later: Sequence[float]) -> None:
        self.low = min(cap, max(0.0, left - math.fsum(later)))
        self.high = max(self.low, min(cap, left))
        self._left = left
        self._power = len(later)
        # Caps that cannot bind have no term.
        binding = [c for c in later if c < left - self.low]
        self._terms = [
            ((-1) ** size, math.fsum(chosen))
            for size in range(len(binding) + 1)
            for chosen in combinations(binding, size)
            if math.fsum(chosen) < left - self.low
        ]
        self._below = self._volume(self.low)
        self._within = self._below - self._volume(self.high)

    def _volume(self, part: float) -> float:
        """Return the volume of all points at which this part is at least so large."""
        rest = self._left - part
        return math.fsum(
            sign * max(0.0, rest - bound) ** self._power for sign, bound in self._terms
        )

    def unit(self, part: float) -> float:
        """Return the probability that this part is at most so large."""
        if self._within <= 0:
            return 0.5
        return min(max((self._below - self._volume(part)) / self._within, 0.0), 1.0)

    def at(self, unit: float) -> float:
        """Return the part with this probability below it."""
        low, high = self.low, self.high
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.unit(middle) < unit else (low, middle)
        return 0.5 * (low + high)
