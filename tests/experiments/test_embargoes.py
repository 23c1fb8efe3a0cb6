"""Registering under an embargo, and revealing."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.embargoes import reveal, standing_embargoes
from workbench.experiments.filing import register
from workbench.layout import Layout
from workbench.registry.entries import Body, DataState, Embargo, Note, Registration, Reveal
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.verify import verify_log

TERMS = {"embargo_until": "2099-12-31", "embargo_reason": "under review"}


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


def test_register_under_embargo_puts_the_embargo_first(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    receipt = register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    assert kinds(ledger) == ["genesis", "embargo", "registration", "anchor"]
    assert receipt.embargo is not None
    assert (receipt.embargo.until, receipt.embargo.sequence) == ("2099-12-31", 1)
    (found,) = standing_embargoes(ledger, committed.name)
    assert found.reason == "under review"


def test_register_without_embargo_has_none(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    assert register(layout, "1", ledger=ledger, corpus=corpus).embargo is None


@pytest.mark.parametrize(
    "terms", [TERMS, {}, {"embargo_until": "2099-12-31", "embargo_reason": "again"}]
)
def test_register_killed_after_the_embargo_is_completed_by_repeating_it(
    layout: Layout,
    committed: Path,
    ledger: Ledger,
    corpus: DataState,
    terms: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Ledger.append

    def killed(self: Ledger, body: object, **options: object) -> object:
        if isinstance(body, Registration):
            raise KeyboardInterrupt
        return append(self, body, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    receipt = register(layout, "1", ledger=ledger, corpus=corpus, **terms)
    assert kinds(ledger) == ["genesis", "embargo", "registration", "anchor"]
    # Whoever repeats it without the option is told that the embargo stands.
    assert receipt.embargo is not None


def test_register_with_another_day_than_the_standing_embargo_is_refused(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    ledger.append(Embargo(until="2099-01-31", reason="r"), subject=committed.name)
    with pytest.raises(ConflictError, match=r"until 2099-01-31 stands \(entry 1") as refusal:
        register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    assert "--embargo-until 2099-01-31" in refusal.value.remedy
    assert kinds(ledger) == ["genesis", "embargo"]


@pytest.mark.parametrize(
    "terms",
    [
        {"embargo_until": "2099-12-31"},
        {"embargo_reason": "why"},
        {"embargo_until": "2099-12-31", "embargo_reason": "  "},
        {"embargo_until": "2001-12-31", "embargo_reason": "why"},
        {"embargo_until": "31.12.2099", "embargo_reason": "why"},
    ],
)
def test_register_with_half_an_embargo_is_refused_and_appends_nothing(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState, terms: dict[str, str]
) -> None:
    with pytest.raises(InvalidFileError, match="embargo") as refusal:
        register(layout, "1", ledger=ledger, corpus=corpus, **terms)
    assert refusal.value.remedy
    assert kinds(ledger) == ["genesis"]


def test_embargo_in_the_proposal_is_kept_and_another_day_refused(
    layout: Layout,
    folder: Path,
    ledger: Ledger,
    corpus: DataState,
    git: object,
) -> None:
    file = folder / "proposal.md"
    text = file.read_text("utf-8")
    asked = "embargo:\n  until: 2099-06-30\n  reason: under review\nproxy_infidelities:"
    file.write_text(text.replace("proxy_infidelities:", asked, 1), "utf-8")
    assert callable(git)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "File")):
        git(*words)
    with pytest.raises(InvalidFileError, match="not the day in the proposal, 2099-06-30"):
        register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    receipt = register(layout, "1", ledger=ledger, corpus=corpus)
    assert receipt.embargo is not None
    assert receipt.embargo.until == "2099-06-30"


def test_reveal_refers_to_the_embargo_and_counts_what_it_publishes(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    receipt = register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    found = reveal(ledger, committed.name, reason="accepted")
    assert isinstance(found.entry.body, Reveal)
    assert receipt.embargo is not None
    assert found.entry.refs == (receipt.embargo.leaf,)
    # The registration; the anchor was published all along.
    assert (found.num_entries, found.until) == (1, "2099-12-31")
    assert standing_embargoes(ledger, committed.name) == ()
    with pytest.raises(ConflictError, match="no embargo"):
        reveal(ledger, committed.name, reason="")


def test_embargo_of_today_is_refused_by_the_ledgers_own_clock(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    today = ledger.now().astimezone(UTC).date().isoformat()
    with pytest.raises(InvalidFileError, match="not after today"):
        register(layout, "1", ledger=ledger, corpus=corpus, embargo_until=today, embargo_reason="r")
    assert isinstance(ledger.now(), datetime)


def between(monkeypatch: pytest.MonkeyPatch, kind: str, happens: Callable[[], object]) -> None:
    """Let something happen after a look at the log, before the first entry of the kind."""
    append, left = Ledger.append, [happens]

    def raced(self: Ledger, body: Body, **options: Any) -> Entry:
        if body.kind == kind and left:
            left.pop()()
        return append(self, body, **options)

    monkeypatch.setattr(Ledger, "append", raced)


def test_two_reveals_at_once_leave_one_and_a_log_that_verifies(
    layout: Layout,
    committed: Path,
    ledger: Ledger,
    corpus: DataState,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second reveal would refer to no standing embargo, and the log would fail for ever."""
    register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    between(monkeypatch, "reveal", lambda: reveal(ledger, committed.name, reason="first"))
    with pytest.raises(ConflictError, match="no embargo"):
        reveal(ledger, committed.name, reason="second")
    (entry,) = ledger.entries(kind="reveal")
    assert entry.body == Reveal(reason="first")
    assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_reveal_that_others_came_before_counts_what_it_reveals_itself(
    layout: Layout,
    committed: Path,
    ledger: Ledger,
    corpus: DataState,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(layout, "1", ledger=ledger, corpus=corpus, **TERMS)
    note = ledger.append(Note(text="a name"), subject=committed.name)
    ledger.redact(note, what="personal_data", reason="a person")
    meanwhile = lambda: ledger.append(Note(text="late"), subject=committed.name)  # noqa: E731
    between(monkeypatch, "reveal", meanwhile)
    revealed = reveal(ledger, committed.name, reason="")
    # The registration and the late note: what was erased cannot be published.
    assert revealed.num_entries == 2
    assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
