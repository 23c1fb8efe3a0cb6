"""A lost store made anew, and when that is refused."""

import shutil
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, SUBJECT, LogFolder
from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.embargo import withholding_of
from workbench.registry.entries import Embargo, Hidden, Note, Redaction
from workbench.registry.ledger import Ledger
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.redaction import find_entry
from workbench.registry.restore import LOST, Restored, record_losses, restore_store
from workbench.registry.verify import verify_log


def restored(folder: LogFolder, *, accept_loss: bool = False) -> Restored:
    return restore_store(
        PublishedLog(folder.published),
        url=f"sqlite:///{folder.database}",
        origin=ORIGIN,
        keys_dir=folder.root / "keys",
        accept_loss=accept_loss,
    )


def lose_store(folder: LogFolder) -> None:
    shutil.rmtree(folder.database.parent)


def verified(ledger: Ledger) -> bool:
    report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
    assert report.passed, report.first_failure
    return report.passed


def test_restored_store_is_the_lost_one_and_goes_on(story: LogFolder) -> None:
    with story.open() as ledger:
        before = list(ledger.records())
    lose_store(story)
    found = restored(story)
    assert (found.head.size, found.kept.size, found.lost) == (17, 17, ())
    assert not found.are_keys_old
    with story.open() as ledger:
        assert list(ledger.records()) == before
        ledger.append(Note(text="on we go"), subject="lab")
        assert verified(ledger)
        publish(ledger, story.published)
    assert len(list(PublishedLog(story.published).entries())) == 18


def test_restored_after_rotations_and_redactions(story: LogFolder) -> None:
    with story.open() as ledger:
        ledger.append(Note(text="a name"), subject=SUBJECT)
        ledger.rotate("log", why="scheduled", reason="r")
        ledger.rotate("author", why="scheduled", reason="r")
        ledger.redact(find_entry(ledger, "17"), what="personal_data", reason="r")
        publish(ledger, story.published)
    lose_store(story)
    assert restored(story).lost == ()
    with story.open() as ledger:
        assert isinstance(find_entry(ledger, "17").body, Hidden)
        assert record_losses(ledger) == []
        ledger.append(Note(text="on we go"), subject="lab")
        assert verified(ledger)


def test_entries_that_were_signed_and_not_published_refuse_the_restoration(
    story: LogFolder,
) -> None:
    with story.open() as ledger:
        for n in range(3):
            ledger.append(Note(text=str(n)), subject="lab")
    lose_store(story)
    with pytest.raises(ConflictError, match=r"entries 17 to 19 .* were signed") as refusal:
        restored(story)
    assert "--new-origin" in refusal.value.remedy
    assert not story.database.exists()


def test_keys_from_a_backup_are_told_as_such(story: LogFolder) -> None:
    backup = story.keys.with_name("backup")
    shutil.copytree(story.keys, backup)
    with story.open() as ledger:
        ledger.append(Note(text="later"), subject="lab")
        publish(ledger, story.published)
    lose_store(story)
    shutil.rmtree(story.keys)
    backup.rename(story.keys)
    found = restored(story)
    assert found.are_keys_old
    assert (found.kept.size, found.head.size) == (17, 18)
    with story.open() as ledger:
        assert verified(ledger)


def test_keys_that_are_lost_refuse_the_restoration(story: LogFolder) -> None:
    lose_store(story)
    shutil.rmtree(story.keys)
    with pytest.raises(NotFoundError, match="without the keys") as refusal:
        restored(story)
    assert "--new-origin" in refusal.value.remedy


def test_keys_without_their_last_head_refuse_the_restoration(story: LogFolder) -> None:
    lose_store(story)
    for path in story.keys.glob("last-head*"):
        path.unlink()
    with pytest.raises(ConflictError, match="no last-head"):
        restored(story)


def test_keys_from_before_a_rotation_refuse_the_restoration(story: LogFolder) -> None:
    backup = story.keys.with_name("backup")
    shutil.copytree(story.keys, backup)
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="r")
        publish(ledger, story.published)
    lose_store(story)
    shutil.rmtree(story.keys)
    backup.rename(story.keys)
    with pytest.raises(IntegrityError, match="was given up by a rotation"):
        restored(story)


@pytest.mark.parametrize("part", ["tile/entries/000.p/17", "bodies/000.jsonl", "checkpoint"])
def test_published_files_that_do_not_verify_are_not_restored_from(
    story: LogFolder, part: str
) -> None:
    lose_store(story)
    path = story.published / part
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(IntegrityError):
        restored(story)
    assert not story.database.exists()


def test_store_that_holds_a_log_is_never_written_over(story: LogFolder) -> None:
    before = story.database.read_bytes()
    with pytest.raises(ConflictError, match="already holds"):
        restored(story)
    assert story.database.read_bytes() == before


def test_content_under_embargo_is_lost_with_the_store_and_recorded_as_such(
    story: LogFolder,
) -> None:
    with story.open() as ledger:
        ledger.append(Embargo(until="2030-01-31", reason="under review"), subject=SUBJECT)
        for n in range(2):
            ledger.append(Note(text=f"secret {n}"), subject=SUBJECT)
        publish(ledger, story.published)
    lose_store(story)
    with pytest.raises(ConflictError, match="2 entries, withheld until 2030-01-31") as refusal:
        restored(story)
    assert "--accept-loss" in refusal.value.remedy
    assert len(restored(story, accept_loss=True).lost) == 1
    with story.open() as ledger:
        made = record_losses(ledger)
        assert [entry.body for entry in made] == [Redaction(what="other", reason=LOST)] * 2
        assert record_losses(ledger) == []
        assert withholding_of(ledger.entries()).subjects == {SUBJECT: 17}
        assert verified(ledger)
        publish(ledger, story.published)
    published = PublishedLog(story.published)
    assert verify_log(published, vkey=published.vkey, kept_head=None).passed


def test_restoration_killed_before_the_head_is_kept_is_healed_on_opening(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = story.keys.with_name("backup")
    shutil.copytree(story.keys, backup)
    with story.open() as ledger:
        ledger.append(Note(text="later"), subject="lab")
        publish(ledger, story.published)
    lose_store(story)
    shutil.rmtree(story.keys)
    backup.rename(story.keys)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    from workbench.registry.keys import Keys

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "keep_head", killed)
        with pytest.raises(KeyboardInterrupt):
            restored(story)
    with story.open() as ledger:
        assert ledger.head().size == 18
        assert verified(ledger)


def test_folder_without_a_published_log_is_refused(story: LogFolder, tmp_path: Path) -> None:
    lose_store(story)
    with pytest.raises(NotFoundError, match="holds no published log"):
        restore_store(
            PublishedLog(tmp_path / "nothing"),
            url=f"sqlite:///{story.database}",
            origin=ORIGIN,
            keys_dir=story.root / "keys",
            accept_loss=False,
        )
