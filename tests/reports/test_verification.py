"""The report of `workbench verify`."""

from dataclasses import replace

import pytest

from tests.experiments.conftest import OWNED_UP
from tests.labs import SUBJECT, LabFolder
from workbench.errors import NotFoundError
from workbench.reports.audit import audit_claims
from workbench.reports.verification import verify_published
from workbench.scaffold.demo import with_lines


def test_lines_name_every_check_and_end_with_the_verdict(decided_lab: LabFolder) -> None:
    report = decided_lab.open().verify()
    lines = list(report.lines())
    assert report.passed
    assert lines[-1].startswith("VERIFIED")
    assert sum(line.startswith("ok ") for line in lines) == 17 + 10
    assert lines.count(f"claim     {SUBJECT}") == 1


def test_stranger_reads_what_was_claimed_and_decided(decided_lab: LabFolder) -> None:
    report = verify_published(decided_lab.root / "registry", audit=audit_claims)
    (entry,) = decided_lab.entries("verdict")
    body = entry.body
    (line,) = [line for line in report.lines() if line.startswith("  says")]
    assert line == (
        f"  says    H1: superior(0.02) on bpb_macro -> supported, {body.estimate:+.4f} "
        f"[{body.lower:+.4f}, {body.upper:+.4f}], n=3+3 (entry {entry.sequence})"
    )


def test_changes_of_a_registration_and_what_came_before_it_are_told(
    registered_lab: LabFolder,
) -> None:
    lab = registered_lab.open()
    proposal = registered_lab.root / "experiments" / SUBJECT / "proposal.md"
    text = proposal.read_text("utf-8")
    changed = text.replace("superior(0.02)", "superior(0.01)")
    proposal.write_text(changed, "utf-8")
    registered_lab.commit("Ask for less")
    lab.amend(lab.draft_amendment("1"), reason_class="error", reason="too hard")
    lab.withdraw("1", reason="no time")
    told = list(lab.verify().lines())
    changed = [line for line in told if line.startswith("  changed")]
    assert "before anything ran: proposal decision.claim" in changed[0]
    assert changed[1].endswith("before anything ran: withdrawn")


def test_exploring_before_a_registration_is_told_with_it(filed_lab: LabFolder) -> None:
    file = filed_lab.root / "experiments" / SUBJECT / "proposal.md"
    file.write_text(with_lines(file.read_text("utf-8"), OWNED_UP), "utf-8")
    filed_lab.commit()
    lab = filed_lab.open()
    lab.sweep("1", exploratory=True)
    lab.register("1")
    told = list(lab.verify().lines())
    assert "  explored before   entry 1: the same was tried before it was registered" in told


def test_claim_that_rests_on_what_was_redacted_is_not_called_right(
    decided_lab: LabFolder,
) -> None:
    lab = decided_lab.open()
    (verdict,) = decided_lab.entries("verdict")
    draft = lab.draft_redaction(f"#{verdict.sequence}")
    lab.redact(draft, what="other", reason="unwelcome")
    report = lab.verify()
    told = list(report.lines())
    assert report.unchecked == (SUBJECT,)
    assert next(line for line in told if "NOT RECOMPUTED" in line).startswith("--  ")
    note = f"note      the verdict of {SUBJECT} (entry {verdict.sequence}) was redacted"
    assert any(line.startswith(note) for line in told)
    assert told[-1].endswith(f"; not recomputed: the claim of {SUBJECT}")


def test_claim_that_fails_is_named_in_the_verdict(decided_lab: LabFolder) -> None:
    report = decided_lab.open().verify()
    claims = list(report.claims)
    claims[6] = replace(claims[6], passed=False, detail="recorded supported, recomputed refuted")
    failed = replace(report, claims=tuple(claims))
    assert not failed.passed
    last = list(failed.lines())[-1]
    assert last.startswith(f"FAILED    check c7 of {SUBJECT}, outcome follows")
    assert last.endswith("recorded supported, recomputed refuted")


def test_log_that_fails_has_no_claims(decided_lab: LabFolder) -> None:
    registry = decided_lab.root / "registry"
    (bodies,) = registry.glob("bodies/*.jsonl")
    bodies.write_bytes(bodies.read_bytes().replace(b"Does code help", b"Does code harm", 1))
    report = verify_published(registry, audit=audit_claims)
    assert not report.passed
    assert report.claims == ()


def test_verify_published_nothing_there_is_refused(filed_lab: LabFolder) -> None:
    with pytest.raises(NotFoundError):
        verify_published(filed_lab.root / "registry", audit=audit_claims)


def test_verify_published_with_the_key_from_elsewhere(decided_lab: LabFolder) -> None:
    (genesis,) = decided_lab.entries("genesis")
    registry, vkey = decided_lab.root / "registry", genesis.body.log_key
    report = verify_published(registry, audit=audit_claims, vkey=vkey)
    assert report.passed
    assert not any("--key" in warning for warning in report.log.warnings)
    believed = verify_published(registry, audit=audit_claims)
    assert believed.passed
    key_id = vkey.split("+")[1]
    told = f"note      no --key was given: the key {key_id} beside the files was believed"
    assert any(line.startswith(told) for line in believed.lines())
    assert any("keep the file checkpoint" in line for line in believed.lines())
