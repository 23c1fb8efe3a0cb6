"""Erasing an entry's body: recorded first, erased then, also after a crash."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registry.conftest import SUBJECT, LogFolder
from workbench.errors import ConflictError, IntegrityError, InvalidFileError, NotFoundError
from workbench.registry.entries import Hidden, Note, Redaction
from workbench.registry.redaction import find_entry
from workbench.registry.store import open_store

ROOT = Path(__file__).parents[2]
SECRET = "the password is hunter2 and nothing else"

REDACTOR = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from workbench.registry.ledger import Ledger
from workbench.registry.store.sqlite import SqliteStore as Store

root = Path(sys.argv[1])
ledger = Ledger.open(url=f"sqlite:///{root}/state/ledger.db", origin="example.com/lab",
                     keys_dir=root / "keys", actor="writer", clock=lambda: datetime.now(UTC))
Store.erase = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
target = next(e for e in ledger.entries() if e.sequence == int(sys.argv[2]))
ledger.redact(target, what="secret", reason="a password")
"""


def traces(folder: LogFolder) -> list[str]:
    """Return the files of the store that still hold the secret."""
    return sorted(
        path.name
        for path in folder.database.parent.iterdir()
        if SECRET.encode() in path.read_bytes()
    )


@pytest.fixture
def told(story: LogFolder) -> LogFolder:
    """A log with a secret in entry 17."""
    with story.open() as ledger:
        ledger.append(Note(text=SECRET), subject=SUBJECT)
    assert traces(story)
    return story


def test_redaction_erases_body_and_salt_and_keeps_the_envelope(told: LogFolder) -> None:
    with told.open() as ledger:
        target = find_entry(ledger, "17")
        entry = ledger.redact(target, what="secret", reason="a password")
        assert entry.refs == (target.leaf,)
        assert entry.subject == SUBJECT
        after = find_entry(ledger, "17")
        assert after.envelope == target.envelope
        assert isinstance(after.body, Hidden)
        assert (after.body_bytes, after.salt) == (b"", b"")
        ledger.append(Note(text="on we go"), subject="lab")
    assert traces(told) == []


def test_redaction_killed_before_the_erasure_is_completed_on_opening(told: LogFolder) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", REDACTOR, str(told.root), "17"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert traces(told)
    with told.open() as ledger:
        assert [e.sequence for e in ledger.entries(kind="redaction")] == [18]
        assert isinstance(find_entry(ledger, "17").body, Hidden)
    assert traces(told) == []


def test_store_refuses_an_erasure_that_no_later_redaction_asks_for(told: LogFolder) -> None:
    store = open_store(f"sqlite:///{told.database}")
    for by in (1, 16, 17, 99):
        with pytest.raises(IntegrityError):
            store.erase(17, by=by)
    store.close()
    assert traces(told)


@pytest.mark.parametrize("sequence", [0, 2])
def test_redaction_of_what_verification_rests_on_is_refused(
    story: LogFolder, sequence: int
) -> None:
    with story.open() as ledger:
        target = find_entry(ledger, str(sequence))
        with pytest.raises(ConflictError, match=f"entry {sequence} .*never erased"):
            ledger.redact(target, what="other", reason="r")
        assert ledger.head().size == 17


def test_redaction_twice_or_without_a_reason_is_refused(told: LogFolder) -> None:
    with told.open() as ledger:
        with pytest.raises(InvalidFileError, match="reason"):
            ledger.redact(find_entry(ledger, "17"), what="secret", reason=" ")
        ledger.redact(find_entry(ledger, "17"), what="secret", reason="a password")
        with pytest.raises(ConflictError, match="no body here"):
            ledger.redact(find_entry(ledger, "17"), what="secret", reason="again")
        assert ledger.head().size == 19


def test_redaction_by_an_intruder_in_the_store_erases_nothing(told: LogFolder) -> None:
    """Only what the author signed erases a body."""
    with told.open() as ledger:
        target = find_entry(ledger, "17")
        ledger.append(Redaction(what="other", reason="r"), subject=SUBJECT, refs=[target.leaf])
    told.sql("UPDATE entries SET signature = '' WHERE sequence = 18")
    with pytest.raises(IntegrityError):
        told.open()
    assert traces(told)


@pytest.mark.parametrize("form", ["sequence", "hash", "id", "leaf", "prefix"])
def test_entry_is_found_by_any_of_its_names(story: LogFolder, form: str) -> None:
    with story.open() as ledger:
        wanted = list(ledger.entries())[5]
        names = {
            "sequence": "5",
            "hash": "#5",
            "id": wanted.id,
            "leaf": wanted.leaf,
            "prefix": wanted.leaf[:12].upper(),
        }
        assert find_entry(ledger, names[form]) == wanted


@pytest.mark.parametrize("name", ["99", "", "abc", "0" * 64, "019b76da"])
def test_entry_that_is_not_there_or_not_unique_is_refused(story: LogFolder, name: str) -> None:
    with story.open() as ledger, pytest.raises(NotFoundError, match="no entry is named"):
        find_entry(ledger, name)
