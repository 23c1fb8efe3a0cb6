"""What the ledger costs over a raw insert of the same row, through the same driver.

The raw row goes into a table with the ledger's columns and indices, but without tree, signatures,
announcement and guards, and is committed as durably.

python benchmarks/ledger.py [--json] [--smoke]
"""

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from measure import Goal, arguments, at_least, at_most, report

sys.path.insert(0, str(Path(__file__).parents[1]))

import sqlite3

from tests import postgres
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger
from workbench.registry.merkle import leaf_hash, verify_inclusion
from workbench.registry.store import create_store
from workbench.registry.store.address import parse_url
from workbench.registry.store.sqlite import SqliteStore
from workbench.registry.subtrees import prefix

ORIGIN = "example.com/benchmark"
BODY = Note(text="A note as a researcher writes it, of about a hundred characters and no more.")
WRITERS = 16
TABLE = (
    "CREATE TABLE raw (sequence {number} PRIMARY KEY, leaf {bytes} NOT NULL UNIQUE, "
    "id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, subject TEXT NOT NULL, envelope {bytes} NOT NULL,"
    " salt {bytes} NOT NULL, body {bytes} NOT NULL, signature TEXT NOT NULL)"
)
INDICES = (
    "CREATE INDEX raw_kind ON raw (kind)",
    "CREATE INDEX raw_subject ON raw (subject)",
)
INSERT = "INSERT INTO raw VALUES ({})"
Append = Callable[[], object]


def row(sequence: int, tag: bytes) -> tuple[Any, ...]:
    """Return a row as large as the ledger's for `BODY`."""
    leaf = leaf_hash(tag + sequence.to_bytes(8, "big"))
    identifier = f"{leaf.hex()[:8]}-0000-7000-8000-{leaf.hex()[8:20]}"
    return (sequence, leaf, identifier, "note", "lab", b"e" * 300, leaf[:16], b"b" * 85, "")


def ledger_at(url: str, folder: Path) -> Ledger:
    return Ledger.create(
        url=url, origin=ORIGIN, keys_dir=folder / "keys", actor="benchmark",
        clock=lambda: datetime.now(UTC), lab_name="benchmark",
    )  # fmt: skip


def appending(url: str, folder: Path) -> Append:
    """Return an append to the log at the URL, in this process."""
    ledger = Ledger.open(
        url=url, origin=ORIGIN, keys_dir=folder / "keys", actor="benchmark",
        clock=lambda: datetime.now(UTC),
    )  # fmt: skip
    return lambda: ledger.append(BODY, subject="lab")


def raw_sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def inserting(path: Path, *, locked: bool) -> Append:
    """Return a raw insert into SQLite, under the ledger's lock or not."""
    connection = raw_sqlite(path)
    lock = SqliteStore(path, read_only=False).lock
    insert = INSERT.format(", ".join("?" * 9))
    tag = os.urandom(8)

    def one() -> None:
        connection.execute("BEGIN IMMEDIATE")
        (last,) = connection.execute("SELECT coalesce(max(sequence), 0) FROM raw").fetchone()
        connection.execute(insert, row(last + 1, tag))
        connection.execute("COMMIT")

    def one_locked() -> None:
        with lock():
            one()

    return one_locked if locked else one


def create_raw_sqlite(path: Path) -> None:
    connection = raw_sqlite(path)
    for statement in (TABLE.format(number="INTEGER", bytes="BLOB"), *INDICES):
        connection.execute(statement)
    connection.close()


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """What several writers did in one stretch of time."""

    rate: float
    """Appends a second, all writers together."""
    fairness: float
    """Appends of the slowest writer over those of the fastest."""
    p99: float
    """Seconds that 99 of 100 appends stayed below."""


def crowd(make: Callable[[], Append], seconds: float) -> Crowd:
    """Let `WRITERS` processes append at the same time, each as fast as it can."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(WRITERS), context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(make, seconds, barrier, results))
        for _ in range(WRITERS)
    ]
    for worker in workers:
        worker.start()
    latencies = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    counts = [len(one) for one in latencies]
    everything = sorted(latency for one in latencies for latency in one)
    return Crowd(
        rate=len(everything) / seconds,
        fairness=min(counts) / max(counts),
        p99=everything[min(len(everything) - 1, len(everything) * 99 // 100)],
    )


def _work(make: Callable[[], Append], seconds: float, barrier: Barrier, results: Any) -> None:
    append, latencies = make(), []
    barrier.wait()
    end = time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        if began >= end:
            break
        append()
        latencies.append(time.perf_counter() - began)
    results.put(latencies)


def alternately(ours: Append, peer: Append, count: int) -> tuple[float, float]:
    """Return the median seconds of two appends that take turns."""
    for _ in range(min(20, count)):
        ours(), peer()
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(count)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def _seconds(append: Append) -> float:
    began = time.perf_counter()
    append()
    return time.perf_counter() - began


def one_writer(folder: Path, count: int) -> tuple[Goal, float]:
    """Return the goal of a single writer, and the seconds of one raw commit."""
    url = f"sqlite:///{folder}/ledger.db"
    ledger_at(url, folder).close()
    create_raw_sqlite(folder / "raw.db")
    ours, raw = alternately(
        appending(url, folder), inserting(folder / "raw.db", locked=False), count
    )
    goal = at_least(
        "SQLite, one writer, synchronous=FULL", raw, ours, target=0.8,
        peer_name="INSERT and COMMIT of the same row with sqlite3", runs=count,
    )  # fmt: skip
    return goal, raw


def sixteen_writers(folder: Path, runs: int, seconds: float, commit: float) -> list[Goal]:
    url = f"sqlite:///{folder}/ledger.db"
    pairs = [
        (
            crowd(lambda: appending(url, folder), seconds),
            crowd(lambda: inserting(folder / "raw.db", locked=True), seconds),
        )
        for _ in range(runs)
    ]
    ours, raw = zip(*pairs, strict=True)
    median = statistics.median
    return [
        at_least(
            "SQLite, 16 processes", median(c.rate for c in ours), median(c.rate for c in raw),
            target=0.8, peer_name="the same raw INSERT and COMMIT under the same lock",
            runs=runs,
        ),
        at_least(
            "SQLite, 16 processes, slowest writer", median(c.fairness for c in ours), 1.0,
            target=0.3, peer_name="the fastest writer", runs=runs,
        ),
        at_most(
            "SQLite, 16 processes, 99th percentile", median(c.p99 for c in ours), 16 * commit,
            target=3.0, peer="16 commits of one raw writer", runs=runs,
        ),
    ]  # fmt: skip


def proof(folder: Path, entries: int) -> Goal:
    """Measure an inclusion proof from a warm store, with its verification."""
    store = create_store(f"sqlite:///{folder}/proofs.db")
    leaves = [leaf_hash(n.to_bytes(8, "big")) for n in range(entries)]
    with store.lock():
        store.fill([_entry(n, leaf) for n, leaf in enumerate(leaves)], [""] * entries, [])
    root = store.tree().root()

    def prove(index: int) -> None:
        path = audit_path(store.hashes, index, entries)
        verify_inclusion(leaves[index], index, entries, path, root)

    taken = []
    for n in range(60):
        index = n * (entries - 1) // 59
        prove(index)
        taken.append(_seconds(lambda index=index: prove(index)))  # type: ignore[misc]
    store.close()
    value = statistics.median(taken) * 1000
    return Goal(
        goal=f"inclusion proof from the store, {entries:,} entries, warm", value=round(value, 3),
        target=5.0, unit="milliseconds, smaller is better", peer="a limit, not a peer",
        met=value <= 5.0, runs=60,
    )  # fmt: skip


def audit_path(
    hashes: Callable[[int, int, int], list[bytes]], index: int, size: int
) -> list[bytes]:
    """Return the inclusion proof of RFC 6962 from roots of subtrees."""

    def root(start: int, stop: int) -> bytes:
        # Perfect parts, left to right, folded from the right: the tree over start..stop.
        shifted = prefix(
            lambda level, a, b: hashes(level, a + (start >> 8 * level), b + (start >> 8 * level)),
            stop - start,
        )
        return shifted.root()

    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        split = start + (1 << ((stop - start - 1).bit_length() - 1))
        if index < split:
            path.append(root(split, stop))
            stop = split
        else:
            path.append(root(start, split))
            start = split
    return path[::-1]


def _entry(sequence: int, leaf: bytes) -> Any:
    from workbench.registry.log import StoredEntry

    return StoredEntry(
        sequence=sequence, leaf=leaf, envelope=b"e", salt=b"s" * 16, body=b"b", signature="",
        id=str(sequence), kind="note", subject="lab",
    )  # fmt: skip


# PostgreSQL


def postgres_one_writer(url: str, folder: Path, count: int) -> Goal:
    ledger_at(f"{url}&schema=benchmark", folder / "pg").close()
    create_raw_postgres(url)
    ours, raw = alternately(
        appending(f"{url}&schema=benchmark", folder / "pg"), inserting_postgres(url), count
    )
    return at_least(
        "PostgreSQL, one writer, advisory lock", raw, ours, target=0.7,
        peer_name="INSERT and COMMIT of the same row with pg8000", runs=count,
    )  # fmt: skip


def connected(url: str) -> Any:
    import pg8000.dbapi

    arguments_ = parse_url(url).arguments(read_only=False)
    arguments_["startup_params"]["search_path"] = "public"
    return pg8000.dbapi.connect(**arguments_)


def create_raw_postgres(url: str) -> None:
    connection = connected(url)
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS raw")
    cursor.execute("CREATE SEQUENCE IF NOT EXISTS raw_next")
    for statement in (TABLE.format(number="BIGINT", bytes="BYTEA"), *INDICES):
        cursor.execute(statement)
    connection.commit()
    connection.close()


def inserting_postgres(url: str) -> Append:
    connection = connected(url)
    cursor = connection.cursor()
    insert = "INSERT INTO raw VALUES (nextval('raw_next'), %s, %s, %s, %s, %s, %s, %s, %s)"
    tag, count = os.urandom(8), iter(range(10**9))

    def one() -> None:
        cursor.execute(insert, row(next(count), tag)[1:])
        connection.commit()

    return one


def postgres_sixteen(url: str, folder: Path, runs: int, seconds: float) -> Goal:
    pairs = [
        (
            crowd(lambda: appending(f"{url}&schema=benchmark", folder / "pg"), seconds),
            crowd(lambda: inserting_postgres(url), seconds),
        )
        for _ in range(runs)
    ]
    ours, raw = (statistics.median(one.rate for one in side) for side in zip(*pairs, strict=True))
    return at_least(
        "PostgreSQL, 16 processes, requests in one commit", ours, raw, target=0.8,
        peer_name="16 processes that INSERT and COMMIT the same row without any lock", runs=runs,
    )  # fmt: skip


def postgres_goals(folder: Path, count: int, runs: int, seconds: float) -> Iterator[Goal]:
    reason = postgres.missing()
    if reason:
        print(f"PostgreSQL is left out: {reason}", file=sys.stderr)
        return
    with postgres.server() as given:
        url = given if "?" in given else f"{given}?"
        yield postgres_one_writer(url, folder, count)
        yield postgres_sixteen(url, folder, runs, seconds)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk of the working directory, whose syncs are real; /tmp may be memory."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        yield Path(folder)


def main() -> None:
    runs, as_json = arguments()
    smoke = runs == 1
    count, seconds, entries = (20, 1.5, 3000) if smoke else (1500, 4.0, 100_000)
    crowds = 1 if smoke else 3
    with scratch() as folder:
        first, commit = one_writer(folder, count)
        goals = [first, *sixteen_writers(folder, crowds, seconds, commit), proof(folder, entries)]
        goals += postgres_goals(folder, count // 2, crowds, seconds)
    report(goals, as_json=as_json)


if __name__ == "__main__":
    main()
