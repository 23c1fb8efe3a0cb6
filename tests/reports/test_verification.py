"""The report of `workbench verify`."""

from dataclasses import replace

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.errors import NotFoundError
from workbench.reports.audit import audit_claims
from workbench.reports.verification import verify_published


def test_lines_name_every_check_and_end_with_the_verdict(decided_lab: LabFolder) -> None:
    report = decided_lab.open().verify()
    lines = list(report.lines())
    assert report.passed
    assert lines[-1].startswith("VERIFIED")
    assert sum(line.startswith("ok ") for line in lines) == 17 + 10
    assert lines.count(f"claim     {SUBJECT}") == 1


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
    report = verify_published(
        decided_lab.root / "registry", audit=audit_claims, vkey=genesis.body.log_key
    )
    assert report.passed
