"""A witness cosigns what continues the log that it knows, and keeps the evidence of the rest."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.registry.conftest import LogFolder
from workbench.errors import IntegrityError, InvalidFileError, NotRegisteredError
from workbench.registry.cosignatures import Cosigner, cosignatures_by
from workbench.registry.entries import Note
from workbench.registry.heads import SignedHead, parse_head, sign_head, verify_head
from workbench.registry.keys import load_keys
from workbench.registry.merkle import tree_root
from workbench.registry.notes import SigningKey, VerifierKey
from workbench.registry.publish import publish
from workbench.registry.published import PublishedLog
from workbench.registry.witness import Witnessed, witness

KEY = Cosigner(name="witness.example/w1", seed=b"\x02" * 32)
MOMENT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

Cosign = Callable[..., Witnessed]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def cosign(story: LogFolder, state: Path) -> Cosign:
    def run(folder: LogFolder = story, *, log_vkey: str = "") -> Witnessed:
        log = PublishedLog(folder.published)
        return witness(log, key=KEY, state=state, clock=lambda: MOMENT, log_vkey=log_vkey)

    return run


@pytest.fixture
def trusting(story: LogFolder, cosign: Cosign) -> Witnessed:
    """The witness has cosigned the story once."""
    return cosign(log_vkey=PublishedLog(story.published).vkey)


def _grow(folder: LogFolder, *texts: str) -> None:
    with folder.open() as ledger:
        for text in texts:
            ledger.append(Note(text=text), subject="lab")
        publish(ledger, folder.published)


def _evidence(state: Path) -> list[SignedHead]:
    files = sorted((state / "example.com_lab" / "evidence").rglob("*"))
    return [parse_head(file.read_text()) for file in files if file.is_file()]


def test_first_head_is_cosigned_under_the_key_that_was_given(
    story: LogFolder, trusting: Witnessed
) -> None:
    log = PublishedLog(story.published)
    assert trusting.before is None
    assert verify_head(trusting.cosigned, VerifierKey.parse(log.vkey)).note == trusting.cosigned
    (seen,) = cosignatures_by(trusting.cosigned, KEY.verifier)
    assert seen.moment == MOMENT
    assert trusting.cosigned.startswith(log.head().note)


def test_unknown_log_without_a_key_is_refused_with_the_remedy(cosign: Cosign, state: Path) -> None:
    with pytest.raises(NotRegisteredError, match="never witnessed here") as refused:
        cosign()
    assert "--log-key" in refused.value.remedy
    assert not (state / "example.com_lab" / "last-head").exists()


def test_grown_log_is_cosigned_without_the_key(
    story: LogFolder, trusting: Witnessed, cosign: Cosign
) -> None:
    _grow(story, "one", "two")
    again = cosign()
    assert again.before is not None
    assert (again.before.size, again.head.size) == (trusting.head.size, trusting.head.size + 2)


def test_same_head_is_cosigned_again(trusting: Witnessed, cosign: Cosign) -> None:
    """As of this time it is still the newest: that is news, too."""
    assert cosign().head == trusting.head


@pytest.mark.slow
def test_log_across_a_full_tile_is_followed(
    story: LogFolder, trusting: Witnessed, cosign: Cosign
) -> None:
    _grow(story, *(str(number) for number in range(300)))
    assert cosign().head.size == trusting.head.size + 300


def test_rolled_back_log_is_refused_and_both_heads_kept(
    story: LogFolder, cosign: Cosign, state: Path, trusting: Witnessed, tmp_path: Path
) -> None:
    shutil.copytree(story.published, tmp_path / "older" / "registry")
    _grow(story, "one")
    newest = cosign().head
    older = LogFolder(root=tmp_path / "older")
    with pytest.raises(IntegrityError, match=r"rolled back: it had \d+ entries") as refused:
        cosign(older)
    assert "evidence" in refused.value.message
    assert [head.note for head in _evidence(state)] == [newest.note, trusting.head.note]


def _forked(story: LogFolder, tmp_path: Path, *, grown: bool) -> LogFolder:
    """What a holder of the log's key shows to others: the same size or more, another history."""
    shutil.copytree(story.root, tmp_path / "fork")
    fork = LogFolder(root=tmp_path / "fork")
    _grow(story, "to the witness")
    shutil.rmtree(fork.published)
    _grow(fork, "to the others", *(["more"] if grown else []))
    return fork


@pytest.mark.parametrize("grown", [False, True])
def test_fork_is_refused_and_both_heads_kept(
    story: LogFolder, cosign: Cosign, state: Path, trusting: Witnessed, tmp_path: Path, grown: bool
) -> None:
    fork = _forked(story, tmp_path, grown=grown)
    mine = cosign().head
    with pytest.raises(IntegrityError, match="was forked") as refused:
        cosign(fork)
    assert refused.value.exit_code == 6
    theirs = PublishedLog(fork.published).head()
    assert [head.note for head in _evidence(state)] == [mine.note, theirs.note]
    key = VerifierKey.parse(PublishedLog(story.published).vkey)
    for head in _evidence(state):  # the log's own signature convicts it
        assert verify_head(head.note, key) == head
    assert cosign().head == mine


def test_head_of_another_key_is_refused_and_is_no_evidence(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    leaves = [stored.leaf for stored in PublishedLog(story.published).records()]
    stranger = SigningKey(name="example.com/lab", seed=b"\x05" * 32)
    forged = sign_head(stranger, len(leaves), tree_root(leaves))
    (story.published / "checkpoint").write_text(forged.note, "utf-8")
    with pytest.raises(IntegrityError, match="is not the log's") as refused:
        cosign()
    assert "--log-key" in refused.value.remedy
    assert not (state / "example.com_lab" / "evidence").exists()


def test_damaged_tile_is_refused_and_is_no_evidence(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    """A half-finished copy is no fork: a false accusation would be worse than a late one."""
    (tile,) = (story.published / "tile" / "0").rglob("*.p/*")
    tile.write_bytes(bytes(32) + tile.read_bytes()[32:])
    with pytest.raises(IntegrityError, match=r"tiles of 'example\.com/lab' do not give the root"):
        cosign()
    assert not (state / "example.com_lab" / "evidence").exists()


def test_recorded_rotation_of_the_key_is_followed(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="yearly")
    _grow(story, "one")
    again = cosign()
    new = load_keys(story.root / "keys", "example.com/lab").log.verifier
    assert verify_head(again.head.note, new).size == trusting.head.size + 2
    assert (state / "example.com_lab" / "log.vkey").read_text().strip() == str(new)
    _grow(story, "two")
    assert cosign().head.size == trusting.head.size + 3


@pytest.mark.parametrize("seen_from", ["before the rotation", "after it"])
def test_roll_back_across_a_rotation_is_refused_and_both_heads_kept(
    story: LogFolder, cosign: Cosign, state: Path, tmp_path: Path, seen_from: str
) -> None:
    """The head that is shown is by a key that was replaced: the log's own all the same."""
    shutil.copytree(story.published, tmp_path / "older" / "registry")
    older = LogFolder(root=tmp_path / "older")
    if seen_from == "before the rotation":
        cosign(log_vkey=PublishedLog(story.published).vkey)
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="yearly")
    _grow(story, "one")
    new = str(load_keys(story.root / "keys", "example.com/lab").log.verifier)
    newest = cosign(log_vkey="" if seen_from == "before the rotation" else new).head
    with pytest.raises(IntegrityError, match="was rolled back") as refused:
        cosign(older)
    assert "--log-key" not in refused.value.remedy
    shown = PublishedLog(older.published).head()
    assert [head.note for head in _evidence(state)] == [newest.note, shown.note]
    assert cosign().head == newest


def test_roll_back_under_an_unknown_key_gets_no_hint_to_take_that_key(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    leaves = [stored.leaf for stored in PublishedLog(story.published).records()][:5]
    stranger = SigningKey(name="example.com/lab", seed=b"\x05" * 32)
    forged = sign_head(stranger, len(leaves), tree_root(leaves))
    (story.published / "checkpoint").write_text(forged.note, "utf-8")
    with pytest.raises(IntegrityError, match="fewer entries than were cosigned") as refused:
        cosign()
    assert "--log-key" not in refused.value.remedy
    assert not (state / "example.com_lab" / "evidence").exists()


def test_key_that_no_rotation_leads_to_must_be_given(
    story: LogFolder, cosign: Cosign, trusting: Witnessed
) -> None:
    _grow(story, "one")
    old = load_keys(story.root / "keys", "example.com/lab").log
    new = SigningKey(name=old.name, seed=b"\x06" * 32)
    head = PublishedLog(story.published).head()
    note = sign_head(new, head.size, head.root).note
    (story.published / "checkpoint").write_text(note, "utf-8")
    with pytest.raises(IntegrityError, match="is not the log's"):
        cosign()
    assert cosign(log_vkey=str(new.verifier)).head.size == head.size
    assert cosign().head.size == head.size


@pytest.mark.parametrize("origin", ["../../outside", "..", "a b", "%2e%2e"])
def test_origin_that_could_leave_the_folder_is_refused(
    story: LogFolder, cosign: Cosign, state: Path, origin: str
) -> None:
    """Case B8."""
    text = (story.published / "checkpoint").read_text("utf-8")
    (story.published / "checkpoint").write_text(text.replace("example.com/lab\n", f"{origin}\n", 1))
    with pytest.raises(InvalidFileError, match="cannot be a file name"):
        cosign()
    assert not state.exists()


def test_key_of_another_log_is_refused(story: LogFolder, cosign: Cosign) -> None:
    other = VerifierKey(name="example.com/other", public=b"\x01" * 32)
    with pytest.raises(IntegrityError, match=r"the key is of log 'example\.com/other'"):
        cosign(log_vkey=str(other))


def test_kept_head_of_another_log_in_the_folder_is_refused(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    kept = state / "example.com_lab" / "last-head"
    kept.write_text(kept.read_text("utf-8").replace("example.com/lab\n", "example.com_lab\n", 1))
    with pytest.raises(IntegrityError, match=r"is a head of 'example\.com_lab'"):
        cosign()


def test_empty_head_is_not_cosigned(story: LogFolder, cosign: Cosign) -> None:
    key = load_keys(story.root / "keys", "example.com/lab").log
    (story.published / "checkpoint").write_text(sign_head(key, 0, tree_root([])).note, "utf-8")
    with pytest.raises(IntegrityError, match="covers no entry"):
        cosign(log_vkey=str(key.verifier))


def test_many_at_once_leave_the_newest_head(
    story: LogFolder, cosign: Cosign, trusting: Witnessed, state: Path
) -> None:
    """The race of C2SP tlog-witness: an older request must not take the state back."""

    def once(_: int) -> int:
        return cosign().head.size

    _grow(story, "one")
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(once, range(16)))
    kept = parse_head((state / "example.com_lab" / "last-head").read_text("utf-8"))
    assert sizes == [trusting.head.size + 1] * 16
    assert kept.size == trusting.head.size + 1
