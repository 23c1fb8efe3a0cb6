"""A PostgreSQL server that restarts, or is away, under a ledger that is open."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import postgres
from tests.registry.stores import Place
from workbench.errors import StoreUnavailableError
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger
from workbench.registry.verify import verify_log

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A database of a server that nobody else uses."""
    monkeypatch.delenv(postgres.VARIABLE, raising=False)
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    with postgres.server() as url:
        yield Place(url=url, root=tmp_path)


def noted(ledger: Ledger, text: str) -> str:
    return ledger.append(Note(text=text), subject="lab").leaf


def restart(place: Place, how: str) -> None:
    postgres.stop(place.url, how)
    postgres.start(place.url)


def test_open_ledger_goes_on_after_a_restart(place: Place) -> None:
    with place.create() as ledger, place.inspect() as reader:
        kept = [noted(ledger, "before")]
        for how in ("fast", "immediate", "fast"):
            restart(place, how)
            # A crash may take the newest head back, which the next append signs again.
            assert len(kept) <= reader.head().size <= len(kept) + 1
            kept += [noted(ledger, f"after {how}"), noted(ledger, "again")]
        restart(place, "immediate")
        ledger.rotate("log", why="scheduled", reason="yearly")
        assert [entry.leaf for entry in ledger.entries(kind="note")] == kept
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed


def test_server_that_is_away_is_a_refusal_until_it_is_back(place: Place) -> None:
    with place.create() as ledger:
        noted(ledger, "before")
        postgres.stop(place.url, "fast")
        try:
            for attempt in (lambda: noted(ledger, "lost"), ledger.head, place.open):
                with pytest.raises(StoreUnavailableError, match="start or free the server"):
                    attempt()
        finally:
            postgres.start(place.url)
        noted(ledger, "after")
        bodies = [entry.body for entry in ledger.entries(kind="note")]
        assert bodies == [Note(text="before"), Note(text="after")]


def test_restart_frees_what_was_reserved_and_ends_without_an_error(place: Place) -> None:
    with place.create() as ledger, place.open() as other:
        with ledger.reserved("0001-x confirmatory") as mine:
            assert mine
            with other.reserved("0001-x confirmatory") as theirs:
                assert not theirs
            restart(place, "fast")
            with other.reserved("0001-x confirmatory") as theirs:
                assert theirs
        noted(ledger, "goes on")


def test_restarts_under_four_writers_lose_nothing_that_was_acknowledged(place: Place) -> None:
    with place.create(clock=lambda: datetime.now(UTC)) as ledger:
        ended, kept, refused = threading.Event(), [], []

        def write(number: int) -> None:
            count = 0
            while not ended.is_set():
                count += 1
                try:
                    kept.append(noted(ledger, f"{number}-{count}"))
                except StoreUnavailableError as error:
                    refused.append(error)

        writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for writer in writers:
            writer.start()
        try:
            for how in ("immediate", "fast", "immediate"):
                size = len(kept)
                while len(kept) < size + 20 and any(w.is_alive() for w in writers):
                    ended.wait(0.01)
                restart(place, how)
        finally:
            ended.set()
            for writer in writers:
                writer.join()
        kept.append(noted(ledger, "the end"))
        found = [entry.leaf for entry in ledger.entries(kind="note")]
        assert len(found) == len(set(found))
        assert set(kept) <= set(found)
        assert len(kept) > 60
        assert refused
        assert verify_log(ledger, vkey=ledger.vkey, kept_head=None).passed
