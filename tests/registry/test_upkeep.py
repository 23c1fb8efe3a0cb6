"""Rotation, embargo and redaction end to end: what is published of them, and that it verifies."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, SUBJECT, LogFolder
from workbench.errors import IntegrityError
from workbench.registry.entries import Embargo, Hidden, Note, Redaction, Reveal
from workbench.registry.heads import sign_head
from workbench.registry.keys import load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.log import body_hash
from workbench.registry.notes import SigningKey
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.redaction import find_entry
from workbench.registry.verify import LogReport, verify_log

SECRET = "the mixture that nobody may know yet"


def verified(log: Ledger | PublishedLog, vkey: str = "", kept: str | None = None) -> LogReport:
    return verify_log(
        log, vkey=vkey or log.vkey, kept_head=kept, now=datetime(2031, 1, 1, tzinfo=UTC)
    )


def failure(report: LogReport) -> str:
    return "" if report.first_failure is None else report.first_failure.name


def published(folder: LogFolder) -> PublishedLog:
    return PublishedLog(folder.published)


def holds(folder: Path, secret: str) -> list[str]:
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


def test_rotated_log_verifies_from_either_copy_with_the_old_key_and_the_new(
    story: LogFolder,
) -> None:
    kept = published(story).head().note
    with story.open() as ledger:
        old = ledger.vkey
        ledger.rotate("log", why="scheduled", reason="yearly")
        ledger.rotate("author", why="scheduled", reason="yearly")
        ledger.append(Note(text="by the new keys"), subject="lab")
        new = ledger.vkey
        assert old != new
        publish(ledger, story.published)
        for log in (ledger, published(story)):
            for key in (old, new):
                # A head that a reader kept from before the rotation still counts.
                assert verified(log, key, kept).passed
    assert published(story).vkey == new
    assert (story.published / "author.vkey").read_text().strip() == str(
        load_keys(story.root / "keys", ORIGIN).author.verifier
    )
    stranger = SigningKey(name=ORIGIN, seed=b"s" * 32).verifier
    assert not verified(published(story), str(stranger)).passed


def test_head_that_the_stolen_key_signs_after_its_rotation_is_refused(story: LogFolder) -> None:
    """Compromise: the thief holds the old log key, and the rotation was published."""
    stolen = load_keys(story.root / "keys", ORIGIN).log
    with story.open() as ledger:
        old = ledger.vkey
        ledger.rotate("log", why="compromise", reason="a laptop was stolen")
        ledger.append(Note(text="after"), subject="lab")
        publish(ledger, story.published)
        head = ledger.head()
    forged = sign_head(stolen, head.size, head.root)
    (story.published / "checkpoint").write_text(forged.note)
    for key in (old, str(stolen.verifier)):
        assert failure(verified(published(story), key)) == "signed head"


def test_history_that_the_stolen_key_forks_is_refused_by_a_head_from_after_the_rotation(
    story: LogFolder, tmp_path: Path
) -> None:
    """What the procedure asks for: readers who kept the head over the rotation see the fork."""
    fork = LogFolder(root=tmp_path / "fork")
    shutil.copytree(story.root, fork.root)
    with story.open() as ledger:
        ledger.rotate("log", why="compromise", reason="stolen")
        kept = ledger.head().note
    with fork.open() as ledger:
        for n in range(3):
            ledger.append(Note(text=f"forged {n}"), subject="lab")
        # Alone, the fork is a log that its key signed; only a head that somebody kept tells.
        assert verified(ledger).passed
        assert failure(verified(ledger, kept=kept)) == "kept head"


def test_embargoed_content_is_published_only_after_the_reveal(story: LogFolder) -> None:
    with story.open() as ledger:
        embargo = ledger.append(Embargo(until="2030-01-31", reason="review"), subject=SUBJECT)
        for n in range(3):
            ledger.append(Note(text=f"{SECRET} {n}"), subject=SUBJECT)
        ledger.append(Note(text="for all"), subject="lab")
        publish(ledger, story.published)
        assert holds(story.published, SECRET) == []
        assert holds(story.published, "for all")
        report = verified(published(story))
        assert report.passed, report.first_failure
        # Overdue by the day of the reader: a warning with the date, for everybody to see.
        assert any("2030-01-31" in warning and SUBJECT in warning for warning in report.warnings)
        assert [type(e.body) for e in published(story).entries(subject=SUBJECT)][-3:] == [
            Hidden
        ] * 3
        # The owner has it all, and verifies with it.
        assert verified(ledger).passed
        ledger.append(Reveal(reason="accepted"), subject=SUBJECT, refs=[embargo.leaf])
        publish(ledger, story.published)
    report = verified(published(story))
    assert report.passed, report.first_failure
    assert not any("2030-01-31" in warning for warning in report.warnings)
    assert [e.body for e in published(story).entries(subject=SUBJECT)][-4:-1] == [
        Note(text=f"{SECRET} {n}") for n in range(3)
    ]


def test_hash_of_withheld_content_cannot_be_guessed_without_its_salt(story: LogFolder) -> None:
    """Who guesses the content exactly still cannot confirm it: the salt is withheld with it."""
    with story.open() as ledger:
        ledger.append(Embargo(until="2030-01-31", reason="review"), subject=SUBJECT)
        entry = ledger.append(Note(text="yes"), subject=SUBJECT)
        publish(ledger, story.published)
    public = story.published / "tile" / "entries" / "000.p" / "19"
    assert entry.salt.hex().encode() not in public.read_bytes()
    assert holds(story.published, entry.salt.hex()) == []
    told = entry.envelope.decode()
    assert body_hash(bytes(16), entry.body_bytes) not in told
    assert body_hash(b"", entry.body_bytes) not in told


def test_redacted_content_leaves_store_and_published_files_and_both_verify(
    story: LogFolder,
) -> None:
    with story.open() as ledger:
        ledger.append(Note(text=SECRET), subject=SUBJECT)
        publish(ledger, story.published)
        assert holds(story.published, SECRET)
        kept = ledger.head().note
        ledger.redact(find_entry(ledger, "17"), what="licence", reason="no licence")
        publish(ledger, story.published)
        assert holds(story.root / "state", SECRET) == []
        assert holds(story.published, SECRET) == []
        for log in (ledger, published(story)):
            report = verified(log, kept=kept)
            assert report.passed, report.first_failure


def test_body_that_is_missing_without_a_redaction_fails_verification(story: LogFolder) -> None:
    path = story.published / "bodies" / "000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[16] = b'{"sequence":16,"signature":""}\n'
    path.write_bytes(b"".join(lines))
    assert failure(verified(published(story))) == "bodies"
    story.sql("UPDATE entries SET body = x'', salt = x'' WHERE sequence = 16")
    with story.open() as ledger:
        assert failure(verified(ledger)) == "bodies"
        ledger.append(Note(text="new"), subject="lab")
        with pytest.raises(IntegrityError, match="no embargo or redaction accounts for it"):
            publish(ledger, story.published)


@pytest.mark.parametrize("target", [0, 2])
def test_redaction_of_what_verification_needs_fails_verification(
    story: LogFolder, target: int
) -> None:
    """The commands refuse it; a log that records it all the same does not verify."""
    with story.open() as ledger:
        entry = find_entry(ledger, str(target))
        ledger.append(Redaction(what="other", reason="r"), subject=entry.subject, refs=[entry.leaf])
        assert not verified(ledger).passed


def test_embargo_redaction_and_rotation_together(story: LogFolder) -> None:
    with story.open() as ledger:
        ledger.append(Embargo(until="2030-01-31", reason="review"), subject=SUBJECT)
        ledger.append(Note(text=SECRET), subject=SUBJECT)
        ledger.append(Note(text="stays hidden"), subject=SUBJECT)
        ledger.rotate("log", why="owner_change", reason="r")
        ledger.redact(find_entry(ledger, "18"), what="personal_data", reason="r")
        ledger.rotate("author", why="owner_change", reason="r")
        publish(ledger, story.published)
        embargo = find_entry(ledger, "17")
        ledger.append(Reveal(), subject=SUBJECT, refs=[embargo.leaf])
        publish(ledger, story.published)
        assert verified(ledger).passed
    assert verified(published(story)).passed
    assert holds(story.published, SECRET) == []
    assert holds(story.published, "stays hidden")
