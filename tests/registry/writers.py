"""Processes that write to one log at the same time, and a process that is killed in the middle."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.registry.conftest import ORIGIN
from tests.registry.stores import Place
from workbench.errors import ConflictError
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger

ROOT = Path(__file__).parents[2]


def write(place: Place, count: int, out: int) -> None:
    """Append entries and write the leaf hash of each, once acknowledged, to the descriptor."""
    try:
        ledger = place.create(lambda: datetime.now(UTC))
    except ConflictError:
        ledger = place.open(lambda: datetime.now(UTC))
    for n in range(count):
        entry = ledger.append(Note(text=f"{os.getpid()}.{n}"), subject="lab")
        os.write(out, entry.leaf.encode() + b"\n")
    ledger.close()


def started_together(place: Place, processes: int, count: int) -> list[str]:
    """Run writers that also race to create the log; return what they say was acknowledged."""
    command = [sys.executable, "-W", "error", "-m", __name__, place.url, str(place.root)]
    writers = [
        subprocess.Popen(
            [*command, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for _ in range(processes)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    # All pipes are drained together, so that none fills up and stops its writer.
    leaves: list[str] = []
    pipes = {writer.stdout: writer for writer in writers}
    while pipes:
        ready, _, _ = select.select(list(pipes), [], [], 240)
        assert ready, "no writer made progress"
        for pipe in ready:
            assert pipe is not None
            line = pipe.readline()
            if line:
                leaves.append(line.strip())
            else:
                del pipes[pipe]
    errors = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * processes, errors
    return leaves


def killed(place: Place, pause: float) -> list[str]:
    """Fork a writer, kill it this many seconds after its first append; return what it was told."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            write(place, 10_000, writing)
        finally:
            os._exit(1)
    os.close(writing)
    told = os.read(reading, 1)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while data := os.read(reading, 65536):
        told += data
    os.close(reading)
    return told.decode().split()


def killed_in_rounds(place: Place, rounds: int) -> tuple[int, int]:
    """Kill writers one after the other, and look after each at what they left.

    In a process of its own: a fork of the one that runs the tests, which holds a gigabyte by then,
    takes longer than everything else in a round.

    Returns:
        Number of acknowledged entries, and of rounds that left an entry without a signed head.
    """
    command = [sys.executable, "-W", "error", "-m", __name__, place.url, str(place.root)]
    done = subprocess.run(
        [*command, str(rounds), "killed"], capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    acknowledged, unsigned = map(int, done.stdout.split())
    return acknowledged, unsigned


def _rounds(place: Place, rounds: int) -> tuple[int, int]:
    generator = random.Random(3)  # moments differ all the same, with the load of the machine
    acknowledged, unsigned = 0, 0
    place.create().close()
    known = 1
    for _ in range(rounds):
        told = killed(place, generator.uniform(0, 0.006))
        with Ledger.inspect(url=place.url, origin=ORIGIN) as reader:
            signed = reader.head().size
        with place.open() as ledger:
            size = ledger.head().size
            new = [stored.leaf.hex() for stored in ledger._store.records(since=known, below=size)]
        # Everything acknowledged is there, in order; beyond it one at most, begun and not finished.
        assert new[: len(told)] == told
        assert len(told) <= len(new) <= len(told) + 1
        assert signed >= known + len(told) - 1
        acknowledged, known, unsigned = acknowledged + len(told), size, unsigned + (signed < size)
    return acknowledged, unsigned


if __name__ == "__main__":
    url, root, count, *how = sys.argv[1:]
    if how == ["killed"]:
        print(*_rounds(Place(url=url, root=Path(root)), int(count)))
    else:
        sys.stdin.readline()
        write(Place(url=url, root=Path(root)), int(count), sys.stdout.fileno())
