"""A log that continues another: what it names, and which files move."""

import shutil
from pathlib import Path

import pytest

from tests.registry.conftest import ORIGIN, LogFolder, ticking
from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.entries import Predecessor
from workbench.registry.ledger import Ledger
from workbench.registry.places import Folder, Website
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.successor import (
    folder_of,
    forerunners,
    keep_predecessor,
    predecessor_of,
    remove_published,
)

NEW = "example.com/next"


def successor(folder: LogFolder, named: Predecessor) -> Ledger:
    return Ledger.create(
        url=f"sqlite:///{folder.root}/next/ledger.db",
        origin=NEW,
        keys_dir=folder.root / "keys",
        actor="researcher",
        clock=ticking(),
        lab_name="test lab",
        predecessor=named,
    )


def test_predecessor_is_named_by_origin_head_and_key(story: LogFolder) -> None:
    published = PublishedLog(story.published)
    named = predecessor_of(published)
    assert named == Predecessor(origin=ORIGIN, head=published.head().note, log_key=published.vkey)


def test_published_files_that_do_not_verify_are_no_predecessor(story: LogFolder) -> None:
    path = story.published / "bodies" / "000.jsonl"
    path.write_bytes(path.read_bytes().replace(b"test lab", b"best lab"))
    with pytest.raises(IntegrityError, match="no log can continue them"):
        predecessor_of(PublishedLog(story.published))
    with pytest.raises(NotFoundError):
        predecessor_of(PublishedLog(story.root / "nothing"))


def test_files_move_whole_and_the_readme_stays(story: LogFolder) -> None:
    (story.published / "README.md").write_text("Registry")
    before = {p.name for p in story.published.iterdir()}
    kept = keep_predecessor(story.published, ORIGIN)
    assert kept == story.published / folder_of(ORIGIN)
    assert {p.name for p in kept.iterdir()} == before - {"README.md"}
    assert keep_predecessor(story.published, ORIGIN) == kept  # again: nothing to do
    remove_published(story.published, ORIGIN)
    assert {p.name for p in story.published.iterdir()} == {"README.md", "predecessors"}
    remove_published(story.published, ORIGIN)  # again: nothing to do


def test_published_head_that_is_not_the_kept_one_is_not_removed(story: LogFolder) -> None:
    keep_predecessor(story.published, ORIGIN)
    with story.open() as ledger:
        ledger.rotate("log", why="scheduled", reason="r")
        publish(ledger, story.published)
    with pytest.raises(IntegrityError, match="is not the head that was kept"):
        remove_published(story.published, ORIGIN)
    assert (story.published / "checkpoint").is_file()


@pytest.mark.parametrize("kind", ["path", "folder"])
def test_forerunners_are_found_below_the_published_files(story: LogFolder, kind: str) -> None:
    named = predecessor_of(PublishedLog(story.published))
    keep_predecessor(story.published, ORIGIN)
    remove_published(story.published, ORIGIN)
    with successor(story, named) as ledger:
        publish(ledger, story.published)
        assert ledger.head().size == 1
    place: Path | Folder = story.published
    place = Folder(story.published) if kind == "folder" else place
    (found,) = forerunners(PublishedLog(place), place)
    assert (found.named, found.is_here) == (named, True)
    assert found.log.head().size == 17
    shutil.rmtree(story.published / "predecessors")
    (found,) = forerunners(PublishedLog(place), place)
    assert not found.is_here


def test_forerunners_of_a_website_lie_below_its_address(story: LogFolder) -> None:
    named = predecessor_of(PublishedLog(story.published))
    with successor(story, named) as ledger:
        found = next(iter(_web(ledger)), None)
    assert found == "https://log.example/a/predecessors/example.com_lab/"


def _web(ledger: Ledger) -> list[str]:
    from workbench.registry import successor as module

    return [str(module._below(Website("https://log.example/a"), folder_of(ORIGIN)))]


def test_log_that_names_itself_has_no_forerunner(story: LogFolder) -> None:
    own = Predecessor(origin=NEW, head="", log_key="")
    with successor(story, own) as ledger:
        assert list(forerunners(ledger, story.published)) == []


def test_log_without_a_predecessor_has_no_forerunner(story: LogFolder) -> None:
    assert list(forerunners(PublishedLog(story.published), story.published)) == []
