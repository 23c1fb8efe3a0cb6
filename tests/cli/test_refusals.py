"""Refusals: the class's exit code, the remedy, never a traceback, nothing written half."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Said
from tests.labs import RECIPE_PATH, SUBJECT, LabFolder


def refused(said: Said, code: int) -> str:
    assert said.code == code
    assert said.err.startswith("refused: ")
    assert "Traceback" not in said.out + said.err
    return said.err


@pytest.mark.parametrize("command", ["sweep", "promote", "run", "verdict"])
def test_unregistered_experiment_is_refused_with_both_ways_on(
    filed_lab: LabFolder, workbench: Command, command: str
) -> None:
    size = len(filed_lab.entries())
    told = refused(workbench(command, "1", lab=filed_lab), 4)
    assert f"experiment {SUBJECT} is not registered" in told
    assert "workbench register 0001" in told
    assert "--exploratory" in told
    assert len(filed_lab.entries()) == size
    assert not (filed_lab.root / ".workbench" / "mlflow.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["check", "1"],
        ["note", "x"],
        ["publish"],
        ["run", "1"],
        ["chronicle"],
    ],
    ids=" ".join,
)
def test_command_outside_of_a_lab_says_how_to_make_one(
    tmp_path: Path, workbench: Command, arguments: list[str]
) -> None:
    told = refused(workbench(*arguments, lab=tmp_path), 9)
    assert "workbench init DIR" in told


@pytest.mark.parametrize(
    "arguments",
    [["check", "9"], ["register", "9"], ["run", "9"], ["note", "x", "-e", "9"], ["chronicle", "9"]],
    ids=" ".join,
)
def test_unknown_experiment_is_refused_with_the_known_ones(
    filed_lab: LabFolder, workbench: Command, arguments: list[str]
) -> None:
    told = refused(workbench(*arguments, lab=filed_lab), 9)
    assert f"'9' does not exist in experiments/ (known: {SUBJECT})" in told


@pytest.mark.parametrize("recipe", ["proxies/none.yaml", "/nowhere.yaml"])
def test_unknown_recipe_is_refused_with_the_known_ones(
    filed_lab: LabFolder, workbench: Command, recipe: str
) -> None:
    assert RECIPE_PATH in refused(workbench("data", "build", recipe, lab=filed_lab), 9)


def test_chronicle_of_an_experiment_without_entries_is_refused(
    filed_lab: LabFolder, workbench: Command
) -> None:
    refused(workbench("chronicle", "1", lab=filed_lab), 9)
    assert list((filed_lab.root / "reports").iterdir()) == [
        filed_lab.root / "reports" / "README.md"
    ]


def test_register_dirty_tree_is_refused_with_the_files(
    filed_lab: LabFolder, workbench: Command
) -> None:
    (filed_lab.root / "model.py").write_text("x = 1\n", "utf-8")
    told = refused(workbench("register", "1", lab=filed_lab), 5)
    assert "model.py" in told
    assert "git add -A && git commit" in told
    assert filed_lab.bodies("registration") == []


def test_register_twice_is_refused(registered_lab: LabFolder, workbench: Command) -> None:
    told = refused(workbench("register", "1", lab=registered_lab), 5)
    assert f"{SUBJECT} was registered at" in told
    assert len(registered_lab.bodies("registration")) == 1


def test_empty_note_is_refused(filed_lab: LabFolder, workbench: Command) -> None:
    refused(workbench("note", "  ", lab=filed_lab), 3)


def test_empty_title_is_refused(filed_lab: LabFolder, workbench: Command) -> None:
    refused(workbench("propose", "???", lab=filed_lab), 3)


def test_unusable_settings_are_refused_with_the_key(
    filed_lab: LabFolder, workbench: Command
) -> None:
    config = filed_lab.root / "workbench.toml"
    config.write_text(config.read_text("utf-8") + 'namex = "x"\n', "utf-8")
    assert "namex" in refused(workbench("status", lab=filed_lab), 3)


@pytest.mark.parametrize("command", ["note", "register"])
def test_writing_without_the_keys_says_which_variable_finds_them(
    filed_lab: LabFolder, workbench: Command, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_KEYS_DIR", str(filed_lab.home / "elsewhere"))
    assert "WORKBENCH_KEYS_DIR" in refused(workbench(command, "1", lab=filed_lab), 9)


def test_lab_without_a_store_can_be_read_from_what_it_published(
    decided_lab: LabFolder, workbench: Command
) -> None:
    for store in (decided_lab.root / ".workbench").glob("ledger.db*"):
        store.unlink()
    assert workbench("status", lab=decided_lab).code == 0
    assert workbench("verify", lab=decided_lab).code == 0
    refused(workbench("note", "x", lab=decided_lab), 9)


def test_lab_with_neither_store_nor_published_files_is_refused(
    filed_lab: LabFolder, workbench: Command
) -> None:
    for store in (filed_lab.root / ".workbench").glob("ledger.db*"):
        store.unlink()
    assert "neither a store" in refused(workbench("status", lab=filed_lab), 9)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_one_flipped_byte_in_the_store_fails_verify_and_names_the_entry(
    decided_lab: LabFolder, workbench: Command
) -> None:
    (entry,) = decided_lab.entries("registration")
    store = decided_lab.root / ".workbench" / "ledger.db"
    settle(store)
    place = store.read_bytes().index(b"Does code help")
    flip(store, place)
    said = workbench("verify", lab=decided_lab)
    assert said.code == 6
    last = said.out.splitlines()[-1]
    assert last.startswith("FAILED")
    assert f"entry {entry.sequence} (registration {entry.id})" in last


def settle(store: Path) -> None:
    """Move what SQLite keeps beside its file into the file."""
    import sqlite3

    connection = sqlite3.connect(store)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@pytest.mark.parametrize("pattern", ["bodies/*.jsonl", "tile/entries/*/*", "tile/0/*/*"])
def test_one_flipped_byte_in_a_published_file_fails_verify_and_names_the_entry(
    decided_lab: LabFolder, workbench: Command, pattern: str
) -> None:
    registry = decided_lab.root / "registry"
    (file,) = registry.glob(pattern)
    text = file.read_bytes().find(b"registration")
    flip(file, text if text > 0 else file.stat().st_size // 2)
    said = workbench("verify", "--from", str(registry), lab=decided_lab)
    assert said.code == 6
    last = said.out.splitlines()[-1]
    assert last.startswith("FAILED")
    assert "entry " in last
    assert workbench("verify", lab=decided_lab).code == 0, "the store is as it was"


def test_store_cut_back_behind_the_published_head_fails_verify(
    decided_lab: LabFolder, workbench: Command, use: Callable[..., LabFolder],
    finished_stage: LabFolder, tmp_path: Path,
) -> None:  # fmt: skip
    older = finished_stage.copy(tmp_path / "older")
    target = decided_lab.root / ".workbench" / "ledger.db"
    source = older.root / ".workbench" / "ledger.db"
    settle(source)
    for file in target.parent.glob("ledger.db*"):
        file.unlink()
    target.write_bytes(source.read_bytes())
    said = workbench("verify", lab=decided_lab)
    assert said.code == 6
    assert "kept head" in said.out.splitlines()[-1]
    assert workbench("note", "go on", lab=decided_lab).code == 6
