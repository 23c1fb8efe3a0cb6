"""The files of a local source: which they are, what they are called, which are read together."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.errors import InvalidFileError, NotFoundError

_SUFFIXES = {
    "text": (".txt", ".md", ".rst"),
    "jsonl": (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst"),
    "parquet": (".parquet",),
}
"""What is taken from a folder, in any case; a path to one file may end as it likes."""

_GROUP_BYTES = 16_000_000
_MOST_FILES = 256
_SHOWN = 120


def source_files(source: str, *, root: Path) -> list[Path]:
    """Return the files of a ``text:``, ``jsonl:`` or ``parquet:`` source in their fixed order.

    A relative path starts at the lab's root; a folder stands for all its files of the kind, in the
    order of their names. Nothing of the kind is passed over: what cannot be read is refused. A
    link to a folder is only passed over where its target lies in the source, so is read anyway.

    Raises:
        InvalidFileError: a relative path that leaves the lab, or one that is no path; a name of the
            kind that is no file or has no UTF-8 form; a link to a folder elsewhere; only empty
            files.
        NotFoundError: nothing there.
    """
    kind, _, name = source.partition(":")
    path = _inside(name, root)
    try:
        found = [path] if path.is_file() else list(_files_below(path, kind))
        empty = not any(file.stat().st_size for file in found)
    except (OSError, ValueError) as error:  # too long a path, a null character, a forbidden folder
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(
            f"source {_shortened(source)!r} cannot be read: {reason}",
            remedy="correct the path in the recipe",
        ) from error
    if not found:
        raise NotFoundError(
            f"source {source!r}: no {kind} file at {path}",
            remedy="correct the path in the recipe, or put the file there",
        )
    if empty:
        raise InvalidFileError(
            f"source {source!r} is empty: {found[0].name} has no byte"
            + (f", nor have the {len(found) - 1} other files" if len(found) > 1 else ""),
            remedy="put text into the file, or remove the source from the recipe",
        )
    return sorted(found, key=lambda p: p.relative_to(path).as_posix())


def _inside(name: str, root: Path) -> Path:
    if Path(name).is_absolute():
        return Path(name)
    # Lexically: a link inside the lab to data elsewhere is the researcher's own choice.
    normal = Path(os.path.normpath(name))
    if not name or normal.parts[:1] == (os.pardir,):
        raise InvalidFileError(
            f"source path {name!r} leaves the lab",
            remedy="give an absolute path, or a link inside the lab",
        )
    return root / normal


def _files_below(folder: Path, kind: str) -> Iterator[Path]:
    """Yield a folder's files of a kind, without following links to folders."""
    for parent, folders, names in os.walk(folder, onerror=_raise):
        for name in folders:
            _refuse_link_elsewhere(Path(parent, name), folder)
        for name in names:
            if name.lower().endswith(_SUFFIXES[kind]):
                file = Path(parent, name)
                _refuse_unreadable(file, folder)
                yield file


def _raise(error: OSError) -> None:
    # A path that is not there, or is no folder, is the caller's refusal.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _refuse_link_elsewhere(path: Path, folder: Path) -> None:
    if not path.is_symlink():
        return
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(os.path.realpath(folder)):
        raise InvalidFileError(
            f"{_printable(path)} is a link to a folder, which is not followed",
            remedy="name the folder as a source of its own, or remove the link",
        )


def _refuse_unreadable(file: Path, folder: Path) -> None:
    name = file.relative_to(folder).as_posix()
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidFileError(
            f"the name of {_printable(file)} is not UTF-8, so no document could be named after it",
            remedy="rename the file",
        ) from error
    if not file.is_file():
        what = "a link to nothing" if file.is_symlink() else "no regular file"
        raise InvalidFileError(
            f"{file} is {what}", remedy="remove it from the folder, or put the file there"
        )


def _printable(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files of a source that are read together: a shard of it."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    """What the documents of each file are called: the source's path, without the machine's."""


def file_groups(source: str, *, root: Path) -> list[FileGroup]:
    """Return a local source's files in their order, in groups that different processes may read.

    A file of its own unless it is small: many small ones are one group. The groups hang on the
    files alone, never on how many processes there are.

    Raises:
        InvalidFileError: as `source_files`.
        NotFoundError: nothing there.
    """
    groups: list[list[Path]] = []
    room = 0
    for file in source_files(source, root=root):
        size = file.stat().st_size
        if not groups or size > room or len(groups[-1]) == _MOST_FILES:
            groups.append([])
            room = _GROUP_BYTES
        groups[-1].append(file)
        room -= size
    names = partial(_document_name, source, root)
    return [FileGroup(files=tuple(files), names=tuple(map(names, files))) for files in groups]


def _document_name(source: str, root: Path, file: Path) -> str:
    path = source.partition(":")[2]
    # Of an absolute path only the last part: where it lies is the machine's affair.
    base = Path(path).parent if Path(path).is_absolute() else root
    return file.relative_to(base).as_posix()
