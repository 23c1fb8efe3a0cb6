"""The search on a real database: numbering, retries, pruning, several processes' points."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.errors import StoreUnavailableError
from workbench.proxies.search import Search, sampler_description
from workbench.registry.proposal import Pruning, Sampler

NAMES = ("a", "b")


@pytest.fixture
def open_search(tmp_path: Path) -> Iterator:
    opened: list[Search] = []

    def open_one(**changes: object) -> Search:
        arguments = {
            "url": f"sqlite:///{tmp_path}/optuna.db",
            "name": "study",
            "direction": "minimize",
            "sampler": Sampler(name="random", seed=1),
            "pruning": Pruning(rule="none"),
            "coordinate_names": NAMES,
        }
        opened.append(Search.open(**(arguments | changes)))
        return opened[-1]

    yield open_one
    for search in opened:
        search.close()


def point(search: Search) -> tuple[float, float]:
    asked = search.ask()
    return asked.between("a", 0.0, 1.0), asked.between("b", 0.001, 1.0, log=True)


@pytest.mark.parametrize("name", ["random", "tpe", "qmc"])
def test_ask_several_workers_get_distinct_points(open_search, name: str) -> None:
    """C9: eight workers with one seed, each with its own connection: eight distinct points."""
    searches = [open_search(sampler=Sampler(name=name, seed=1)) for _ in range(8)]
    points = [point(search) for search in searches]
    assert len(set(points)) == 8


def test_ask_another_seed_gives_other_points(open_search) -> None:
    first = point(open_search(name="x"))
    assert point(open_search(name="y")) == first
    assert point(open_search(name="z", sampler=Sampler(name="random", seed=2))) != first


def test_ask_qmc_fills_the_space_evenly(open_search) -> None:
    """Eight consecutive Sobol points have one in each eighth of every coordinate."""
    search = open_search(sampler=Sampler(name="qmc", seed=5))
    points = [point(search) for _ in range(8)]
    assert sorted(int(a * 8) for a, _ in points) == list(range(8))
    eighths = [int(math.log(b / 0.001) / math.log(1000) * 8) for _, b in points]
    assert sorted(eighths) == list(range(8))


def test_ask_qmc_chooses_among_choices_evenly(open_search) -> None:
    search = open_search(sampler=Sampler(name="qmc", seed=5), coordinate_names=("c",))
    positions = [search.ask().one_of("c", 4) for _ in range(8)]
    assert sorted(positions) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_ask_tpe_learns_once_it_has_seen_enough(open_search) -> None:
    search = open_search(sampler=Sampler(name="tpe", seed=1), coordinate_names=("a",))
    for _ in range(24):
        asked = search.ask()
        search.end(asked.number, "completed", (asked.between("a", 0.0, 1.0) - 0.3) ** 2)
    off = [abs(t.coordinates["a"] - 0.3) for t in search.tried()]
    # ten random ones first
    assert sum(off[10:]) / 14 < 0.7 * sum(off[:10]) / 10


def test_queue_retry_repeats_the_point_and_takes_no_new_draw(open_search) -> None:
    search = open_search()
    point(search)
    lost = point(search)
    search.end(0, "completed", 1.0)
    search.queue({}, {"why": "lost"}, retry_of=search.tried()[1])
    search.end(1, "failed")
    assert point(search) == lost
    after = point(search)
    tried = search.tried()
    assert [t.draw for t in tried] == [0, 1, 1, 2]
    assert [t.retry_of for t in tried] == [None, None, 1, None]
    assert tried[2].notes == {"why": "lost"}
    straight = open_search(name="straight")
    assert [point(straight) for _ in range(3)][2] == after


def test_tried_shows_states_as_another_process_left_them(open_search) -> None:
    first = open_search()
    for _ in range(4):
        first.ask()
    first.end(0, "completed", 2.0)
    first.end(1, "pruned")
    first.end(2, "failed")
    first.note(3, "value", {"nested": [1, 2.5]})
    first.queue({"a": 0.5}, {})
    seen = open_search().tried()
    assert [t.state for t in seen] == ["completed", "pruned", "failed", "running", "waiting"]
    assert seen[3].notes == {"value": {"nested": [1, 2.5]}}


def test_remember_outlives_the_connection(open_search) -> None:
    open_search().remember("root", "abc")
    assert open_search().remembered("root") == "abc"
    assert open_search().remembered("other") is None


def test_should_prune_stops_what_is_worse_than_the_median(open_search) -> None:
    search = open_search(pruning=Pruning(rule="median", startup_trials=2, warmup_evaluations=1))
    for value in (1.0, 2.0, 3.0):
        asked = search.ask()
        assert not any(asked.should_prune(i, value) for i in range(2)) or value == 3.0
        search.end(asked.number, "completed", value)
    worse = search.ask()
    assert not worse.should_prune(0, 9.0)  # warming up
    assert worse.should_prune(1, 9.0)
    better = search.ask()
    assert not better.should_prune(0, 0.5)
    assert not better.should_prune(1, 0.5)


def test_open_unusable_database_says_so(open_search, tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(StoreUnavailableError, match=r"bad\.db"):
        open_search(url=f"sqlite:///{tmp_path}/bad.db")


def test_sampler_description_names_the_version_that_decides() -> None:
    assert "optuna" in sampler_description(Sampler(name="tpe", seed=1))
    assert "Sobol" in sampler_description(Sampler(name="qmc", seed=1))
