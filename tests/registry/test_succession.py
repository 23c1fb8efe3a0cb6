"""A key is replaced, whole or not at all, whenever the process dies."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, LogFolder
from workbench.errors import IntegrityError
from workbench.registry.entries import KeyRotation, Note
from workbench.registry.heads import sign_head, verify_head
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.notes import SigningKey
from workbench.registry.rotation import Role
from workbench.registry.verify import verify_log

ROOT = Path(__file__).parents[2]

ROTATOR = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from workbench.registry import succession, writer as module
from workbench.registry.keys import Keys
from workbench.registry.ledger import Ledger
from workbench.registry.store.sqlite import SqliteStore as Store

root, role, crash = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def wrapped(*args, **named):
        function(*args, **named)
        die()
    return wrapped

ledger = Ledger.open(url=f"sqlite:///{root}/state/ledger.db", origin="example.com/lab",
                     keys_dir=root / "keys", actor="writer", clock=lambda: datetime.now(UTC))
if crash == "new key waits":
    module.rotation_body = die
if crash == "before commit":
    Store.append = die
if crash == "after commit":
    Store.append = after(Store.append)
if crash == "old key kept":
    succession.write_once = after(succession.write_once)
if crash == "key files replaced":
    module.install = after(module.install)
if crash == "before the head is kept":
    Keys.keep_head = die
ledger.rotate(role, why="scheduled", reason="yearly")
die()
"""
UNDONE = {"new key waits", "before commit"}
CRASHES = [
    *sorted(UNDONE),
    "after commit",
    "old key kept",
    "key files replaced",
    "before the head is kept",
    "done",
]


def rotate_and_die(folder: LogFolder, role: str, crash: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ROTATOR, str(folder.root), role, crash],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("role", ["log", "author"])
@pytest.mark.parametrize("crash", CRASHES)
def test_rotation_killed_at_each_step_is_whole_or_undone(
    story: LogFolder, role: Role, crash: str
) -> None:
    before = load_keys(story.root / "keys", ORIGIN)
    rotate_and_die(story, role, crash)
    with story.open() as ledger:
        rotations = [entry.body for entry in ledger.entries(kind="key_rotation")]
        after = load_keys(story.root / "keys", ORIGIN)
        assert len(rotations) == (0 if crash in UNDONE else 1)
        assert (after == before) == (crash in UNDONE)
        ledger.append(Note(text="after the crash"), subject="lab")
        chain = ledger.chain()
        assert (chain.log, chain.author) == (after.log.verifier, after.author.verifier)
        # Every head that was signed carries the key in force at its size.
        for note in ledger.notes():
            size = int(note.split("\n")[1])
            verify_head(note, chain.log_at(size))
    assert not list(story.keys.glob("*.next"))
    retired = list(story.keys.glob(f"{role}.key.retired-*"))
    assert len(retired) == len(rotations)
    assert {stat.S_IMODE(path.stat().st_mode) for path in story.keys.iterdir()} == {0o600}


def test_copy_of_a_key_that_a_killed_rotation_left_is_removed(story: LogFolder) -> None:
    """Whoever destroys the key that was replaced must not leave one in a hidden file."""
    left = story.keys / ".log.key.retired-00000000.77.77.tmp"
    left.write_text("a private key")
    with story.open() as ledger:
        assert not left.exists()
        left.write_text("a private key")
        ledger.rotate("log", why="scheduled", reason="yearly")
        assert not left.exists()


def test_rotation_is_taken_up_by_a_ledger_that_was_open_already(story: LogFolder) -> None:
    with story.open() as writer, story.open() as other:
        other.rotate("log", why="scheduled", reason="yearly")
        other.rotate("author", why="owner_change", reason="new owner")
        entry = writer.append(Note(text="by the new keys"), subject="lab")
        chain = writer.chain()
        assert entry.sequence == 19
        assert verify_head(writer.head().note, chain.log).size == 20
        assert writer.vkey == other.vkey == str(chain.log)


@pytest.mark.parametrize("role", ["log", "author"])
@pytest.mark.parametrize("crash", ["new key waits", "after commit", "old key kept"])
def test_rotation_that_another_process_died_in_is_settled_by_an_open_ledger(
    story: LogFolder, role: Role, crash: str
) -> None:
    with story.open() as ledger:
        rotate_and_die(story, role, crash)
        ledger.append(Note(text="goes on"), subject="lab")
        chain = ledger.chain()
        assert verify_head(ledger.head().note, chain.log).size == ledger.head().size
        # Another rotation replaces what may still wait.
        ledger.rotate(role, why="scheduled", reason="again")
        assert not list(story.keys.glob("*.next"))
    with story.open() as again:
        assert len(list(again.entries(kind="key_rotation"))) == (1 if crash in UNDONE else 2)


def test_rotation_entry_is_signed_by_the_old_author_and_names_both_keys(story: LogFolder) -> None:
    before = load_keys(story.root / "keys", ORIGIN)
    with story.open() as ledger:
        entry = ledger.rotate("author", why="compromise", reason="laptop was stolen")
    body = entry.body
    assert isinstance(body, KeyRotation)
    assert (body.old_key, body.why) == (str(before.author.verifier), "compromise")
    assert body.new_key == str(load_keys(story.root / "keys", ORIGIN).author.verifier)
    assert entry.subject == "lab"


def test_old_backup_of_the_keys_is_refused_after_a_rotation(story: LogFolder) -> None:
    backup = (story.keys / "log.key").read_bytes()
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="yearly")
    (story.keys / "log.key").write_bytes(backup)
    with pytest.raises(IntegrityError, match="was given up by a rotation") as refusal:
        story.open()
    assert "newest backup" in refusal.value.remedy


def test_key_of_somebody_else_is_refused_on_opening(story: LogFolder) -> None:
    key = SigningKey(name=f"{ORIGIN}/author", seed=b"x" * 32)
    (story.keys / "author.key").write_text(key.to_text())
    with pytest.raises(IntegrityError, match=r"author\.key holds key .* is not named by the log"):
        story.open()


def test_rotation_put_into_the_store_by_an_intruder_changes_no_key(story: LogFolder) -> None:
    """Without the private keys nobody writes a rotation that verifies."""
    with story.open() as ledger:
        ledger.rotate("author", why="scheduled", reason="yearly")
        (stored,) = [s for s in ledger.records() if s.kind == "key_rotation"]
    body = json.loads(stored.body)
    body["new_key"] = body["old_key"]
    story.sql(f"UPDATE entries SET body = CAST('{json.dumps(body)}' AS BLOB) WHERE sequence = 17")
    with pytest.raises(IntegrityError, match="entry 17"):
        story.open()


def test_last_head_by_a_key_that_never_was_this_logs_is_refused(story: LogFolder) -> None:
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="yearly")
    foreign = SigningKey(name=ORIGIN, seed=b"x" * 32)
    (story.keys / "last-head").write_text(sign_head(foreign, 3, b"r" * 32).note)
    with pytest.raises(IntegrityError, match="last-head is not the last signed head"):
        story.open()


def test_rotation_while_a_ledger_is_inspected_does_not_disturb_it(story: LogFolder) -> None:
    url = f"sqlite:///{story.database}"
    with Ledger.inspect(url=url, origin=ORIGIN, keys_dir=story.root / "keys") as reader:
        with story.open() as ledger:
            ledger.rotate("log", why="scheduled", reason="yearly")
        assert len(list(reader.entries())) == 18
        assert str(reader.chain().log_at(17)) == reader.vkey


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from workbench.registry.entries import Decision
from workbench.registry.ledger import Ledger

root = Path(sys.argv[1])
ledger = Ledger.open(url=f"sqlite:///{root}/state/ledger.db", origin="example.com/lab",
                     keys_dir=root / "keys", actor="writer", clock=lambda: datetime.now(UTC))
body = Decision(question="q", options=["a"], chosen="a", basis="judgement", evidence=["e"],
                owner="o", reversible=False, would_reverse="w")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    ledger.append(body, subject="lab")
"""


@pytest.mark.slow
def test_rotations_among_many_writers_leave_every_signature_right(story: LogFolder) -> None:
    """Writers that wait ask for entries signed by the key of that moment; none comes after it."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, str(story.root)],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(6)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    with story.open() as ledger:
        for n in range(8):
            ledger.rotate("author" if n % 2 else "log", why="scheduled", reason=str(n))
        for writer in writers:
            _, error = writer.communicate()
            assert writer.returncode == 0, error
        report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
        assert report.passed, report.first_failure
        assert report.size == 17 + 6 * 60 + 8
