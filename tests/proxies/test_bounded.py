"""Shares under upper bounds: uniform, within the bounds to the last bit, and back again."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from workbench.proxies.bounded import Room, bounded_point, bounded_units

ROOMS = [
    Room(total=1.0, caps=(0.5, 1.0, 1.0)),
    Room(total=1.0, caps=(0.4, 0.4, 0.3)),
    Room(total=0.8, caps=(0.15, 0.8, 0.3, 0.25)),
    Room(total=1.0, caps=(0.1, 1.0)),
    Room(total=1.0, caps=(0.11,) * 10),
    Room(total=1.0, caps=(1 / 5,) * 10),
]


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(ROOMS), st.lists(st.floats(0, 1), min_size=11, max_size=11))
def test_point_keeps_its_bounds_and_its_sum(room: Room, units: list[float]) -> None:
    parts = bounded_point(units[: len(room.caps) - 1], room)
    assert sum(parts) == pytest.approx(room.total, abs=1e-12)
    for part, cap in zip(parts, room.caps, strict=True):
        assert 0 <= part <= cap


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(ROOMS), st.lists(st.floats(1e-6, 1 - 1e-6), min_size=11, max_size=11))
def test_units_of_a_point_lead_back_to_it(room: Room, units: list[float]) -> None:
    parts = bounded_point(units[: len(room.caps) - 1], room)
    assert bounded_point(bounded_units(parts, room), room) == pytest.approx(parts, abs=1e-6)


@pytest.mark.parametrize("room", ROOMS[:4])
def test_point_is_uniform_as_a_free_simplex_thinned_by_the_bounds(room: Room) -> None:
    """Against the slow way: uniform points of the whole simplex, those outside thrown away."""
    source = random.Random(5)
    ours = [bounded_point([source.random() for _ in room.caps[1:]], room) for _ in range(1500)]
    slow: list[list[float]] = []
    while len(slow) < 1500:
        weights = [source.expovariate(1) for _ in room.caps]
        parts = [room.total * weight / sum(weights) for weight in weights]
        if all(part <= cap for part, cap in zip(parts, room.caps, strict=True)):
            slow.append(parts)
    for i in range(len(room.caps)):
        assert kstest([p[i] for p in ours], [p[i] for p in slow]).pvalue > 1e-4


def test_units_of_parts_outside_are_those_of_the_nearest_bound() -> None:
    room = Room(total=1.0, caps=(0.5, 0.6, 1.0))
    assert bounded_point(bounded_units([0.9, 0.05, 0.05], room), room)[0] == pytest.approx(0.5)
