import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import disk
from workbench.data.building.cache import StageCache, new_folder, only_one, remove_abandoned
from workbench.errors import StoreUnavailableError

KEY = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "f" * 64


def nothing() -> None:
    pass


def counting(made: list[str], text: str = "result"):
    def make(folder: Path) -> None:
        made.append(text)
        (folder / "a.txt").write_text(text)

    return make


def test_result_is_made_once_a_key(tmp_path: Path) -> None:
    made: list[str] = []
    for _ in range(2):
        with StageCache(tmp_path, nothing) as cache:
            found = cache.result("language", KEY, counting(made))
        assert found == tmp_path / "language-0123456789abcdef"
        assert (found / "a.txt").read_text() == "result"
    with StageCache(tmp_path, nothing) as cache:
        cache.result("language", OTHER, counting(made))
        cache.result("quality", KEY, counting(made))
    assert len(made) == 3


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[StageCache]:
    with StageCache(tmp_path, nothing) as opened:
        yield opened


def test_result_that_was_damaged_is_made_again(cache: StageCache) -> None:
    made: list[str] = []
    folder = cache.result("language", KEY, counting(made))
    contents = (folder / "contents.json").read_text()
    damages = [
        lambda: (folder / "a.txt").write_text("other"),
        lambda: (folder / "a.txt").unlink(),
        lambda: (folder / "contents.json").unlink(),
        lambda: (folder / "contents.json").write_text("{"),
        lambda: (folder / "contents.json").write_text("[]"),
        lambda: (folder / "contents.json").write_text(json.dumps({"key": KEY})),
        lambda: (folder / "contents.json").write_text(contents.replace(KEY, OTHER)),
        lambda: (folder / "contents.json").write_text(contents.replace("stage/v3", "stage/v1")),
    ]
    for number, damage in enumerate(damages):
        damage()
        assert cache.result("language", KEY, counting(made)) == folder
        assert (folder / "a.txt").read_text() == "result"
        assert len(made) == number + 2


def test_result_whose_making_fails_leaves_nothing(cache: StageCache, tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cache.result("language", KEY, fail)
    assert [path.name for path in tmp_path.iterdir()] == [".language-0123456789abcdef.lock"]


def aged_results(folder: Path, made: list[str]) -> list[str]:
    """Make twelve results of one stage, the oldest first."""
    keys = [f"sha256:{number:016x}{'0' * 48}" for number in range(12)]
    with StageCache(folder, nothing) as cache:
        for age, key in enumerate(keys):
            os.utime(cache.result("read", key, counting(made)), (age, age))
    return keys


def test_results_beyond_the_last_used_are_forgotten_by_stage(tmp_path: Path) -> None:
    made: list[str] = []
    keys = aged_results(tmp_path, made)
    with StageCache(tmp_path, nothing) as cache:
        os.utime(cache.result("language", keys[0], counting(made)), (0, 0))
        cache.result("read", keys[0], counting(made))  # used again: no longer the oldest
        cache.forget_old()
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    kept = [keys[0], *keys[5:]]
    assert left == {"language-" + "0" * 16, *(f"read-{key[7:23]}" for key in kept)}
    assert len(made) == 13


def test_results_that_another_build_uses_are_not_forgotten(tmp_path: Path) -> None:
    made: list[str] = []
    keys = aged_results(tmp_path, made)
    with StageCache(tmp_path, nothing) as running, StageCache(tmp_path, nothing) as other:
        used = [running.result("read", key, counting(made)) for key in keys[:2]]
        for age, folder in enumerate(used):
            os.utime(folder, (age, age))
        other.forget_old()
        assert all((folder / "a.txt").read_text() == "result" for folder in used)
        assert sum(path.name.startswith("read-") for path in tmp_path.iterdir()) == 8 + 2
    with StageCache(tmp_path, nothing) as later:
        later.forget_old()
    assert not any(folder.exists() for folder in used)


def test_results_that_another_build_forgets_at_the_same_time_do_no_harm(
    cache: StageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged_results(tmp_path, [])
    listed = list(tmp_path.iterdir())
    shutil.rmtree(next(path for path in listed if path.name.startswith("read-")))
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(listed))
    cache.forget_old()


def test_abandoned_folders_are_removed_and_those_at_work_are_not(tmp_path: Path) -> None:
    (tmp_path / ".building-small-v1-0123-abcd").mkdir()
    (tmp_path / ".building-small-v1-0123-abcd" / "file").write_text("half")
    final = tmp_path / "other-v1-4567"
    with only_one(final, nothing), new_folder(final) as work:
        remove_abandoned(tmp_path)
        assert list(tmp_path.glob(".building-*")) == [work]
        (work / "file").write_text("whole")
    assert (final / "file").read_text() == "whole"


def test_only_one_tells_who_waits(tmp_path: Path) -> None:
    waiting, order = threading.Event(), list[str]()

    def second() -> None:
        with only_one(tmp_path / "a", waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with only_one(tmp_path / "a", nothing):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_new_folder_on_a_full_disk_is_a_refusal_that_leaves_nothing(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "size=256k"):
        final = tmp_path / "disk" / "corpus"
        with (
            pytest.raises(StoreUnavailableError, match="full") as caught,
            new_folder(final) as work,
        ):
            (work / "big").write_bytes(bytes(1 << 20))
        assert "free space" in caught.value.remedy
        assert list((tmp_path / "disk").iterdir()) == []


def test_new_folder_whose_parent_vanished_raises_what_happened(tmp_path: Path) -> None:
    final = tmp_path / "corpora" / "a"
    final.parent.mkdir()

    def make() -> None:
        with new_folder(final):
            shutil.rmtree(final.parent)
            raise ValueError("what happened")

    with pytest.raises(ValueError, match="what happened"):
        make()
