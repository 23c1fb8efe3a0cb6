"""Commands that make a log, cut short wherever they write: the same command finishes them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.labs import LabFolder
from workbench.errors import ConflictError
from workbench.lab import Lab
from workbench.registry import files
from workbench.registry.store.sqlite import SqliteStore

PLACES: dict[str, object] = {
    "append": SqliteStore,
    "fill": SqliteStore,
    "add_head": SqliteStore,
    "pwrite": os,
    "sync_folder": files,
}
"""What a command that makes a log writes with."""


def at_each(*names: str) -> pytest.MarkDecorator:
    """Run a test for each of these, cut short before it and after it."""
    cuts = [f"{when} {name}" for name in names for when in ("before", "after")]
    return pytest.mark.parametrize("cut", cuts)


def cut_short(cut: str, action: Callable[[], object]) -> None:
    """Run something that dies where it first writes so."""
    when, name = cut.split()
    owner = PLACES[name]
    function = getattr(owner, name)

    def dies(*arguments: object, **named: object) -> None:
        if when == "after":
            function(*arguments, **named)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(KeyboardInterrupt):
            action()


def works(lab: Lab) -> None:
    """Check that a log takes an entry and verifies."""
    lab.note("on we go")
    report = lab.verify()
    assert report.passed, report.log.first_failure
    left = [path.name for path in lab.keys_folder.iterdir() if path.name.endswith(".tmp")]
    assert left == []


@at_each("append", "add_head", "pwrite", "sync_folder")
def test_init_is_finished(cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_KEYS_DIR", str(tmp_path / "keys"))
    cut_short(cut, lambda: Lab.init(tmp_path / "lab"))
    if cut != "after pwrite":  # then a head is kept, and the lab is one
        Lab.init(tmp_path / "lab")
    works(Lab.open(tmp_path / "lab"))
    assert len(list((tmp_path / "keys").iterdir())) == 1
    with pytest.raises(ConflictError, match="already a lab"):
        Lab.init(tmp_path / "lab")


@at_each("fill", "pwrite", "sync_folder")
def test_restore_is_finished(cut: str, registered_lab: LabFolder) -> None:
    registered_lab.open().publish()
    for path in (registered_lab.root / ".workbench").glob("ledger.db*"):
        path.unlink()
    cut_short(cut, lambda: registered_lab.open().restore())
    # A store without an entry is none: until it is restored the published files are what is read.
    assert registered_lab.open().verify().passed
    if cut == "before fill":
        registered_lab.open().restore()
    works(registered_lab.open())
    with pytest.raises(ConflictError, match="there is a store"):
        registered_lab.open().restore()
    assert len(registered_lab.entries()) == 4


@at_each("append", "add_head", "pwrite", "sync_folder")
def test_log_that_continues_another_is_begun(cut: str, registered_lab: LabFolder) -> None:
    registered_lab.open().publish()
    shutil.rmtree(registered_lab.home / "keys")
    cut_short(cut, lambda: registered_lab.open().begin_successor())
    begun = registered_lab.open().begin_successor()
    assert begun.size == 3
    works(registered_lab.open())
    assert len(list((registered_lab.home / "keys").iterdir())) == 1


def test_log_whose_store_was_moved_without_its_index_is_still_moved(
    registered_lab: LabFolder,
) -> None:
    """Killed between two files: what is left behind reads as a store without tables."""
    state = registered_lab.root / ".workbench"
    with registered_lab.open().ledger() as ledger:
        old = ledger.origin
        moved = state / "predecessors" / old.replace("/", "_")
        registered_lab.open().publish()
        shutil.rmtree(registered_lab.home / "keys")

        replace = Path.replace

        def dies(self: Path, target: Path) -> None:
            replace(self, target)
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", lambda *a: (dies if "-" in a[0].name else replace)(*a))
            with pytest.raises(KeyboardInterrupt):
                registered_lab.open().begin_successor()
    assert any(moved.glob("ledger.db-*"))
    registered_lab.open().begin_successor()
    assert (moved / "ledger.db").is_file()
    works(registered_lab.open())
