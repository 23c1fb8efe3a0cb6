"""States that no stream was ever in are refused by name, and nothing loops."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.data.numbered import NumberedSource, drawn, stream
from workbench.data.serving.stream import TokenStream
from workbench.data.serving.weights import DecaySchedule
from workbench.errors import ConflictError, IntegrityError
from workbench.training.loader import StepLoader

SOURCE = NumberedSource(a=41, b=21)  # 20 and 10 windows
TWO = [(0, {"a": 0.6, "b": 0.4}), (3, {"a": 0.2, "b": 0.8})]
ONE = TWO[:1]
WEIGHTED = {"weights": DecaySchedule(first=0.99, last=0.95, steps=20)}
DROPPED = {"dropped_after": {"b": 0.5}}

Edit = Callable[[dict[str, Any]], object]


def saved(mixtures: list[Any], steps: int = 5, **more: Any) -> dict[str, Any]:
    one = stream(SOURCE, mixtures, **more)
    drawn(one, steps)
    state: dict[str, Any] = json.loads(json.dumps(one.state_dict()))
    return state


def put(*path: str, value: Any) -> Edit:
    def edit(state: dict[str, Any]) -> None:
        for name in path[:-1]:
            state = state[name]
        state[path[-1]] = value

    return edit


def moved(state: dict[str, Any]) -> None:
    """Say that one sequence of a was one of b."""
    state["drawn"] = {"a": 14, "b": 6}
    state["cursor"] = {"a": [0, 14], "b": [0, 6]}


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (put("step", value=-1), "step -1"),
        (put("step", value=2.7), "step 2.7"),
        (put("step", value=float("nan")), "step nan"),
        (put("step", value=True), "step True"),
        (put("step", value="5"), "step '5'"),
        (put("step", value=1), "drawn 20: .* 1 steps of 4 sequences draw 4"),
        (lambda state: state.pop("step"), "step None"),
        (put("sequences", value="rubbish"), "sequences 'rubbish'"),
        (put("sequences", value=0), "sequences 0"),
        (put("sequences", value=8), "drawn 20: .* 5 steps of 8 sequences draw 40"),
        (put("drawn", "a", value=10**9), "drawn 1000000008: "),
        (put("drawn", "a", value=-7), "drawn.a -7"),
        (put("drawn", "a", value=12.0), "drawn.a 12.0"),
        (put("drawn", "c", value=0), "no table of the domains a, b"),
        (put("drawn", value=[12, 8]), r"drawn \[12, 8\]"),
        (lambda state: state.pop("drawn"), "drawn None"),
        (lambda state: state["drawn"].pop("a"), "drawn {"),
        (lambda state: state.pop("drawn_in_phase"), "drawn_in_phase None"),
        (put("drawn_in_phase", "a", value=0), "drawn_in_phase 8: .* 20 were drawn since"),
        (put("cursor", "a", value=[0, -3]), "cursor.a.place -3"),
        (put("cursor", "a", value=[-1, 3]), "cursor.a.epoch -1"),
        (put("cursor", "a", value=[0, 20]), "cursor.a.place 20: beyond the 20 windows"),
        (put("cursor", "a", value=[0, 10**12]), "cursor.a.place 1000000000000"),
        (put("cursor", "a", value=[0, 13]), r"cursor.a \[0, 13\]: .* drawn.a is 12"),
        (put("cursor", "a", value=[10**12, 12]), r"cursor.a \[1000000000000, 12\]"),
        (put("cursor", "a", value=[0]), r"cursor.a \[0\]"),
        (put("cursor", "a", value="xx"), "cursor.a 'xx'"),
        (put("cursor", "a", value=[0, float("nan")]), "cursor.a.place nan"),
        (lambda state: state.pop("cursor"), "cursor None"),
        (lambda state: state["cursor"].pop("b"), "cursor {"),
        (lambda state: state.pop("resized"), "resized None"),
        (put("resized", "step", value=6), "resized {.*impossible before step 5"),
        (put("resized", "drawn", value=3), "drawn 20: .* draw 23"),
        (put("resized", "drawn", value=-3), "resized.drawn -3"),
    ],
)
def test_state_that_was_edited_is_refused_and_the_field_named(edit: Edit, named: str) -> None:
    state = saved(ONE)
    edit(state)
    one = stream(SOURCE, ONE)
    before = one.state_dict()
    with pytest.raises(IntegrityError, match=named) as caught:
        one.load_state_dict(state)
    assert "before, or start a fresh run" in caught.value.remedy
    assert one.state_dict() == before


@pytest.mark.parametrize("value", [2.5, "2", None, 0])
def test_state_of_a_version_that_never_was_is_refused(value: Any) -> None:
    with pytest.raises(ConflictError, match="version"):
        stream(SOURCE, ONE).load_state_dict({**saved(ONE), "version": value})


@pytest.mark.parametrize(
    ("mixtures", "more", "edit", "named"),
    [
        (ONE, WEIGHTED, put("cursor", "a", value=[0, 3]), r"cursor.a \[0, 3\]: 3 windows passed"),
        (TWO, {}, put("drawn_in_phase", value={"a": 12, "b": 8}), "drawn_in_phase 20: .* 8 were"),
        (TWO, {}, put("sequences", value="rubbish"), "sequences 'rubbish'"),
        (TWO, {}, put("drawn", value={"a": 1, "b": 19}), "drawn_in_phase.a 2: more than the 1"),
        (ONE, DROPPED, moved, "drawn.b 6: more than the 5"),
        (ONE, DROPPED, put("drawn_in_phase", value={"a": 12, "b": 9}), "drawn_in_phase 21"),
    ],
)
def test_state_that_contradicts_the_stream_s_options_is_refused(
    mixtures: list[Any], more: dict[str, Any], edit: Edit, named: str
) -> None:
    state = saved(mixtures, **more)
    edit(state)
    with pytest.raises((IntegrityError, ConflictError), match=named):
        stream(SOURCE, mixtures, **more).load_state_dict(state)


def test_state_of_version_1_with_weights_is_refused() -> None:
    """Version 1 knew none, and its counters do not say what was passed over."""
    state = saved(ONE, **WEIGHTED)
    with pytest.raises(ConflictError, match="version 1, this run 2"):
        stream(SOURCE, ONE, **WEIGHTED).load_state_dict({**state, "version": 1})


@pytest.mark.parametrize("mixtures", [ONE, TWO])
@pytest.mark.parametrize("more", [{}, WEIGHTED, DROPPED, {**WEIGHTED, **DROPPED}])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 17])
def test_state_of_every_stream_is_accepted_by_another(
    mixtures: list[Any], more: dict[str, Any], steps: int
) -> None:
    state = saved(mixtures, steps, **more)
    one = stream(SOURCE, mixtures, **more)
    one.load_state_dict(state)
    assert json.loads(json.dumps(one.state_dict())) == state


@pytest.mark.parametrize("sizes", [(4, 10, 3), (10, 1, 7), (2, 2, 5)])
def test_state_of_a_stream_resized_twice_is_accepted_and_still_checked(
    sizes: tuple[int, ...],
) -> None:
    one: TokenStream | None = None
    for sequences in sizes:
        other = stream(SOURCE, ONE, sequences=sequences)
        if one is not None:
            other.load_state_dict(json.loads(json.dumps(one.state_dict())))
        one = other
        drawn(one, 3)
    assert one is not None
    state = one.state_dict()
    stream(SOURCE, ONE, sequences=sizes[-1]).load_state_dict(state)
    with pytest.raises(IntegrityError, match="drawn"):
        stream(SOURCE, ONE, sequences=sizes[-1]).load_state_dict({**state, "step": 8})


@pytest.mark.parametrize("done", [4, 6, None, "5"])
def test_loader_at_another_step_than_its_stream_is_refused(done: Any) -> None:
    loader = StepLoader(stream(SOURCE, ONE), 12)
    with pytest.raises(IntegrityError, match="done"):
        loader.load_state_dict({"done": done, "stream": saved(ONE)})


def test_loader_beyond_the_end_of_its_run_is_refused() -> None:
    with pytest.raises(IntegrityError, match="after step 5 of 4"):
        StepLoader(stream(SOURCE, ONE), 4).load_state_dict({"done": 5, "stream": saved(ONE)})
