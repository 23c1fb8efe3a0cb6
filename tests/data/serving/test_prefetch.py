"""Work ahead: in order, bounded, errors at their place, no thread left behind."""

import threading
import time

import pytest

from workbench.data.serving.prefetch import made_ahead


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "made-ahead"]


def counter(limit: int = 1000):
    made: list[int] = []

    def make() -> int:
        if len(made) == limit:
            raise OSError("the disk is gone")
        made.append(len(made))
        return made[-1]

    return made, make


def test_items_come_in_order_and_the_thread_ends() -> None:
    _, make = counter()
    assert list(made_ahead(make, num=100, depth=3)) == list(range(100))
    assert threads() == []


def test_no_more_is_made_than_the_depth_ahead() -> None:
    made, make = counter()
    ahead = made_ahead(make, num=100, depth=3)
    for taken in range(1, 20):
        next(ahead)
        time.sleep(0.002)
        assert len(made) <= taken + 3
    ahead.close()
    assert threads() == []
    assert len(made) <= 23


def test_error_comes_at_the_place_of_the_item_that_was_not_made() -> None:
    _, make = counter(limit=5)
    ahead = made_ahead(make, num=100, depth=3)
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)
    assert threads() == []


def test_consumer_that_fails_leaves_no_thread() -> None:
    _, make = counter()

    def consume() -> None:
        for item in made_ahead(make, num=100, depth=2):
            _ = 1 // (item - 3)

    with pytest.raises(ZeroDivisionError):
        consume()
    assert threads() == []


def test_nothing_is_made_before_the_first_item_is_asked() -> None:
    made, make = counter()
    made_ahead(make, num=3, depth=2).close()
    assert made == []
    assert list(made_ahead(make, num=0, depth=2)) == []
