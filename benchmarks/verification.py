"""How fast a published log is verified, and what memory that takes, as the log grows.

python benchmarks/verification.py [--json] [--smoke]

The logs are written by this file: notes of some 40 bytes, each referring to the one before it, the
signed head over all of them. Every figure is of a process of its own, in seconds of one processor.
"""

import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from measure import Goal, arguments, report

from workbench.canonical import canonical_json
from workbench.registry.entries import Genesis, Note
from workbench.registry.heads import sign_head
from workbench.registry.log import StoredEntry, body_hash, timestamp, uuid7
from workbench.registry.merkle import leaf_hash
from workbench.registry.notes import SigningKey
from workbench.registry.publish import PublishedLog
from workbench.registry.tiles import WIDTH, GrowingTiles, Tile, body_line, write_bundle
from workbench.registry.verify import verify_log

ORIGIN = "example.com/benchmark"
LOG = SigningKey(name=ORIGIN, seed=bytes(32))
AUTHOR = SigningKey(name=f"{ORIGIN}/author", seed=bytes([1]) * 32)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PER_SECOND = 100_000
TIMES_TEN = 12.0
MEGABYTES = 100.0


def records(count: int) -> Iterator[StoredEntry]:
    genesis = Genesis(lab="benchmark", record_format="1", log_key=str(LOG.verifier),
                      author_key=str(AUTHOR.verifier))  # fmt: skip
    before = ""
    for at in range(count):
        body = Note(text=f"note {at} of a small log") if at else genesis
        data, salt = canonical_json(body.to_json()), hashlib.sha256(b"%d" % at).digest()[:16]
        moment = BEGAN + timedelta(milliseconds=100 * at)
        # Written out, because the typed envelope takes ten times as long.
        envelope = (
            f'{{"actor":"researcher","body_hash":"{body_hash(salt, data)}",'
            f'"id":"{uuid7(moment, salt)}","kind":"{body.kind}","log":"{ORIGIN}",'
            f'"refs":[{before}],"subject":"lab","time":"{timestamp(moment)}","v":1}}'
        ).encode()
        leaf = leaf_hash(envelope)
        before = f'"{leaf.hex()}"'
        yield StoredEntry(
            sequence=at, leaf=leaf, envelope=envelope, salt=salt, body=data, signature=""
        )


def write_log(folder: Path, count: int) -> None:
    tiles = GrowingTiles(lambda *_: [], 0)

    def put(name: str, data: bytes) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    for index, group in groupby(records(count), lambda stored: stored.sequence // WIDTH):
        found = list(group)
        tile = Tile(level=0, index=index, width=len(found))
        put(tile.bundle_path, write_bundle([stored.envelope for stored in found]))
        lines = [body_line(s.sequence, s.body, s.salt, s.signature) for s in found]
        put(tile.body_path, b"".join(lines))
        for stored in found:
            for full, hashes in tiles.add(stored.leaf):
                put(full.path, b"".join(hashes))
    for part, hashes in tiles.unfinished():
        put(part.path, b"".join(hashes))
    put("checkpoint", sign_head(LOG, count, tiles.root()).note.encode())
    put("log.vkey", f"{LOG.verifier}\n".encode())
    put("author.vkey", f"{AUTHOR.verifier}\n".encode())


def measure_one(folder: Path) -> None:
    """Print the processor seconds of verifying a log, its entries and the most memory held."""
    log = PublishedLog(folder)
    began = time.process_time()
    outcome = verify_log(log, vkey=str(LOG.verifier), kept_head=None)
    seconds = time.process_time() - began
    if not outcome.passed:
        raise SystemExit(str(outcome.first_failure))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "entries": outcome.size, "megabytes": peak}))


def measure_raw(folder: Path) -> float:
    """Return the processor seconds of only hashing and parsing what the files hold."""
    began = time.process_time()
    for columns in PublishedLog(folder).columns():
        for envelope, salt, body in zip(
            columns.envelopes, columns.salts, columns.bodies, strict=True
        ):
            hashlib.sha256(b"\x00" + envelope).digest()
            hashlib.sha256(b"\x02" + salt + body).hexdigest()
            json.loads(envelope)
            json.loads(body)
    return time.process_time() - began


def measured(folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def goal(name: str, value: float, target: float, *, unit: str, peer: str, runs: int) -> Goal:
    met = value >= target if unit.startswith("entries") else value <= target
    return Goal(goal=name, value=round(value, 3), target=target, unit=unit, peer=peer, met=met,
                runs=runs)  # fmt: skip


def main() -> None:
    runs, as_json = arguments()
    runs = min(runs, 5)
    small, large = (1_000, 10_000) if runs == 1 else (100_000, 1_000_000)
    with tempfile.TemporaryDirectory() as scratch:
        folders = {count: Path(scratch) / str(count) for count in (small, large)}
        for count, folder in folders.items():
            write_log(folder, count)
        found = [measured(folders[small]) for _ in range(runs)]
        raw = [measure_raw(folders[small]) for _ in range(runs)]
        million = measured(folders[large])
    seconds = statistics.median(one["seconds"] for one in found)
    report(
        [
            goal(f"verify {small} small entries", small / seconds, PER_SECOND,
                 unit="entries per second of one processor", peer="the goal", runs=runs),
            goal(f"verify {small} small entries, against hashing and parsing them",
                 seconds / statistics.median(raw), 2.0, unit="ratio of medians",
                 peer="hashlib and json.loads over the same files", runs=runs),
            goal(f"verify {large} entries against {small}", million["seconds"] / seconds,
                 TIMES_TEN, unit="ratio", peer=f"the same on {small} entries", runs=runs),
            goal(f"most memory while verifying {large} entries", million["megabytes"], MEGABYTES,
                 unit="MB resident", peer="the goal", runs=1),
        ],
        as_json=as_json,
    )  # fmt: skip


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure_one(Path(sys.argv[-1]))
    else:
        main()
