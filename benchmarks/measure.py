"""What every benchmark shares: interleaved runs of two commands and the JSON of a goal."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Goal:
    """One goal of docs: a ratio against a named peer measured in the same run."""

    goal: str
    value: float
    target: float
    unit: str
    peer: str
    met: bool
    runs: int


def interleaved(ours: Sequence[str], peer: Sequence[str], runs: int) -> tuple[float, float]:
    """Return the median wall seconds of two commands, run in turn after one warm-up each."""
    for command in (ours, peer):
        _seconds(command)
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(runs)]
    return tuple(statistics.median(column) for column in zip(*pairs, strict=True))  # type: ignore[return-value]


def in_turn(
    ours: Callable[[], object], peer: Callable[[], object], runs: int
) -> tuple[float, float]:
    """Return the median seconds of two calls, run in turn after one warm-up each."""
    for call in (ours, peer):
        call()
    pairs = [(_call_seconds(ours), _call_seconds(peer)) for _ in range(runs)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def at_most(
    goal: str, ours: float, peer_seconds: float, *, target: float, peer: str, runs: int
) -> Goal:
    """Return the goal that our time is at most ``target`` times the peer's."""
    ratio = ours / peer_seconds
    return Goal(
        goal=goal,
        value=round(ratio, 3),
        target=target,
        unit="ratio of medians, smaller is better",
        peer=peer,
        met=ratio <= target,
        runs=runs,
    )


def at_least(
    goal: str, ours: float, peer: float, *, target: float, peer_name: str, runs: int
) -> Goal:
    """Return the goal that our rate is at least ``target`` times the peer's."""
    ratio = ours / peer
    return Goal(
        goal=goal,
        value=round(ratio, 3),
        target=target,
        unit="ratio of medians, larger is better",
        peer=peer_name,
        met=ratio >= target,
        runs=runs,
    )


def report(goals: Sequence[Goal], *, as_json: bool) -> None:
    """Print the goals, one JSON object a line or one sentence a line."""
    for goal in goals:
        if as_json:
            print(json.dumps(asdict(goal)))
        else:
            met = "met" if goal.met else "MISSED"
            print(f"{goal.goal}: {goal.value} (target {goal.target}, {met}) against {goal.peer}")


def arguments() -> tuple[int, bool]:
    """Return how many runs to take and whether to print JSON, from ``--smoke`` and ``--json``."""
    return (1 if "--smoke" in sys.argv else 9), "--json" in sys.argv


def _seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _call_seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
