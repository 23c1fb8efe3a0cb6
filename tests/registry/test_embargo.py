"""Which missing bodies the record accounts for."""

from datetime import UTC, date, datetime

import pytest

from workbench.errors import InvalidFileError
from workbench.registry.embargo import (
    Hole,
    checked_until,
    withholding_of,
)
from workbench.registry.entries import Body, Embargo, Note, Redaction, Registration, Reveal
from workbench.registry.log import Entry

A, B = "0001-one", "0002-two"


def entry(sequence: int, body: Body, subject: str = A, refs: tuple[int, ...] = ()) -> Entry:
    return Entry(
        sequence=sequence,
        leaf=leaf(sequence),
        id=f"id-{sequence}",
        kind=body.kind,
        subject=subject,
        time="2026-01-01T00:00:00.000Z",
        actor="a",
        refs=tuple(leaf(ref) for ref in refs),
        body=body,
        envelope=b"",
        body_bytes=b"",
        salt=b"",
        signature="",
    )


def expired(entries: list[Entry], now: datetime) -> list[str]:
    return [found.subject for found in withholding_of(entries).open if found.is_expired(now)]


def leaf(sequence: int) -> str:
    return f"{sequence:064x}"


def hole(sequence: int, kind: str = "note", subject: str = A) -> Hole:
    return Hole(sequence=sequence, leaf=leaf(sequence), kind=kind, subject=subject)


EMBARGO = Embargo(until="2026-06-30", reason="under review")
REDACTION = Redaction(reason="a name", what="personal_data")


def test_embargo_accounts_for_later_bodies_of_its_subject_only() -> None:
    found = withholding_of([entry(0, Note(text="")), entry(1, EMBARGO)])
    assert found.accounts_for(hole(2))
    assert not found.accounts_for(hole(0))
    assert not found.accounts_for(hole(2, subject=B))
    assert not found.accounts_for(hole(2, kind="anchor"))
    assert found.subjects == {A: 1}


def test_reveal_ends_the_embargo_that_it_refers_to_and_no_other() -> None:
    first, second = entry(1, EMBARGO), entry(2, EMBARGO)
    assert withholding_of([first, second, entry(3, Reveal(), refs=(1,))]).subjects == {A: 2}
    assert withholding_of([first, entry(3, Reveal(), refs=(1,))]).subjects == {}
    assert withholding_of([first, entry(3, Reveal(), subject=B, refs=(1,))]).subjects == {A: 1}
    assert withholding_of([first, entry(3, Reveal())]).subjects == {A: 1}
    # The older of two counts for what lies between them.
    assert withholding_of([first, second]).subjects == {A: 1}


def test_redaction_accounts_for_the_entry_that_it_names() -> None:
    found = withholding_of([entry(0, Note(text="")), entry(1, REDACTION, refs=(0,))])
    assert found.accounts_for(hole(0))
    assert not found.accounts_for(hole(2))
    assert not found.accounts_for(hole(0, kind="genesis"))
    assert not found.accounts_for(hole(0, subject=B))


@pytest.mark.parametrize(
    ("now", "names"),
    [("2026-06-30T23:59:59+00:00", []), ("2026-07-01T00:00:00+00:00", [A]),
     ("2026-07-01T01:00:00+02:00", [])],
)  # fmt: skip
def test_embargo_expires_when_its_day_is_over_in_utc(now: str, names: list[str]) -> None:
    found = expired([entry(1, EMBARGO)], datetime.fromisoformat(now))
    assert found == names


def test_revealed_embargo_never_expires() -> None:
    entries = [entry(1, EMBARGO), entry(2, Reveal(), refs=(1,))]
    assert expired(entries, datetime(2030, 1, 1, tzinfo=UTC)) == []


@pytest.mark.parametrize("text", ["2026-01-01", "2025-12-31", "20260601", "soon", "2026-02-30"])
def test_end_of_an_embargo_is_a_day_to_come(text: str) -> None:
    with pytest.raises(InvalidFileError, match="embargo"):
        checked_until(text, date(2026, 1, 1))
    assert checked_until("2026-01-02", date(2026, 1, 1)) == "2026-01-02"


def test_registration_kind_is_withheld() -> None:
    assert withholding_of([entry(1, EMBARGO)]).accounts_for(hole(2, kind=Registration.kind))


def test_embargo_whose_day_cannot_be_read_is_overdue_at_once() -> None:
    never = entry(1, Embargo(until="one fine day", reason="r"))
    assert len(expired([never], datetime(2020, 1, 1, tzinfo=UTC))) == 1
