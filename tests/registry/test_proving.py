"""A proof file verifies by itself, and no changed one does."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.registry.conftest import SUBJECT, LogFolder, registration
from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.cosignatures import Cosigner
from workbench.registry.entries import BODIES
from workbench.registry.log import StoredEntry
from workbench.registry.notes import SigningKey
from workbench.registry.proof_file import LogProof
from workbench.registry.proving import ProofReport, check_proof, prove
from workbench.registry.publish import publish
from workbench.registry.published import PublishedLog

WITNESS = Cosigner(name="witness.example/w1", seed=b"\x02" * 32)


@pytest.fixture
def log(story: LogFolder) -> PublishedLog:
    return PublishedLog(story.published)


def _proof(log: PublishedLog, sequence: int = 1) -> LogProof:
    return prove(log, sequence, log.head().note)


def _check(log: PublishedLog, proof: LogProof) -> ProofReport:
    return check_proof(proof.to_text(), vkey=log.vkey)


def test_proof_of_every_entry_verifies_with_the_log_key_alone(log: PublishedLog) -> None:
    for entry in log.entries():
        report = _check(log, _proof(log, entry.sequence))
        assert report.passed, "\n".join(report.lines())
        assert report.entry == entry
        told = list(report.lines())
        assert told[-2] == (
            f"PROVED    {entry.kind} of {entry.subject} is entry {entry.sequence} of "
            f"{log.origin} ({log.head().size} entries)"
        )
        signed = "by example.com/lab/author" if BODIES[entry.kind].signed else "carries none"
        assert signed in told[5]


def test_proof_from_the_store_is_that_of_the_published_files(
    story: LogFolder, log: PublishedLog
) -> None:
    with story.open() as ledger:
        assert prove(ledger, 4, ledger.head().note) == _proof(log, 4)


def test_proof_text_is_the_format_of_c2sp(log: PublishedLog) -> None:
    proof = _proof(log, 3)
    first, _, head = proof.to_text().partition("\n\n")
    lines = first.split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert lines[1].startswith("extra ")
    assert lines[2] == "index 3"
    assert [base64.b64decode(line) for line in lines[3:]] == list(proof.path)
    assert head == log.head().note
    assert LogProof.parse(proof.to_text()) == proof
    bare = replace(proof, extra=b"", path=())
    assert bare.to_text() == f"c2sp.org/tlog-proof@v1\nindex 3\n\n{head}"
    assert LogProof.parse(bare.to_text()) == bare


def test_proof_names_the_witnesses_whom_the_reader_trusts(log: PublishedLog) -> None:
    note = log.head().note
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    text = prove(log, 1, note + WITNESS.cosign(note, moment)).to_text()
    vkey = str(WITNESS.verifier)
    report = check_proof(text, vkey=log.vkey, witnesses=[vkey])
    assert "ok   p7  witnesses: witness.example/w1 at 2026-03-04T05:06:07.000Z" in report.lines()
    assert not any(line.startswith("note") for line in report.lines())
    assert report.values()["cosignatures"] == [
        {"witness": vkey, "time": "2026-03-04T05:06:07.000Z"}
    ]
    stranger = str(Cosigner(name="witness.example/w2", seed=b"\x04" * 32).verifier)
    report = check_proof(text, vkey=log.vkey, witnesses=[stranger])
    assert report.passed
    assert "none of those that were named" in report.steps[-1].detail


def test_proof_of_a_withheld_body_binds_the_envelope_and_says_so(log: PublishedLog) -> None:
    class Withheld:
        origin = log.origin
        hashes = staticmethod(log.hashes)

        def records(self) -> list[StoredEntry]:
            return [
                replace(stored, body=b"", salt=b"") if stored.sequence == 1 else stored
                for stored in log.records()
            ]

    report = check_proof(prove(Withheld(), 1, log.head().note).to_text(), vkey=log.vkey)  # type: ignore[arg-type]
    assert report.passed
    assert report.steps[4].detail.startswith("withheld")
    assert report.values()["entry"]["body"] is None


def test_proof_for_another_key_is_refused(log: PublishedLog) -> None:
    other = SigningKey(name=log.origin, seed=b"\x09" * 32).verifier
    report = check_proof(_proof(log).to_text(), vkey=str(other))
    assert [step.name for step in report.steps if not step.passed] == ["signed head"]
    assert list(report.lines())[-1].startswith("FAILED    p2, signed head")
    assert report.values()["entry"] is None


def test_malformed_trusted_key_is_an_error_of_the_caller(log: PublishedLog) -> None:
    with pytest.raises(IntegrityError, match="not of the form"):
        check_proof(_proof(log).to_text(), vkey="nonsense")


def _changed_extra(**changes: object) -> Callable[[LogProof], LogProof]:
    def change(proof: LogProof) -> LogProof:
        extra = json.loads(proof.extra)
        extra["entry"].update(changes)
        return replace(proof, extra=json.dumps(extra).encode())

    return change


def _changed_key(**changes: object) -> Callable[[LogProof], LogProof]:
    def change(proof: LogProof) -> LogProof:
        extra = json.loads(proof.extra)
        extra["keys"][0].update(changes)
        return replace(proof, extra=json.dumps(extra).encode())

    return change


def _other_title(proof: LogProof) -> LogProof:
    return replace(proof, extra=proof.extra.replace(b"More code helps", b"More code hurts"))


def _other_time(proof: LogProof) -> LogProof:
    return replace(proof, extra=proof.extra.replace(b"2026-01-01T00:00:01", b"2025-01-01T00:00:01"))


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda p: replace(p, extra=b""), "form"),
        (lambda p: replace(p, extra=b"{"), "form"),
        (lambda p: replace(p, extra=b"[]"), "form"),
        (lambda p: replace(p, extra=b"[" * 100_000), "form"),
        (lambda p: replace(p, extra=b"9" * 10_000), "form"),
        (_changed_extra(surplus="x"), "form"),
        (_changed_extra(envelope="\ud800"), "form"),
        (
            lambda p: replace(p, head=p.head.replace("example.com/lab\n", "example.com/lax\n")),
            "signed head",
        ),
        (lambda p: replace(p, index=p.index + 1), "inclusion"),
        (lambda p: replace(p, index=10**18), "inclusion"),
        (lambda p: replace(p, path=p.path[:-1]), "inclusion"),
        (lambda p: replace(p, path=(*p.path[:-1], bytes(32))), "inclusion"),
        (_other_time, "inclusion"),
        (_changed_key(path=[]), "keys of the log"),
        (_changed_key(path=["%"]), "keys of the log"),
        (_changed_key(index=1), "signed head"),
        (_changed_key(salt="zz"), "signed head"),
        (lambda p: replace(p, extra=p.extra.replace(b"/author+", b"/authoz+")), "signed head"),
        (_other_title, "entry and body"),
        (_changed_extra(salt="00" * 16), "entry and body"),
        (_changed_extra(salt="0"), "entry and body"),
        (_changed_extra(body=""), "entry and body"),
        (_changed_extra(signature=""), "author signature"),
    ],
)
def test_proof_with_a_changed_part_fails_at_that_step(
    log: PublishedLog, change: Callable[[LogProof], LogProof], step: str
) -> None:
    proof = _proof(log)
    changed = change(proof)
    assert changed != proof
    report = _check(log, changed)
    assert [s.name for s in report.steps if not s.passed] == [step]


def test_proof_text_with_any_byte_changed_never_proves_something_else(log: PublishedLog) -> None:
    """Leak test: what passes says what was recorded; the rest is refused."""
    entry = next(entry for entry in log.entries() if entry.sequence == 12)
    text = _proof(log, 12).to_text()
    passed = 0
    for at in range(0, len(text), 7):
        changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        report = check_proof(changed, vkey=log.vkey)
        if report.passed:
            passed += 1
            assert report.entry == entry
    assert passed <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with the line"),
        ("c2sp.org/tlog-proof@v2\nindex 0\n\nhead", "begins with the line"),
        ("c2sp.org/tlog-proof@v1\nindex 0", "begins with the line"),
        ("c2sp.org/tlog-proof@v1\n\nhead", "has a line `index N`"),
        ("c2sp.org/tlog-proof@v1\nindex 01\n\nhead", "has a line `index N`"),
        ("c2sp.org/tlog-proof@v1\nextra !\nindex 0\n\nhead", "extra data of the proof is not"),
        ("c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\nhead", "has 32 bytes"),
        ("c2sp.org/tlog-proof@v1\nindex 0\nAA\n\nhead", "hash of the proof is not base64"),
        ("c2sp.org/tlog-proof@v1\nindex 0\n" + "AAAA\n" * 64 + "\nhead", "at most 63 hashes"),
    ],
)
def test_text_that_is_no_proof_is_refused(text: str, message: str) -> None:
    with pytest.raises(IntegrityError, match=message):
        LogProof.parse(text)


@pytest.mark.parametrize("sequence", [-1, 1000])
def test_proof_of_an_entry_that_the_head_does_not_cover_is_refused(
    log: PublishedLog, sequence: int
) -> None:
    with pytest.raises(NotFoundError, match="is not under the head") as refused:
        _proof(log, sequence)
    assert refused.value.remedy == "workbench publish"


def test_proof_from_damaged_tiles_is_not_written(story: LogFolder) -> None:
    (tile,) = (story.published / "tile" / "0").rglob("*.p/*")
    tile.write_bytes(tile.read_bytes()[:-32] + bytes(32))
    with pytest.raises(IntegrityError, match="is not under this root"):
        _proof(PublishedLog(story.published))


def test_subject_of_the_story_is_the_registration(log: PublishedLog) -> None:
    report = _check(log, _proof(log))
    assert report.entry is not None
    assert (report.entry.kind, report.entry.subject) == ("registration", SUBJECT)


def test_proof_after_rotations_verifies_with_the_old_and_the_new_key(story: LogFolder) -> None:
    old = PublishedLog(story.published).vkey
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="yearly")
        ledger.rotate("author", why="owner_change", reason="handed over")
        late = ledger.append(registration().model_copy(update={"experiment": "0002-x"}),
                             subject="0002-x")  # fmt: skip
        publish(ledger, story.published)
    log = PublishedLog(story.published)
    assert log.vkey != old
    for vkey in (old, log.vkey):
        for sequence in (1, late.sequence):
            report = check_proof(_proof(log, sequence).to_text(), vkey=vkey)
            assert report.passed, "\n".join(report.lines())
            assert report.steps[3].detail == "named by the first entry, 2 rotations"
    kept_back = _proof(log, 1)
    extra = json.loads(kept_back.extra)
    del extra["keys"][1:]
    changed = replace(kept_back, extra=json.dumps(extra).encode())
    for vkey in (old, log.vkey):
        assert not check_proof(changed.to_text(), vkey=vkey).passed


def test_steps_have_the_names_of_record_format(log: PublishedLog) -> None:
    text = (Path(__file__).parents[2] / "docs" / "record-format.md").read_text("utf-8")
    steps = _check(log, _proof(log)).steps
    told = re.findall(r"^\| p([0-9]+) \| ([^|]+) \|", text, re.MULTILINE)
    assert told == [(str(step.number), step.name) for step in steps]
