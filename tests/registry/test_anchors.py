"""What others say about a log: kept beside it, held against it, and told per registration."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.registry.conftest import SUBJECT, LogFolder, registration
from tests.registry.reference import frontier_of
from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.anchored import AnchorFindings, AnchorTrust, find_anchors
from workbench.registry.anchors import (
    keep_cosigned,
    keep_head,
    keep_stamp,
    kept_anchors,
    most_cosigned,
    stampable_heads,
)
from workbench.registry.bounds import registration_bounds
from workbench.registry.cosignatures import Cosigner, cosignatures_by
from workbench.registry.entries import Hidden, Note
from workbench.registry.heads import heads_in, sign_head
from workbench.registry.keys import load_keys
from workbench.registry.notes import SigningKey, VerifierKey
from workbench.registry.publish import publish
from workbench.registry.published import PublishedLog
from workbench.registry.stamps import Stamp

W1 = Cosigner(name="witness.example/w1", seed=b"\x02" * 32)
W2 = Cosigner(name="witness.example/w2", seed=b"\x03" * 32)
MOMENT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class TokenReader:
    """Stands for the library of the extra: a response is ``ROOT|MESSAGE``, dated by its root."""

    def read_stamp(self, response: bytes, message: bytes) -> Stamp:
        root, _, stamped = response.partition(b"|")
        if stamped != message:
            raise IntegrityError("the time stamp is over something else")
        return Stamp(
            moment=MOMENT + timedelta(days=len(root)),
            accuracy=timedelta(seconds=1),
            authority=f"CN={root.decode()}",
            checked=False,
        )

    def verify_stamp(self, response: bytes, message: bytes, roots: Sequence[bytes]) -> Stamp:
        stamp = self.read_stamp(response, message)
        if response.partition(b"|")[0] not in roots:
            raise IntegrityError("no root vouches for it")
        return replace(stamp, checked=True)


def _log(folder: LogFolder) -> PublishedLog:
    return PublishedLog(folder.published)


def _grow(folder: LogFolder, *texts: str) -> None:
    with folder.open() as ledger:
        for text in texts:
            ledger.append(Note(text=text), subject="lab")
        publish(ledger, folder.published)


def _cosigned(folder: LogFolder, by: Cosigner, moment: datetime = MOMENT) -> str:
    note = _log(folder).head().note
    return note + by.cosign(note, moment)


def _find(folder: LogFolder, **trust: object) -> AnchorFindings:
    log = _log(folder)
    return find_anchors(
        log,
        size=log.head().size,
        key_at=lambda _: VerifierKey.parse(log.vkey),
        read=log.read,
        trust=AnchorTrust(**trust),  # type: ignore[arg-type]
    )


def _rewritten(folder: LogFolder, root: Path) -> LogFolder:
    """The log as a holder of its key would sign it anew, with the old anchors beside it."""
    other = LogFolder(root=root)
    shutil.copytree(folder.root, other.root)
    shutil.copytree(folder.published / "anchors", root / "anchors")
    shutil.rmtree(other.published)
    _grow(other, "another history")
    shutil.move(root / "anchors", other.published / "anchors")
    return other


def test_cosigned_notes_of_several_witnesses_are_kept_and_found(story: LogFolder) -> None:
    log = _log(story)
    for witness in (W1, W2):
        path = keep_cosigned(story.published, log, _cosigned(story, witness), witness.verifier)
        assert path.name == f"{witness.verifier.key_id.hex()}.cosigned"
    assert [kept.vkey for kept in kept_anchors(log.read)] == sorted(  # type: ignore[union-attr]
        [str(W1.verifier), str(W2.verifier)], key=lambda vkey: vkey.split("+")[1]
    )
    found = _find(story, witnesses=(str(W1.verifier),))
    assert found.faults == ()
    told = {anchor.by: anchor for anchor in found.anchors}
    assert told[W1.name].trusted
    assert told[W1.name].moment == "2026-03-04T05:06:07.000Z"
    assert not told[W2.name].trusted
    assert f"--witness {W2.verifier}" in told[W2.name].remark


def test_cosigning_again_keeps_both_and_the_earliest_counts(story: LogFolder) -> None:
    log = _log(story)
    later = MOMENT + timedelta(days=1)
    keep_cosigned(story.published, log, _cosigned(story, W1, later), W1.verifier)
    path = keep_cosigned(story.published, log, _cosigned(story, W1), W1.verifier)
    keep_cosigned(story.published, log, _cosigned(story, W1), W1.verifier)
    assert len(cosignatures_by(path.read_text("utf-8"), W1.verifier)) == 2
    (anchor,) = _find(story).anchors
    assert anchor.moment == "2026-03-04T05:06:07.000Z"


def test_cosigned_note_without_the_named_witness_is_not_kept(story: LogFolder) -> None:
    with pytest.raises(IntegrityError, match="no cosignature by"):
        keep_cosigned(story.published, _log(story), _cosigned(story, W1), W2.verifier)
    assert not (story.published / "anchors").exists()


def test_cosigned_note_of_another_history_is_not_kept(story: LogFolder, tmp_path: Path) -> None:
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    other = _rewritten(story, tmp_path / "other")
    _grow(story, "the true one")
    note = _cosigned(other, W1)
    with pytest.raises(IntegrityError, match="are not those of the head"):
        keep_cosigned(story.published, _log(story), note, W1.verifier)


def test_nothing_is_kept_where_nothing_is_published(tmp_path: Path, story: LogFolder) -> None:
    with pytest.raises(NotFoundError, match="no published log"):
        keep_head(tmp_path / "none", _log(story).head())


def test_log_without_anchors_has_none(story: LogFolder) -> None:
    assert _find(story) == AnchorFindings(anchors=(), faults=())
    assert list(_find(story).lines()) == list(_find(story).summary()) == []


def test_index_is_written_after_the_files_and_lists_them_by_size(story: LogFolder) -> None:
    keep_stamp(story.published, _log(story).head(), b"response")
    small = _log(story).head().size
    _grow(story, *(str(number) for number in range(3)))
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    names = (story.published / "anchors" / "index").read_text().split()
    assert [name.split("/")[1].split("-")[0] for name in names] == [
        str(small), str(small), str(small + 3), str(small + 3)
    ]  # fmt: skip
    assert all((story.published / name).is_file() for name in names)


@pytest.mark.parametrize("line", ["../../etc/passwd", "anchors/1-00000000/../../x", "anchors/x"])
def test_index_that_names_another_file_is_a_fault(story: LogFolder, line: str) -> None:
    """Case B8."""
    keep_head(story.published, _log(story).head())
    with (story.published / "anchors" / "index").open("a") as index:
        index.write(f"{line}\n")
    found = _find(story)
    assert found.anchors == ()
    assert "which is no anchor" in found.faults[0]


def test_kept_file_that_is_missing_is_a_fault(story: LogFolder) -> None:
    keep_stamp(story.published, _log(story).head(), b"response").unlink()
    assert ".tsr" in _find(story).faults[0]


def test_stamp_is_told_as_far_as_it_was_checked(story: LogFolder) -> None:
    head = _log(story).head()
    keep_stamp(story.published, head, b"tsa|" + head.note.encode())
    reader = TokenReader()
    (unread,) = _find(story).anchors
    assert (unread.moment, unread.trusted) == ("", False)
    assert unread.remark == "not checked: pip install 'pretrain-workbench[timestamps]'"
    (read,) = _find(story, stamps=reader).anchors
    assert (read.moment, read.trusted) == ("2026-03-07T05:06:08.000Z", False)
    assert "--tsa-root" in read.remark
    (foreign,) = _find(story, stamps=reader, tsa_roots=(b"other",)).anchors
    assert not foreign.trusted
    assert "no root certificate that you gave" in foreign.remark
    (checked,) = _find(story, stamps=reader, tsa_roots=(b"other", b"tsa")).anchors
    assert checked.trusted
    assert checked.by == "CN=tsa"


def test_findings_are_listed_one_a_line_and_counted_by_kind(story: LogFolder) -> None:
    head = _log(story).head()
    keep_stamp(story.published, head, b"tsa|" + head.note.encode())
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    keep_stamp(story.published, head, b"tsa|noise")
    found = _find(story, stamps=TokenReader(), tsa_roots=(b"tsa",))
    fault = found.faults[0]
    checked = "(checked up to a root certificate that you gave)"
    beside = f"(by the key that lies beside the log: --witness {W1.verifier} if it is theirs)"
    start = f"anchor    {head.size} entries:"
    assert list(found.lines()) == [
        f"{start} cosigned by {W1.name} at 2026-03-04T05:06:07Z {beside}",
        f"{start} time stamp by CN=tsa at 2026-03-07T05:06:08Z {checked}",
        f"FAIL      anchor {fault}",
    ]
    assert list(found.summary()) == [
        f"anchors   1 by witness, 1 by time stamp; the newest covers {head.size} entries",
        f"FAIL      anchor {fault}",
    ]


def test_named_witness_who_signed_nothing_is_named(story: LogFolder) -> None:
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    found = _find(story, witnesses=(str(W1.verifier), str(W2.verifier)))
    assert found.faults == ()
    told = f"note      no cosignature by {W2.name}: ask them for their last head"
    for lines in (found.lines(), found.summary()):
        assert [line for line in lines if line.startswith("note")] == [told]


def test_kept_note_without_a_cosignature_by_its_key_is_a_fault(story: LogFolder) -> None:
    path = keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    path.write_text(_log(story).head().note, "utf-8")
    assert "it carries no cosignature by" in _find(story).faults[0]
    path.write_text(_log(story).head().note + "— witness.example/w1 AAA\n", "utf-8")
    assert "is malformed" in _find(story).faults[0]


def test_stamp_over_another_head_is_a_fault(story: LogFolder) -> None:
    keep_stamp(story.published, _log(story).head(), b"tsa|another head")
    assert "over something else" in _find(story, stamps=TokenReader()).faults[0]


def test_heads_to_stamp_are_the_newest_first(story: LogFolder) -> None:
    first = _log(story).head()
    keep_head(story.published, first)
    _grow(story, "one")
    second = _log(story).head()
    keep_head(story.published, second)
    assert stampable_heads(story.published) == [second, first]


def test_rewritten_log_contradicts_every_anchor(story: LogFolder, tmp_path: Path) -> None:
    head = _log(story).head()
    keep_stamp(story.published, head, b"tsa|" + head.note.encode())
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    # The rewrite shares no more than the first entries with what was anchored.
    other = LogFolder(root=tmp_path / "other")
    with other.create() as ledger:
        for number in range(head.size + 3):
            ledger.append(Note(text=str(number)), subject="lab")
        publish(ledger, other.published)
    key = load_keys(story.root / "keys", "example.com/lab").log
    leaves = [stored.leaf for stored in _log(other).records()]
    (other.published / "checkpoint").write_text(
        sign_head(key, len(leaves), frontier_of(leaves).root()).note, "utf-8"
    )
    shutil.copytree(story.published / "anchors", other.published / "anchors")
    (other.published / "log.vkey").write_text(f"{key.verifier}\n")
    found = _find(other, stamps=TokenReader())
    assert found.anchors == ()
    assert len(found.faults) == 2
    assert all(f"first {head.size} entries are not those" in fault for fault in found.faults)
    assert next(found.summary()).startswith("FAIL      anchor anchors/")


def test_log_cut_back_below_an_anchor_is_a_fault(story: LogFolder, tmp_path: Path) -> None:
    shutil.copytree(story.published, tmp_path / "older" / "registry")
    _grow(story, "one")
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    older = LogFolder(root=tmp_path / "older")
    shutil.copytree(story.published / "anchors", older.published / "anchors")
    (fault,) = _find(older).faults
    assert "it was cut back" in fault


def test_anchor_whose_head_the_log_did_not_sign_is_a_fault(story: LogFolder) -> None:
    head = _log(story).head()
    forged = sign_head(SigningKey(name=head.origin, seed=b"\x08" * 32), head.size, head.root)
    keep_stamp(story.published, forged, b"tsa|x")
    assert "no signature by the key" in _find(story).faults[0]


def test_proof_uses_the_head_that_most_witnesses_cosigned(story: LogFolder) -> None:
    cosigned = _log(story).head()
    for witness in (W1, W2):
        keep_cosigned(story.published, _log(story), _cosigned(story, witness), witness.verifier)
    _grow(story, "one")
    log = _log(story)
    note = most_cosigned(log.read, log.head(), 1)
    assert note.startswith(cosigned.note)
    assert [len(cosignatures_by(note, w.verifier)) for w in (W1, W2)] == [1, 1]
    assert most_cosigned(log.read, log.head(), cosigned.size) == log.head().note


# Git


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=lab", "-c", "user.email=lab@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def committed(story: LogFolder) -> LogFolder:
    """The published log in a git work tree: committed, grown, committed again."""
    _git(story.root, "init", "--quiet")
    _git(story.root, "add", "registry")
    _git(story.root, "commit", "--quiet", "-m", "one", "--date=2026-02-01T00:00:00Z")
    _grow(story, "one")
    _git(story.root, "add", "registry")
    _git(story.root, "commit", "--quiet", "-m", "two")
    return story


def test_git_history_gives_each_head_by_its_first_commit(committed: LogFolder) -> None:
    commits = _git(committed.root, "log", "--format=%H", "--reverse").split()
    found = _find(committed, git_file=committed.published / "checkpoint")
    size = _log(committed).head().size
    assert found.faults == ()
    assert [(a.size, a.where) for a in found.anchors] == [
        (size - 1, commits[0]), (size, commits[1])
    ]  # fmt: skip
    assert {a.trusted for a in found.anchors} == {False}
    assert {a.remark for a in found.anchors} == {"no remote or tag has it"}
    for lines in (found.summary(), found.lines()):
        assert [line for line in lines if "dated by" in line] == [
            "          a git commit is dated by the machine that made it"
        ]


def test_git_commit_under_a_tag_is_told_to_be_shared(committed: LogFolder) -> None:
    _git(committed.root, "tag", "v1", "HEAD~1")
    first, second = _find(committed, git_file=committed.published / "checkpoint").anchors
    assert first.remark == "a remote or a tag has it"
    assert second.remark == "no remote or tag has it"


def test_git_history_convicts_a_log_that_was_cut_back(committed: LogFolder) -> None:
    _git(committed.root, "checkout", "--quiet", "HEAD~1", "--", "registry")
    (fault,) = _find(committed, git_file=committed.published / "checkpoint").faults
    assert fault.startswith("git commit ")
    assert "it was cut back" in fault


def test_git_history_of_another_log_or_noise_is_passed_over(committed: LogFolder) -> None:
    checkpoint = committed.published / "checkpoint"
    genuine = checkpoint.read_bytes()
    stranger = sign_head(SigningKey(name="example.com/old", seed=b"\x07" * 32), 3, b"\x01" * 32)
    for content in (b"\xff\x00 noise", stranger.note.encode(), None, genuine):
        if content is None:
            checkpoint.unlink()
        else:
            checkpoint.write_bytes(content)
        _git(committed.root, "add", "--all", "registry")
        _git(committed.root, "commit", "--quiet", "-m", "change")
    found = _find(committed, git_file=checkpoint)
    assert found.faults == ()
    assert len(found.anchors) == 2


@pytest.mark.parametrize("date", ["999999999999999 +0000", "1700000000 +9999", "-1 +0000"])
def test_git_commit_with_a_date_that_no_clock_shows_keeps_nobody_from_verifying(
    story: LogFolder, date: str
) -> None:
    """Whoever can push a commit can choose its date."""
    _git(story.root, "init", "--quiet")
    _git(story.root, "add", "registry")
    tree = _git(story.root, "write-tree").strip()
    text = f"tree {tree}\nauthor a <a@b> {date}\ncommitter a <a@b> {date}\n\nodd\n"
    file = story.root / "commit"
    file.write_text(text)
    name = _git(story.root, "hash-object", "-t", "commit", "-w", "--literally", str(file)).strip()
    _git(story.root, "update-ref", "HEAD", name)
    found = _find(story, git_file=story.published / "checkpoint")
    assert found.faults == ()
    assert [anchor.kind for anchor in found.anchors] == ["git"]


def test_outside_git_or_without_it_there_are_no_commits(
    story: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification never needs git."""
    checkpoint = story.published / "checkpoint"
    assert _find(story, git_file=checkpoint) == AnchorFindings(anchors=(), faults=())
    monkeypatch.setenv("PATH", "")
    assert _find(story, git_file=checkpoint) == AnchorFindings(anchors=(), faults=())


# Reports that the reader kept


def _printed(folder: LogFolder, size: int) -> str:
    leaves = [stored.leaf for stored in _log(folder).records()][:size]
    text = sign_head(SigningKey(name="example.com/lab", seed=bytes(32)), size,
                     frontier_of(leaves).root()).note.partition("\n\n")[0]  # fmt: skip
    return f"# A chronicle\n\nKeep it:\n\n```\n{text}\n```\n"


def test_head_printed_in_a_kept_report_holds(story: LogFolder) -> None:
    found = _find(story, reports=(("chronicle.md", _printed(story, 5)),))
    assert found.faults == ()
    (anchor,) = found.anchors
    assert (anchor.kind, anchor.size, anchor.moment, anchor.trusted) == ("report", 5, "", True)


def test_head_printed_in_a_kept_report_convicts_another_history(story: LogFolder) -> None:
    text = _printed(story, 5).replace("\n5\n", "\n6\n")
    (fault,) = _find(story, reports=(("chronicle.md", text),)).faults
    assert fault == "chronicle.md: the first 6 entries are not those of its head"


def test_report_without_a_head_of_this_log_is_a_fault(story: LogFolder) -> None:
    """Otherwise a reader would take silence for agreement."""
    (fault,) = _find(story, reports=(("other.md", "example.org/x\n3\nnonsense\n"),)).faults
    assert "no tree head of 'example.com/lab' is printed" in fault


def test_heads_in_a_text_are_only_whole_ones() -> None:
    root = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert [size for _, size, _ in heads_in(f"a\n0\n{root}\nx y\n1\n{root}\nb\n01\n{root}")] == [0]
    assert heads_in(f"a\n3\n{root[:-4]}\n") == []


# Per registration


def _lines(folder: LogFolder, **trust: object) -> list[str]:
    found = _find(folder, **trust)
    (bounds,) = registration_bounds(_log(folder).entries(), found.anchors)
    return list(bounds.lines())


def test_registration_without_anchor_says_what_is_not_provable(story: LogFolder) -> None:
    told = _lines(story)
    assert told[0] == f"bound     {SUBJECT}: registered as entry 1"
    assert "the seeds of 1 run attempt derive from the head over 2 entries" in told[1]
    assert "is the lab's own clock; nobody whom you named vouches for a time" in told[2]
    assert told[3].endswith("that nothing like it was tried before, outside of this log")
    assert len(told) == 4


def test_registration_with_a_trusted_anchor_has_its_time(story: LogFolder) -> None:
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    told = _lines(story, witnesses=(str(W1.verifier),))
    assert told[1] == (
        "  not later than    2026-03-04T05:06:07Z, cosigned by witness.example/w1 "
        "(by a key that you named)"
    )
    assert not any("own clock" in line for line in told)


def test_registration_with_untrusted_anchors_marks_them(story: LogFolder) -> None:
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    told = _lines(story)
    assert told[1].startswith("  not later than    2026-03-04T05:06:07Z?, cosigned by")
    assert "(the cosignature: as far as you trust who made it)" in told[3]


def test_anchor_older_than_the_registration_says_nothing_of_it(fresh: LogFolder) -> None:
    with fresh.create() as ledger:
        publish(ledger, fresh.published)
        keep_cosigned(fresh.published, _log(fresh), _cosigned(fresh, W1), W1.verifier)
        ledger.append(registration(), subject=SUBJECT)
        publish(ledger, fresh.published)
    told = _lines(fresh, witnesses=(str(W1.verifier),))
    assert not any("not later than" in line for line in told)
    assert any("that it came before its runs: none has begun" in line for line in told)
    keep_cosigned(fresh.published, _log(fresh), _cosigned(fresh, W1), W1.verifier)
    told = _lines(fresh, witnesses=(str(W1.verifier),))
    assert "not later than" in told[1]


def test_earliest_of_each_kind_and_the_trusted_one_is_told(story: LogFolder) -> None:
    head = _log(story).head()
    for name in (b"late-one", b"tsa"):
        keep_stamp(story.published, head, name + b"|" + head.note.encode())
    reader = TokenReader()
    told = [line for line in _lines(story, stamps=reader) if "not later than" in line]
    assert [line.split()[3] for line in told] == ["2026-03-07T05:06:08Z?,"]
    told = [
        line
        for line in _lines(story, stamps=reader, tsa_roots=(b"late-one",))
        if "not later than" in line
    ]
    assert [line.split()[3] for line in told] == ["2026-03-12T05:06:08Z,"]


def test_hidden_registration_has_its_bounds_too(story: LogFolder) -> None:
    keep_cosigned(story.published, _log(story), _cosigned(story, W1), W1.verifier)
    entries = [
        replace(entry, body=Hidden()) if entry.kind == "registration" else entry
        for entry in _log(story).entries()
    ]
    (bounds,) = registration_bounds(entries, _find(story).anchors)
    assert (bounds.experiment, bounds.num_runs, len(bounds.not_later)) == (SUBJECT, 1, 1)
