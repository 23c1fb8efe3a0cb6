"""A new log that continues one whose keys or newest entries were lost.

The old log's published files move to ``predecessors/`` untouched. The new log's first entry names
the old one's origin, head and key, so that a reader verifies both and that they belong together.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.entries import Genesis, Predecessor
from workbench.registry.files import sync_folder
from workbench.registry.heads import SignedHead
from workbench.registry.log import LogSource
from workbench.registry.places import Folder, Place, Website
from workbench.registry.published import CHECKPOINT, PublishedLog
from workbench.registry.verify import verify_log

PREDECESSORS = "predecessors"
_STAYS = frozenset({"README.md", PREDECESSORS})
"""What of ``registry/`` is no part of the published log."""


@dataclass(frozen=True, kw_only=True)
class Forerunner:
    """The log that another continues."""

    named: Predecessor
    """As the newer log's first entry names it."""
    log: PublishedLog
    is_here: bool
    """Whether its published files are there."""


def folder_of(origin: str) -> str:
    """Return where a predecessor's files lie, below the published files of its successor."""
    return f"{PREDECESSORS}/{origin.replace('/', '_')}"


def forerunners(source: LogSource, place: Path | Place) -> Iterator[Forerunner]:
    """Yield the logs that a log continues, the nearest first, until one is not there.

    Args:
        source: the newest log.
        place: of its published files, below which its predecessors lie.
    """
    seen = {source.origin}
    log: LogSource = source
    while True:
        first = next(iter(log.entries(kind=Genesis.kind)), None)
        named = first.body.predecessor if first and isinstance(first.body, Genesis) else None
        if named is None or named.origin in seen:
            return
        seen.add(named.origin)
        found = PublishedLog(_below(place, folder_of(named.origin)))
        is_here = _is_published(found)
        yield Forerunner(named=named, log=found, is_here=is_here)
        if not is_here:
            return
        log = found


def _below(place: Path | Place, name: str) -> Path | Place:
    if isinstance(place, Path):
        return place / name
    if isinstance(place, Folder):
        return Folder(place.path / name)
    return Website(f"{str(place).rstrip('/')}/{name}/")


def _is_published(log: PublishedLog) -> bool:
    try:
        log.head()
    except NotFoundError:
        return False
    return True


def predecessor_of(published: PublishedLog) -> Predecessor:
    """Return how a new log names the one that it continues.

    Raises:
        NotFoundError: nothing is published.
        IntegrityError: what is published does not verify: a new log would continue what is false.
    """
    head, vkey = published.head(), published.vkey
    report = verify_log(published, vkey=vkey, kept_head=None)
    failed = report.first_failure
    if failed is not None:
        raise IntegrityError(
            "the published files do not verify, so no log can continue them: check "
            f"{failed.number}, {failed.name}: {failed.detail}",
            remedy="take a sound copy of registry/ from git, then repeat the command",
        )
    return Predecessor(origin=head.origin, head=head.note, log_key=vkey)


def keep_predecessor(registry: Path, origin: str) -> Path:
    """Copy the published files to where a predecessor's lie, all or nothing; return the folder."""
    folder = registry / folder_of(origin)
    if folder.is_dir():
        return folder
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for path in _published(registry):
        target = draft / path.name
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy2(path, target)
    draft.rename(folder)
    sync_folder(folder.parent)
    return folder


def remove_published(registry: Path, origin: str) -> None:
    """Remove the published files of a log that was kept as a predecessor; of no other log.

    Raises:
        IntegrityError: what is published is not what was kept.
    """
    kept, present = registry / folder_of(origin) / CHECKPOINT, registry / CHECKPOINT
    if present.is_file() and PublishedLog(registry).origin != origin:
        return
    if present.is_file() and present.read_bytes() != kept.read_bytes():
        raise IntegrityError(
            f"{present} is not the head that was kept in {kept.parent}",
            remedy="compare the two, and keep the larger one in both places",
        )
    # The tree head goes last: without it, a repeated command would take the rest for the new log's.
    for path in sorted(_published(registry), key=lambda path: path.name == CHECKPOINT):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    sync_folder(registry)


def _published(registry: Path) -> list[Path]:
    return [
        path
        for path in sorted(registry.iterdir())
        if path.name not in _STAYS and not path.name.startswith(".")
    ]


def heads_agree(found: Forerunner) -> bool:
    """Return whether the files end where the successor's first entry says that they do."""
    head: SignedHead = found.log.head()
    return head.note == found.named.head
