"""Killed at any moment, and from many processes at once."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, LogFolder
from workbench.canonical import canonical_json
from workbench.errors import IntegrityError
from workbench.registry.entries import Decision, Note
from workbench.registry.ledger import Ledger
from workbench.registry.log import body_hash
from workbench.registry.merkle import leaf_hash
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.store import open_store
from workbench.registry.subtrees import grown
from workbench.registry.verify import verify_log
from workbench.registry.writer import Writer

ROOT = Path(__file__).parents[2]

WRITER = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from workbench.errors import ConflictError
from workbench.registry import ledger as module
from workbench.registry.entries import Note
from workbench.registry.keys import Keys
from workbench.registry.ledger import Ledger
from workbench.registry.store.sqlite import SqliteStore as Store

root, count, crash = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
arguments = dict(url=f"sqlite:///{root}/state/ledger.db", origin="example.com/lab",
                 keys_dir=root / "keys", actor="writer", clock=lambda: datetime.now(UTC))

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def wrapped(*args):
        function(*args)
        die()
    return wrapped

sys.stdin.readline()
try:
    ledger = Ledger.create(**arguments, lab_name="lab")
except ConflictError:
    ledger = Ledger.open(**arguments)
if crash == "before commit":
    Store.append = die
if crash == "after commit":
    Store.append = after(Store.append)
if crash == "before the head is stored":
    Store.add_head = die
if crash == "before the head is kept":
    Keys.keep_head = die
if crash == "after the head is kept":
    Keys.keep_head = after(Keys.keep_head)
for n in range(count):
    entry = ledger.append(Note(text=f"{os.getpid()}.{n}"), subject="lab")
    print(entry.leaf, flush=True)
"""


def _writer(folder: LogFolder, count: int, crash: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WRITER, str(folder.root), str(count), crash],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("crash", "entries"),
    [
        ("before commit", 17),
        ("after commit", 18),
        ("before the head is stored", 18),
        ("before the head is kept", 18),
        ("after the head is kept", 18),
    ],
)
def test_killed_at_each_step_of_an_append_the_log_heals_and_goes_on(
    story: LogFolder, crash: str, entries: int
) -> None:
    writer = _writer(story, 1, crash)
    writer.communicate("\n")
    assert writer.returncode == -signal.SIGKILL
    with story.open() as ledger:
        assert ledger.head().size == entries
        assert len(list(ledger.entries())) == entries
        ledger.append(Note(text="after the crash"), subject="lab")
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
        # The published copy from before the crash is still a prefix.
        publish(ledger, story.published)
        assert len(list(PublishedLog(story.published).entries())) == entries + 1


def test_killed_after_commit_reader_without_the_writer_sees_only_what_is_signed(
    story: LogFolder,
) -> None:
    reader = story.open()
    writer = _writer(story, 1, "after commit")
    writer.communicate("\n")
    assert len(list(reader.entries())) == 17
    assert verify_log(reader, vkey=reader.vkey, kept_head=None).passed
    # An open ledger heals on its next append as well.
    assert reader.append(Note(text="x"), subject="lab").sequence == 18
    assert reader.head().size == 19
    reader.close()


@pytest.mark.parametrize("damage", ["leaf", "body", "tree", "signature"])
def test_unsigned_entry_that_was_changed_is_not_signed_afterwards(
    story: LogFolder, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    decision = Decision(question="?", options=["a"], chosen="a", basis="rule", evidence=[],
                        owner="o", reversible=True, would_reverse="x")  # fmt: skip
    with story.open() as ledger, monkeypatch.context() as patch:
        patch.setattr(Writer, "_sign", die)
        with pytest.raises(Killed):
            ledger.append(decision, subject="lab")
    story.sql({
        "leaf": "UPDATE entries SET leaf = zeroblob(32) WHERE sequence = 17",
        "body": "UPDATE entries SET body = CAST(body || ' ' AS BLOB) WHERE sequence = 17",
        "tree": "UPDATE tree SET frontier = zeroblob(64)",
        "signature": "UPDATE entries SET signature = '' WHERE sequence = 17",
    }[damage])  # fmt: skip
    with pytest.raises(IntegrityError):
        story.open()


@pytest.mark.parametrize("announced", ["", "replayed"])
def test_entry_that_no_writer_announced_is_never_signed_nor_read(
    story: LogFolder, announced: str
) -> None:
    """An intruder with the store alone adds an entry whose every hash fits."""
    body = b'{"text":"forged"}'
    with story.open() as ledger:
        known = list(ledger.records())[-1]
    envelope = json.loads(known.envelope) | {
        "body_hash": body_hash(known.salt, body),
        "id": known.id[:-1] + ("0" if known.id[-1] != "0" else "1"),  # type: ignore[index]
    }
    data = canonical_json(envelope)
    forged = replace(known, sequence=17, envelope=data, leaf=leaf_hash(data), body=body,
                     id=str(envelope["id"]))  # fmt: skip
    store = open_store(f"sqlite:///{story.database}")
    if announced:
        (announced,) = store.announcements(since=16, below=17)
    store.append([forged], [announced], grown(store.tree(), [forged.leaf]))
    store.close()
    with pytest.raises(IntegrityError, match=r"entry 17 \(note .* was put into the store by"):
        story.open()
    with Ledger.inspect(
        url=f"sqlite:///{story.database}", origin=ORIGIN, keys_dir=story.root / "keys"
    ) as reader:
        assert len(list(reader.entries())) == 17


@pytest.mark.slow
def test_killed_at_random_every_acknowledged_entry_is_kept(fresh: LogFolder) -> None:
    """C3, A9 in kind: kill -9 while appending, several times over the same log."""
    acknowledged: list[str] = []
    for lines in (1, 7, 23, 40):
        writer = _writer(fresh, 10_000)
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        acknowledged += [writer.stdout.readline().strip() for _ in range(lines)]
        # The writer is in the middle of some append now, wherever that is.
        writer.kill()
        rest, _ = writer.communicate()
        acknowledged += rest.split()
        with fresh.open() as ledger:
            leaves = {entry.leaf for entry in ledger.entries()}
            assert set(acknowledged) <= leaves
            assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
    assert len(acknowledged) >= 71


@pytest.mark.slow
def test_verify_while_another_process_appends_never_fails(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        writer = _writer(fresh, 60)
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        rounds = 0
        while writer.poll() is None:
            report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
            assert report.passed, report.first_failure
            publish(ledger, fresh.published)
            rounds += 1
        writer.communicate()
        assert rounds > 0
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).size == 61
