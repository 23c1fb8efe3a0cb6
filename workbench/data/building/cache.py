"""Folders that exist only when they are complete: results of stages, found again by their key."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from workbench.data.manifest import file_sha256
from workbench.errors import StoreUnavailableError

_BUILDING = ".building-"
_CONTENTS = "contents.json"
_FORMAT = "stage/v3"
"""Of what the stages write; a result of another is made again."""
_LEAST_FREE = 1 << 16
_MOST_RESULTS = 8
"""Results of one stage that are kept, the last used."""


@contextlib.contextmanager
def only_one(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a folder to be made; the system releases it however the process dies.

    Args:
        folder: what is made; the lock lies beside it.
        waiting: told when another process holds it, before waiting for that.
    """
    with _lock_path(folder).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Yield an empty folder that takes its final name when the block ends, complete and on disk.

    The caller holds `only_one` of the final folder. When the block raises, nothing is left.

    Raises:
        StoreUnavailableError: the disk is full.
    """
    work = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{final.name}-", dir=final.parent))
    try:
        yield work
        _to_disk(work)
        work.chmod(0o755)
        work.rename(final)
        _sync(final.parent)
    except BaseException as error:
        full = _is_full(error, final.parent)
        shutil.rmtree(work, ignore_errors=True)
        if full:
            raise StoreUnavailableError(
                f"the disk of {final.parent} is full: {final.name} could not be written",
                remedy="free space there and run again: workbench data build RECIPE",
            ) from error
        raise


def _is_full(error: BaseException, folder: Path) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if not isinstance(error, Exception):
        return False
    # NumPy and the tokenizer's library do not pass the system's error number on.
    try:
        return shutil.disk_usage(folder).free < _LEAST_FREE
    except OSError:  # the folder is gone: that, not a full disk, is what the error is about
        return False


def remove_abandoned(folder: Path) -> None:
    """Remove what killed builds left in a folder; what somebody works on is left alone."""
    for left_over in folder.glob(f"{_BUILDING}*"):
        name = left_over.name.removeprefix(_BUILDING).rpartition("-")[0]
        with _free(_lock_path(folder / name)) as free:
            if free:
                shutil.rmtree(left_over, ignore_errors=True)


@contextlib.contextmanager
def _free(lock: Path) -> Iterator[bool]:
    """Yield whether nobody holds the lock; while the block runs nobody takes it."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


class StageCache:
    """Results by stage and key, below one folder; it may be deleted at any time between builds.

    A context: results that were returned within it stay until it ends, whoever forgets old ones.
    """

    def __init__(self, folder: Path, waiting: Callable[[], None]) -> None:
        """Make the folder and remove what killed builds left in it.

        Args:
            folder: holds the results.
            waiting: told when another build makes the same result, before waiting for it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        self._folder = folder
        self._waiting = waiting
        self._in_use = contextlib.ExitStack()

    def __enter__(self) -> "StageCache":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._in_use.close()

    def result(self, name: str, key: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of a stage's result, made first unless it is there and sound.

        Args:
            name: of the stage.
            key: ``sha256:…`` of everything that decides the result.
            make: fills an empty folder; its exceptions pass through and leave nothing.
        """
        final = self._folder / f"{name}-{key.removeprefix('sha256:')[:16]}"
        with only_one(final, self._waiting):
            if not _is_sound(final, key):
                shutil.rmtree(final, ignore_errors=True)
                with new_folder(final) as work:
                    make(work)
                    _write_contents(work, key)
            os.utime(final)
            # Before the lock is given back: in between another build could forget the result.
            used = self._in_use.enter_context(_used_path(final).open("w"))
            fcntl.flock(used, fcntl.LOCK_SH)
        return final

    def forget_old(self) -> None:
        """Remove all but the last used results of each stage, and those that a build uses."""
        by_stage: dict[str, list[Path]] = {}
        for path in _last_used_first(self._folder):
            by_stage.setdefault(path.name.rpartition("-")[0], []).append(path)
        for old in (path for paths in by_stage.values() for path in paths[_MOST_RESULTS:]):
            with _free(_lock_path(old)) as unmade:
                if not unmade:
                    continue
                with _free(_used_path(old)) as unused:
                    if unused:
                        shutil.rmtree(old, ignore_errors=True)


def _last_used_first(folder: Path) -> list[Path]:
    used = []
    for path in folder.iterdir():
        if not path.name.startswith("."):
            with contextlib.suppress(FileNotFoundError):  # another build forgot it
                used.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(used, reverse=True)]


def _write_contents(folder: Path, key: str) -> None:
    files = {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}
    (folder / _CONTENTS).write_text(
        json.dumps({"format": _FORMAT, "key": key, "files": files}), "utf-8"
    )


def _is_sound(folder: Path, key: str) -> bool:
    try:
        contents = json.loads((folder / _CONTENTS).read_text("utf-8"))
        return (contents["format"], contents["key"]) == (_FORMAT, key) and all(
            file_sha256(folder / name) == sha256 for name, sha256 in contents["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _lock_path(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.lock"


def _used_path(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.used"


def _to_disk(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
