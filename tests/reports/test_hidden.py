"""Withheld and erased entries: never a crash, never a silent gap, never a leak."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, sample_log
from workbench.registry.entries import (
    NEVER_WITHHELD,
    Embargo,
    Hidden,
    KeyRotation,
    Note,
    Redaction,
    Reveal,
)
from workbench.registry.hidden import hidden_entries
from workbench.registry.log import Entry
from workbench.reports.audit import audit_claims
from workbench.reports.facts import experiment_facts
from workbench.reports.site import write_chronicles
from workbench.reports.stages import experiment_statuses
from workbench.reports.status import effect_sentence, state_of

NOW = datetime(2026, 4, 1, tzinfo=UTC)
KINDS = sorted({entry.kind for entry in sample_log().found} - NEVER_WITHHELD)
REASON = "it names a person"


def of_kind(log: MemoryLog, kind: str) -> list[int]:
    return [entry.sequence for entry in log.found if entry.kind == kind]


def hide(log: MemoryLog, sequences: Iterable[int]) -> MemoryLog:
    """Redact entries as the store and the published files do."""
    for sequence in sequences:
        target = log.found[sequence]
        log.found[sequence] = replace(target, body=Hidden(), body_bytes=b"", salt=b"")
        log.append(Redaction(what="personal_data", reason=REASON), target.subject)
        log.found[-1] = replace(log.found[-1], refs=(target.leaf,))
    return log


def told(log: MemoryLog, folder: Path) -> str:
    """Read the log in every way there is; return the chronicle."""
    experiment_statuses(log, [], NOW)
    findings = audit_claims(log)
    assert all(finding.passed for finding in findings), findings
    write_chronicles(log, folder)
    return (folder / EXPERIMENT / "chronicle.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("kind", "every"),
    [(kind, True) for kind in KINDS]
    + [(kind, False) for kind in KINDS if len(of_kind(sample_log(), kind)) > 1],
)
def test_log_with_a_hidden_kind_is_read_without_a_crash_and_says_so(
    kind: str, every: bool, tmp_path: Path
) -> None:
    log = sample_log()
    places = of_kind(log, kind) if every else of_kind(log, kind)[:1]
    size = len(log.found)
    text = told(hide(log, places), tmp_path)
    assert "Hidden entries" in text
    assert f"redacted by entry {size} (personal data): {REASON}" in " ".join(text.split())
    for place in places:
        assert f"#{place}" in text or "–" in text


def test_hidden_verdict_is_a_state_of_its_own_and_never_none_yet(tmp_path: Path) -> None:
    log = sample_log()
    text = told(hide(log, of_kind(log, "verdict")), tmp_path)
    facts = experiment_facts(log, EXPERIMENT)
    assert state_of(facts) == "hidden"
    assert "A verdict was recorded; its content is hidden" in text
    assert "None yet" not in text
    assert "There is none yet" not in text
    (status,) = experiment_statuses(log, [], NOW)
    assert (status.stage, status.next_command) == (
        "hidden",
        f"workbench chronicle {EXPERIMENT[:4]}",
    )
    (finding,) = audit_claims(log)
    assert "NOT RECOMPUTED" in finding.detail


def test_hidden_registration_is_no_exploratory_experiment(tmp_path: Path) -> None:
    log = sample_log()
    leaf = log.found[1].leaf
    text = told(hide(log, of_kind(log, "registration")), tmp_path)
    facts = experiment_facts(log, EXPERIMENT)
    assert facts.confirmatory
    assert state_of(facts) == "hidden"
    assert "Exploratory" not in text
    assert leaf in text
    assert "What was registered cannot be read" in text
    # The random bytes are gone with the content: the hash cannot be confirmed any more.
    assert "can be shown to be it" not in text
    assert "must give the same hash" not in text
    assert "can no longer be shown to be it" in text
    assert "nobody can show it any more" in text


def test_redacted_registration_leaves_the_verdict_and_the_work_on_the_page(tmp_path: Path) -> None:
    whole = experiment_facts(sample_log(), EXPERIMENT)
    assert whole.verdict is not None
    log = sample_log()
    text = told(hide(log, of_kind(log, "registration")), tmp_path).replace("\xa0", " ")
    assert "as recorded. Without what was registered nobody can recompute it" in " ".join(
        text.split()
    )
    assert effect_sentence(whole.verdict.value).replace("\xa0", " ") in text
    for heading in ("Verdict", "Sweep accounting", "Incidents", "Decisions", "Cost by outcome"):
        assert f"## {heading}" in text, heading
    for run in {start.value.run for start in whole.starts}:
        assert run in text
    assert (tmp_path / "index.html").is_file()


def test_hidden_failed_trial_is_not_counted_as_none_failed(tmp_path: Path) -> None:
    log = sample_log()
    failed = [
        entry.sequence
        for entry in log.found
        if getattr(entry.body, "state", "") in ("failed", "diverged")
    ]
    assert failed
    text = told(hide(log, failed), tmp_path)
    assert f"Not counted: {len(failed)}" in text.replace("\xa0", " ")


def test_second_verdict_behind_a_hidden_one_fails_the_audit() -> None:
    log = sample_log()
    (place,) = of_kind(log, "verdict")
    log.append(log.found[place].body)
    hide(log, [place])
    (finding,) = audit_claims(log)
    assert not finding.passed
    assert "2 verdicts of one registration" in finding.detail


def test_remark_that_is_hidden_leaves_the_verdict_recomputed(tmp_path: Path) -> None:
    log = sample_log()
    log.append(Note(text="names a person"))
    text = told(hide(log, [len(log.found) - 1]), tmp_path)
    assert len(audit_claims(log)) == 10
    assert "names a person" not in text.replace(REASON, "")


# An embargo: what the store has, and the public must not see before its time.


def embargoed(until: str = "2027-01-31", *, revealed: bool = False) -> MemoryLog:
    """Return the sample with an embargo before its registration, bodies as in the store."""
    log, told_log = MemoryLog(), sample_log()
    for entry in told_log.found:
        if entry.sequence == 1:
            log.append(Embargo(until=until, reason="under review"))
        log.append(entry.body, entry.subject)
    if revealed:
        embargo = log.found[1]
        log.append(Reveal(reason="accepted"))
        log.found[-1] = replace(log.found[-1], refs=(embargo.leaf,))
    return log


def as_published(log: MemoryLog) -> MemoryLog:
    hidden: Sequence[Entry] = [
        replace(entry, body=Hidden(), body_bytes=b"", salt=b"")
        if entry.sequence > 1 and entry.kind not in NEVER_WITHHELD
        else entry
        for entry in log.found
    ]
    return MemoryLog(found=list(hidden))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_embargoed_chronicle_leaks_nothing_and_is_the_same_from_both_copies(tmp_path: Path) -> None:
    log = embargoed()
    write_chronicles(log, tmp_path / "store")
    write_chronicles(as_published(log), tmp_path / "published")
    assert files(tmp_path / "store") == files(tmp_path / "published")
    everything = b"".join(files(tmp_path / "store").values()).decode()
    assert "embargoed until 2027-01-31: under review" in everything.lower()
    assert log.found[2].leaf in everything
    assert "can be shown to be it" in everything
    assert "must give the same hash." in everything
    for secret in ("searched mixture", "1.7312", "is supported", "bpb_macro", " s of device time"):
        assert secret not in everything
    assert sorted(files(tmp_path / "store")) == [
        f"{EXPERIMENT}/chronicle.html", f"{EXPERIMENT}/chronicle.md", "index.html",
    ]  # fmt: skip


def test_revealed_experiment_has_its_whole_chronicle(tmp_path: Path) -> None:
    text = told(embargoed(revealed=True), tmp_path)
    assert "Hidden entries" not in text
    assert "embargo until 2027-01-31" in text.lower()
    assert "the embargo ended" in text.lower()
    assert "supported" in text


@pytest.mark.parametrize(
    ("until", "state"), [("2026-03-01", "overdue"), ("2027-01-31", "embargoed")]
)
def test_embargo_that_is_overdue_by_the_logs_own_time_is_shown_as_such(
    until: str, state: str, tmp_path: Path
) -> None:
    log = embargoed(until)
    write_chronicles(log, tmp_path)
    index = (tmp_path / "index.html").read_text("utf-8")
    text = (tmp_path / EXPERIMENT / "chronicle.md").read_text("utf-8")
    assert re.search(rf'class="badge {state}"', index)
    assert ("it was not revealed" in text) == (state == "overdue")


@pytest.mark.parametrize("copy", [embargoed, lambda: as_published(embargoed())])
def test_status_shows_an_embargo_and_when_it_is_overdue(copy: object) -> None:
    assert callable(copy)
    before, after = datetime(2027, 1, 31, 23, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)
    (early,) = experiment_statuses(copy(), [], before)
    (late,) = experiment_statuses(copy(), [], after)
    assert (early.embargo, early.overdue, late.overdue) == ("2027-01-31", False, True)
    assert "embargo until 2027-01-31" in early.detail
    assert "EMBARGO OVERDUE since 2027-01-31" in late.detail
    assert late.next_command == f"workbench reveal {EXPERIMENT[:4]}"


def test_owner_audits_an_embargoed_verdict_and_the_public_is_told_why_it_cannot() -> None:
    assert len(audit_claims(embargoed())) == 10
    (finding,) = audit_claims(as_published(embargoed()))
    assert finding.passed
    assert "NOT RECOMPUTED" in finding.detail
    assert "withheld until 2027-01-31 by entry 1: under review" in finding.detail


def test_missing_body_that_nothing_accounts_for_is_told_as_such() -> None:
    log = sample_log()
    log.found[3] = replace(log.found[3], body=Hidden())
    (found,) = hidden_entries(log.found)
    assert found.by is None
    assert "nothing in the log says why" in found.why


def test_key_rotation_reads_as_a_sentence(tmp_path: Path) -> None:
    log = sample_log()
    log.append(
        KeyRotation(role="log", old_key="a", new_key="b", old_signature="", new_signature="",
                    why="owner_change", reason="new owner")
    )  # fmt: skip
    assert "log key was replaced (owner change)" in told(log, tmp_path)
