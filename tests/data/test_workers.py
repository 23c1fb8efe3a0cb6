import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.data.workers import Workers
from workbench.errors import InvalidFileError, RunFailedError

ROOT = Path(__file__).parents[2]


def slower_first(number: int) -> tuple[int, int]:
    time.sleep(0.05 if number % 4 == 0 else 0.0)
    return number * number, os.getpid()


def refuse_seven(number: int) -> int:
    if number == 7:
        raise InvalidFileError(f"{number} is refused", remedy="another number")
    return number


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def doubled(batch: bytes) -> bytes:
    return batch * 2


@pytest.mark.slow
def test_map_gives_results_in_order_from_other_processes() -> None:
    with Workers(3) as workers:
        for _ in range(2):  # the second time with the processes of the first
            found = list(workers.map(slower_first, range(20)))
            assert [square for square, _ in found] == [number * number for number in range(20)]
        processes = {process for _, process in found}
    assert len(processes) > 1
    assert os.getpid() not in processes


def test_map_with_one_worker_happens_here_and_lazily() -> None:
    drawn: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            drawn.append(number)
            yield number

    results = Workers(1).map(slower_first, numbers())
    assert next(results) == (0, os.getpid())
    assert drawn == [0]


@pytest.mark.slow
def test_map_draws_at_most_two_batches_a_worker_ahead() -> None:
    drawn: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(50):
            drawn.append(number)
            yield number

    with Workers(2) as workers:
        for done, _ in enumerate(workers.map(refuse_seven, (n + 100 for n in numbers()))):
            assert len(drawn) <= done + 1 + 4
    assert len(drawn) == 50


@pytest.mark.slow
def test_map_carries_batches_larger_than_a_pipe() -> None:
    with Workers(2) as workers:
        batches = [bytes([number]) * 3_000_000 for number in range(5)]
        assert list(workers.map(doubled, batches)) == [batch * 2 for batch in batches]


@pytest.mark.slow
def test_map_within_a_map_of_the_same_workers_is_refused() -> None:
    with Workers(2) as workers, pytest.raises(ValueError, match="one at a time"):
        list(workers.map(doubled, workers.map(doubled, [b"a"])))


@pytest.mark.slow
def test_map_raises_what_the_function_refused_with_its_remedy() -> None:
    with Workers(2) as workers:
        results = workers.map(refuse_seven, range(20))
        assert [next(results) for _ in range(7)] == list(range(7))
        with pytest.raises(InvalidFileError, match="7 is refused") as caught:
            next(results)
        assert caught.value.remedy == "another number"
        assert list(workers.map(refuse_seven, range(5))) == list(range(5))


@pytest.mark.slow
def test_map_worker_that_is_killed_is_a_refusal_and_the_others_end() -> None:
    with Workers(2) as workers:
        with pytest.raises(RunFailedError, match=r"ended with code -9") as caught:
            list(workers.map(die_at_three, range(20)))
        assert "--workers 1" in caught.value.remedy


def test_workers_fewer_than_one_are_refused() -> None:
    with pytest.raises(ValueError, match="0 workers"):
        Workers(0)


ENDLESS = """
import signal, sys, time
from workbench.data.workers import Workers
def forever(number):
    print("working", flush=True)
    time.sleep(600)
if __name__ == "__main__":
    # A test run in the background inherits that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Workers(2) as workers:
        list(workers.map(forever, range(4)))
"""


def running(group: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(") ")
        except OSError:
            continue
        if int(rest.split()[2]) == group and rest[0] != "Z":
            found.append(int(name.split()[0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_workers_of_a_parent_that_is_stopped_end_with_it(tmp_path: Path, sent: int) -> None:
    """Ctrl-C reaches the whole group, a kill the parent alone: nobody stays at work."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"working\n"
        if sent == signal.SIGINT:
            os.killpg(parent.pid, sent)
        else:
            parent.kill()
        parent.wait(30)
    waited = time.monotonic() + 30
    while running(parent.pid) and time.monotonic() < waited:
        time.sleep(0.1)
    assert running(parent.pid) == []
