"""Keys on the disk: for the owner only, made once, never mixed up."""

import stat
from pathlib import Path

import pytest

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.files import write_atomic, write_once
from workbench.registry.heads import sign_head
from workbench.registry.keys import create_keys, keys_folder, load_keys

ORIGIN = "example.com/lab"


def test_keys_created_are_private_and_load_again(tmp_path: Path) -> None:
    keys = create_keys(tmp_path / "keys", ORIGIN)
    folder = keys_folder(tmp_path / "keys", ORIGIN)
    assert folder.name == "example.com_lab"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "log.key": 0o600, "author.key": 0o600}  # fmt: skip
    assert load_keys(tmp_path / "keys", ORIGIN) == keys
    assert keys.log.name == ORIGIN
    assert keys.log.seed != keys.author.seed
    assert keys.last_head() is None


@pytest.mark.parametrize(("name", "mode", "remedy"), [
    ("log.key", 0o640, "chmod 600"), ("author.key", 0o604, "chmod 600"), ("", 0o750, "chmod 700"),
])  # fmt: skip
def test_keys_readable_by_others_are_refused(
    tmp_path: Path, name: str, mode: int, remedy: str
) -> None:
    folder = create_keys(tmp_path, ORIGIN).folder
    (folder / name).chmod(mode)
    with pytest.raises(IntegrityError, match=f"mode {mode:o}") as refusal:
        load_keys(tmp_path, ORIGIN)
    assert remedy in refusal.value.remedy


def test_keys_missing_or_of_another_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no private key"):
        load_keys(tmp_path, ORIGIN)
    folder = create_keys(tmp_path, ORIGIN).folder
    (folder / "log.key").write_bytes((folder / "author.key").read_bytes())
    with pytest.raises(IntegrityError, match=r"is the key of 'example\.com/lab/author'"):
        load_keys(tmp_path, ORIGIN)
    # Two origins that would share a folder are told apart by the names in the keys.
    with pytest.raises(IntegrityError):
        create_keys(tmp_path, "example.com_lab")


def test_keys_of_a_log_that_exists_are_not_made_again(tmp_path: Path) -> None:
    keys = create_keys(tmp_path, ORIGIN)
    assert create_keys(tmp_path, ORIGIN) == keys
    keys.keep_head(sign_head(keys.log, 1, bytes(32)))
    with pytest.raises(ConflictError, match="have already signed"):
        create_keys(tmp_path, ORIGIN)
    kept = keys.last_head()
    assert kept is not None
    assert kept.size == 1


def test_write_once_keeps_the_first_content(tmp_path: Path) -> None:
    write_once(tmp_path / "file", b"first")
    write_once(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_write_atomic_that_fails_leaves_the_old_content_and_no_rest(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomic(tmp_path / "folder", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    write_atomic(tmp_path / "file", b"old")
    write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["log.key", "author.key"])
def test_damaged_key_is_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    folder = create_keys(tmp_path, ORIGIN).folder
    (folder / name).write_bytes(b"\xff\x00 no key")
    with pytest.raises(IntegrityError, match=f"{folder / name} cannot be used") as refusal:
        load_keys(tmp_path, ORIGIN)
    assert "backup" in refusal.value.remedy


def test_damaged_last_head_is_named_with_the_way_out(tmp_path: Path) -> None:
    keys = create_keys(tmp_path, ORIGIN)
    (keys.folder / "last-head").write_bytes(b"\xff\x00 no head")
    with pytest.raises(IntegrityError, match="last-head is not the last signed head") as refusal:
        keys.last_head()
    assert "backup" in refusal.value.remedy


def test_empty_last_head_is_none_only_where_none_was_ever_synced(tmp_path: Path) -> None:
    """A writer that is killed at its first head leaves an empty file."""
    keys = create_keys(tmp_path, ORIGIN)
    (keys.folder / "last-head").touch()
    assert keys.last_head() is None
    assert create_keys(tmp_path, ORIGIN) == keys
    keys.sync_head(sign_head(keys.log, 3, bytes(32)))
    kept = keys.last_head()
    assert kept is not None
    assert kept.size == 3
    with pytest.raises(ConflictError, match="have already signed"):
        create_keys(tmp_path, ORIGIN)
