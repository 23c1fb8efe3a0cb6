"""Bodies that are not there, and keys that were replaced: what verifies, and what does not."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.registry.forge import ForgedLog, key
from tests.registry.stories import FIRST, SECOND, registration, tell_changes
from workbench.errors import IntegrityError
from workbench.registry.entries import Embargo, Hidden, KeyRotation, Note, Redaction, Reveal
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.verify import LogReport, verify_log


def _published(log: ForgedLog, folder: Path) -> LogReport:
    publish(log, folder)
    return verify_log(PublishedLog(folder), vkey=log.vkey, kept_head=None)


def _detail(report: LogReport, name: str) -> str:
    return next(check.detail for check in report.checks if check.name == name)


def _lines(folder: Path) -> list[dict[str, object]]:
    text = (folder / "bodies" / "000.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _notes(log: ForgedLog, upto: int) -> None:
    while len(log.stored) < upto:
        log.add(Note(text=f"note {len(log.stored)}"), subject="lab")


def test_publish_withholds_what_is_under_embargo_and_has_no_redacted_body(tmp_path: Path) -> None:
    log = tell_changes()
    report = _published(log, tmp_path)
    assert report.passed, report.first_failure
    holes = [row["sequence"] for row in _lines(tmp_path) if "body" not in row]
    withheld = [s.sequence for s in log.stored if s.subject == SECOND and s.kind == "registration"]
    redacted = [s.sequence for s in log.stored if not s.body]
    assert holes == sorted(withheld + redacted)
    assert (
        _detail(report, "bodies") == f"{len(log.stored) - 2} entries, 1 redacted, 1 under embargo"
    )
    assert "patent" not in next(s for s in log.stored if s.sequence == withheld[0]).body.decode()


def test_hidden_bodies_read_as_such(tmp_path: Path) -> None:
    publish(tell_changes(), tmp_path)
    entries = list(PublishedLog(tmp_path).entries(subject=SECOND))
    assert [type(entry.body) for entry in entries][1] is Hidden
    assert [entry.kind for entry in entries] == ["embargo", "registration", "anchor"]


@pytest.mark.parametrize(("day", "said"), [(1, "is under embargo until"), (30, "was promised to")])
def test_standing_embargo_is_a_warning_that_says_when_it_is_late(day: int, said: str) -> None:
    now = datetime(2026, 6, day, 23, tzinfo=UTC) if day == 1 else datetime(2026, 7, 1, tzinfo=UTC)
    log = tell_changes()
    report = verify_log(log, vkey=log.vkey, kept_head=None, now=now)
    assert any(f"{SECOND} {said}" in warning for warning in report.warnings)
    assert not any(warning.startswith(FIRST) for warning in report.warnings)


def test_reveal_fills_the_holes_at_the_next_publication(tmp_path: Path) -> None:
    log = tell_changes()
    publish(log, tmp_path)
    embargo = list(log.entries(kind="embargo"))[-1]
    log.add(Reveal(), subject=SECOND, refs=[embargo.leaf])
    report = _published(log, tmp_path)
    assert report.passed, report.first_failure
    assert [row["sequence"] for row in _lines(tmp_path) if "body" not in row] == [
        s.sequence for s in log.stored if not s.body
    ]


def test_body_that_stays_away_after_its_reveal_is_caught(tmp_path: Path) -> None:
    log = tell_changes()
    embargo = list(log.entries(kind="embargo"))[-1]
    log.add(Reveal(), subject=SECOND, refs=[embargo.leaf])
    hidden = next(s for s in log.stored if s.subject == SECOND and s.kind == "registration")
    log.hide(hidden.sequence)
    failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert failure.name == "bodies"
    assert f"entry {hidden.sequence} (registration" in failure.detail
    with pytest.raises(IntegrityError, match="no embargo or redaction accounts for it"):
        publish(log, tmp_path)


def test_embargo_of_another_subject_or_of_later_date_accounts_for_nothing() -> None:
    for subject, is_before in ((SECOND, True), (FIRST, False)):
        log = ForgedLog()
        embargo = Embargo(until="2027-01-01", reason="r")
        if is_before:
            log.add(embargo, subject=subject)
        note = log.add(Note(text="x"), subject=FIRST)
        if not is_before:
            log.add(embargo, subject=subject)
        log.hide(note.sequence)
        failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
        assert failure is not None
        assert f"entry {note.sequence} (note" in failure.detail


@pytest.mark.parametrize(
    ("kind", "message"),
    [("genesis", "is never withheld"), ("embargo", "is never withheld")],
)
def test_hole_where_verification_needs_the_body_is_caught(kind: str, message: str) -> None:
    log = tell_changes()
    log.hide(next(s.sequence for s in log.stored if s.kind == kind))
    failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert (failure.name, message in failure.detail) == ("bodies", True), failure


REDACTIONS: dict[str, tuple[str, str, int, str]] = {
    "of a kind that stays": ("embargo", FIRST, 1, "never erased"),
    "of another subject": ("note", SECOND, 1, f"not of {SECOND}"),
    "of nothing": ("note", FIRST, 0, "it refers to 0 entries"),
}


@pytest.mark.parametrize("case", REDACTIONS)
def test_redaction_of_what_it_may_not_erase_is_caught(case: str) -> None:
    kind, subject, count, message = REDACTIONS[case]
    log = ForgedLog()
    log.add(Embargo(until="2027-01-01", reason="r"), subject=FIRST)
    log.add(Note(text="x"), subject=FIRST)
    (target,) = log.entries(kind=kind)
    entry = log.add(
        Redaction(reason="r", what="other"), subject=subject, refs=[target.leaf][:count]
    )
    failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert failure.name == "order of conduct"
    assert f"entry {entry.sequence} (redaction {entry.id}): " in failure.detail
    assert message in failure.detail


REVEALS: dict[str, tuple[str, str]] = {
    "of nothing": ("", FIRST),
    "of a note": ("note", FIRST),
    "of another subject": ("embargo", SECOND),
    "of one that is over": ("embargo", FIRST),
}


@pytest.mark.parametrize("case", REVEALS)
def test_reveal_of_what_is_no_standing_embargo_of_its_subject_is_caught(case: str) -> None:
    kind, subject = REVEALS[case]
    log = ForgedLog()
    embargo = log.add(Embargo(until="2027-01-01", reason="r"), subject=FIRST)
    log.add(Note(text="x"), subject=FIRST)
    if case == "of one that is over":
        log.add(Reveal(), subject=FIRST, refs=[embargo.leaf])
        assert verify_log(log, vkey=log.vkey, kept_head=None).passed
    refs = [entry.leaf for entry in log.entries(kind=kind)] if kind else []
    last = log.add(Reveal(), subject=subject, refs=refs)
    failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert failure.name == "order of conduct"
    assert f"entry {last.sequence} (reveal {last.id}): " in failure.detail
    assert f"no standing embargo of {subject}" in failure.detail


def test_redaction_of_two_entries_at_once_is_caught() -> None:
    log = ForgedLog()
    notes = [log.add(Note(text=text), subject=FIRST) for text in ("x", "y")]
    body = Redaction(reason="r", what="other")
    log.add(body, subject=FIRST, refs=[note.leaf for note in notes])
    failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert (failure.name, "refers to 2 entries" in failure.detail) == ("order of conduct", True)


def test_changes_that_refer_to_the_wrong_entries_are_caught() -> None:
    reveal = ForgedLog()
    reveal.add(Reveal(), subject=FIRST)
    approving = tell_changes()
    (approval, *_) = approving.entries(kind="approval")
    approving.add(approval.body, subject=SECOND, refs=list(approval.refs))
    late = tell_changes()
    late.add(registration(FIRST), subject=FIRST)
    for log, message in (
        (reveal, f"it refers to no standing embargo of {FIRST}"),
        (approving, f"it refers to no registration or amendment of {SECOND}"),
        (late, f"{FIRST} was registered before"),
    ):
        failure = verify_log(log, vkey=log.vkey, kept_head=None).first_failure
        assert failure is not None
        assert failure.name == "order of conduct"
        assert message in failure.detail


def test_redaction_empties_a_published_body_once_the_head_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ForgedLog()
    private = log.add(Note(text="call Ann at home"), subject=FIRST)
    publish(log, tmp_path)
    log.add(Redaction(reason="r", what="personal_data"), subject=FIRST, refs=[private.leaf])

    def dying(self: Path, target: Path) -> Path:
        if Path(target).name == stop:
            raise KeyboardInterrupt
        return original(self, target)

    original = Path.replace
    for stop in ("checkpoint", "000.jsonl"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", dying)
            if stop == "000.jsonl":
                # Killed after the head was replaced, before the emptied bodies were.
                patch.setattr(
                    "workbench.registry.publish._finish_redactions", _dying_after_the_head
                )
            with pytest.raises(KeyboardInterrupt):
                publish(log, tmp_path)
        published = PublishedLog(tmp_path)
        assert verify_log(published, vkey=log.vkey, kept_head=None).passed
        assert published.head().size == (2 if stop == "checkpoint" else 3)
        assert "Ann" in (tmp_path / "bodies/000.jsonl").read_text("utf-8")
    publish(log, tmp_path)
    assert verify_log(PublishedLog(tmp_path), vkey=log.vkey, kept_head=None).passed
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"Ann" not in path.read_bytes()
        assert "covered-by" not in path.name


def _dying_after_the_head(folder: Path, size: int) -> None:
    if size == 3:
        raise KeyboardInterrupt


def test_publication_reads_and_writes_only_what_is_new(tmp_path: Path) -> None:
    log = ForgedLog()
    _notes(log, 600)
    publish(log, tmp_path)
    # Full bundles are not looked at again: not even one that was damaged meanwhile.
    for name in ("tile/entries/000", "bodies/000.jsonl", "tile/0/000"):
        (tmp_path / name).write_bytes(b"damaged")
    wanted: list[int] = []
    records = log.records

    def spied(*, since: int = 0) -> object:
        wanted.append(since)
        return records(since=since)

    _notes(log, 610)
    log.entries = _indexed(log)  # type: ignore[method-assign]
    log.records = spied  # type: ignore[assignment, method-assign]
    summary = publish(log, tmp_path)
    assert min(wanted) >= 512
    assert set(summary.files) == {
        "bodies/002.jsonl", "tile/entries/002.p/98", "tile/0/002.p/98", "checkpoint",
    }  # fmt: skip
    assert (tmp_path / "bodies/000.jsonl").read_bytes() == b"damaged"
    assert publish(log, tmp_path).files == ()


def _indexed(log: ForgedLog) -> object:
    everything = list(log.entries())
    return lambda *, kind: (entry for entry in everything if entry.kind == kind)


def test_reveal_and_redaction_rewrite_only_the_bundles_that_they_change(tmp_path: Path) -> None:
    log = ForgedLog()
    embargo = log.add(Embargo(until="2027-01-01", reason="r"), subject=FIRST)
    log.add(Note(text="hidden"), subject=FIRST)
    _notes(log, 300)
    private = log.add(Note(text="private"), subject=SECOND)
    _notes(log, 600)
    publish(log, tmp_path)
    log.add(Reveal(), subject=FIRST, refs=[embargo.leaf])
    log.add(Redaction(reason="r", what="other"), subject=SECOND, refs=[private.leaf])
    summary = publish(log, tmp_path)
    report = verify_log(PublishedLog(tmp_path), vkey=log.vkey, kept_head=None)
    assert report.passed, report.first_failure
    assert {name for name in summary.files if name.startswith("bodies")} == {
        "bodies/000.jsonl", "bodies/.001.jsonl.covered-by-602", "bodies/002.jsonl",
    }  # fmt: skip
    assert "hidden" in (tmp_path / "bodies/000.jsonl").read_text("utf-8")
    assert "private" not in (tmp_path / "bodies/001.jsonl").read_text("utf-8")


def test_log_with_replaced_keys_verifies_with_any_of_its_log_keys(tmp_path: Path) -> None:
    log = tell_changes()
    first, newest = str(key(log.origin).verifier), log.vkey
    assert first != newest
    publish(log, tmp_path)
    assert (tmp_path / "log.vkey").read_text("utf-8") == f"{newest}\n"
    assert (tmp_path / "author.vkey").read_text("utf-8") == f"{log.author_key.verifier}\n"
    for vkey in (first, newest):
        for kept in (log.heads[0], log.heads[3], log.heads[-1]):
            for source in (log, PublishedLog(tmp_path)):
                report = verify_log(source, vkey=vkey, kept_head=kept)
                assert report.passed, report.first_failure
    strange = verify_log(log, vkey=str(key(log.origin, 2).verifier), kept_head=None)
    assert strange.first_failure is not None
    assert strange.first_failure.name == "signed head"
    assert strange.size == 0


def test_head_by_the_key_that_was_given_up_is_refused() -> None:
    log = ForgedLog()
    old = log.log_key
    log.rotate("log")
    log.add(Note(text="x"), subject="lab")
    log.log_key = old
    log.heads.pop()
    log.sign()
    failure = verify_log(log, vkey=str(old.verifier), kept_head=None).first_failure
    assert failure is not None
    assert failure.name == "signed head"


def test_key_file_that_lags_behind_a_rotation_is_caught(tmp_path: Path) -> None:
    log = ForgedLog()
    publish(log, tmp_path)
    old = (tmp_path / "log.vkey").read_bytes()
    log.rotate("log")
    publish(log, tmp_path)
    (tmp_path / "log.vkey").write_bytes(old)
    failure = verify_log(PublishedLog(tmp_path), vkey=log.vkey, kept_head=None).first_failure
    assert failure is not None
    assert "log.vkey is not the key that the log names" in failure.detail
    publish(log, tmp_path)
    assert verify_log(PublishedLog(tmp_path), vkey=log.vkey, kept_head=None).passed


def test_rotation_that_the_old_key_did_not_sign_is_caught() -> None:
    log = ForgedLog()
    thief = key(log.origin, 99)
    log.rotate("log")
    (entry,) = log.entries(kind="key_rotation")
    assert isinstance(entry.body, KeyRotation)
    forged = entry.body.model_copy(
        update={"new_key": str(thief.verifier), "new_signature": thief.signature("x")}
    )
    log.stored[1] = replace(log.made(1, forged, subject="lab"))
    log.log_key = thief
    log.heads.clear()
    log.sign()
    report = verify_log(log, vkey=str(key(log.origin).verifier), kept_head=None)
    assert report.first_failure is not None
    assert (report.size, report.head) == (0, "")
    assert report.first_failure.name == "author signatures"
    assert "entry 1 (key_rotation" in report.first_failure.detail
