"""A lab goes on with a new log when its old one can no longer be continued.

Every step may be cut short and is repeated by the same command, which finds the new log's name in a
file that is written first. Until the settings name the new log the lab is still the old one.
"""

import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from workbench.errors import ConflictError, IntegrityError, InvalidFileError, NotFoundError
from workbench.experiments.locks import filing_lock
from workbench.layout import Layout, slug
from workbench.registry.entries import Predecessor
from workbench.registry.files import write_atomic
from workbench.registry.heads import parse_head
from workbench.registry.ledger import Ledger
from workbench.registry.publish import publish
from workbench.registry.published import CHECKPOINT, PublishedLog
from workbench.registry.store import open_store, read_store, store_exists
from workbench.registry.store.sqlite import path_of
from workbench.registry.successor import (
    PREDECESSORS,
    folder_of,
    keep_predecessor,
    predecessor_of,
    remove_published,
)
from workbench.settings import Settings

_PLAN = "successor.json"
_ORIGIN = re.compile(r'^origin\s*=\s*"([^"\n]*)"', re.MULTILINE)
_SQLITE = "sqlite:///"
_PARTS = ("", "-wal", "-shm")
"""A SQLite file and what may lie beside it."""


@dataclass(frozen=True, kw_only=True)
class Succession:
    """An old log and the one that continues it."""

    old: str
    """Origin."""
    new: str
    size: int
    """Entries of the old log."""
    unfinished: tuple[str, ...]
    """Registered experiments without a verdict: what is left of them must be registered anew."""
    kept: Path
    """Where the old log's published files lie now."""


def begin_successor(
    layout: Layout,
    settings: Settings,
    *,
    url: str,
    clock: Callable[[], datetime],
    unfinished: Callable[[PublishedLog], list[str]],
) -> Succession:
    """Begin a new log that names the old one, or finish what a killed call began.

    Args:
        layout: the lab.
        settings: name the old log, or the new one when the call was cut short late.
        url: of the store, absolute.
        clock: gives the present moment.
        unfinished: returns the experiments of a log that were registered and have no verdict.

    Raises:
        NotFoundError: nothing of the old log is there to continue.
        IntegrityError: the old log does not verify.
        ConflictError: the old log can still be continued, or the store cannot be moved away.
    """
    with filing_lock(layout):
        return _begun(layout, settings, url=url, clock=clock, unfinished=unfinished)


def _begun(
    layout: Layout,
    settings: Settings,
    *,
    url: str,
    clock: Callable[[], datetime],
    unfinished: Callable[[PublishedLog], list[str]],
) -> Succession:
    old, new = _planned(layout, settings)
    if not (layout.registry / folder_of(old)).is_dir():
        _refuse_database(url)
        _publish_the_rest(layout, old, url)
        predecessor_of(PublishedLog(layout.registry))
        keep_predecessor(layout.registry, old)
        os.sync()
    kept = PublishedLog(layout.registry / folder_of(old))
    named = predecessor_of(kept)
    _move_store(layout, url, old=old)
    _create(settings, url, new, named, clock)
    _name_in_settings(layout, old, new)
    remove_published(layout.registry, old)
    _republish(layout, url, new)
    (layout.state / _PLAN).unlink(missing_ok=True)
    return Succession(
        old=old,
        new=new,
        size=parse_head(named.head).size,
        unfinished=tuple(unfinished(kept)),
        kept=layout.registry / folder_of(old),
    )


def _planned(layout: Layout, settings: Settings) -> tuple[str, str]:
    """Return the old and the new origin, as a call that was killed planned them, or planned now."""
    plan = layout.state / _PLAN
    if plan.is_file():
        found = json.loads(plan.read_text("utf-8"))
        return str(found["old"]), str(found["new"])
    _refuse_unnameable(layout, settings)
    # Nothing is planned for a lab that has nothing to continue.
    if not store_exists(_url_of(layout, settings)):
        PublishedLog(layout.registry).head()
    new = f"workbench.lab/{slug(settings.name)}-{secrets.token_hex(4)}"
    layout.state.mkdir(parents=True, exist_ok=True)
    write_atomic(plan, json.dumps({"old": settings.origin, "new": new}).encode())
    return settings.origin, new


def _refuse_unnameable(layout: Layout, settings: Settings) -> None:
    match = _ORIGIN.search(layout.config.read_text("utf-8"))
    if match is None or match[1] != settings.origin:
        raise InvalidFileError(
            f"{layout.config.name} does not name the origin {settings.origin!r} on a line of its "
            "own, so it cannot be changed there",
            remedy=f'write  origin = "{settings.origin}"  and unset WORKBENCH_ORIGIN',
        )


def _url_of(layout: Layout, settings: Settings) -> str:
    url = settings.store_url
    if url.startswith(_SQLITE) and not url.startswith(f"{_SQLITE}/"):
        return f"{_SQLITE}{layout.root / url.removeprefix(_SQLITE)}"
    return url


def _refuse_database(url: str) -> None:
    if not url.startswith(_SQLITE) and store_exists(url):
        raise ConflictError(
            "the database of the old log cannot be moved away by this command",
            remedy="create an empty database, name it as store_url in workbench.toml, repeat",
        )


def _publish_the_rest(layout: Layout, old: str, url: str) -> None:
    """Publish what only the store has: signed entries need no key to be published."""
    if not store_exists(url):
        return
    with Ledger.inspect(url=url, origin=old) as ledger:
        published = layout.registry / CHECKPOINT
        is_behind = published.is_file() and (
            PublishedLog(layout.registry).head().size >= ledger.head().size
        )
        if not is_behind:
            publish(ledger, layout.registry)


def _move_store(layout: Layout, url: str, *, old: str) -> None:
    """Move the old log's store aside: it alone has what embargoes withhold."""
    if not url.startswith(_SQLITE):
        return
    path = path_of(url)
    folder = layout.state / PREDECESSORS / old.replace("/", "_")
    # A call that was killed may have moved the file's log already, without which it says nothing.
    is_half_moved = not (folder / path.name).exists() and any(folder.glob(f"{path.name}-*"))
    if not is_half_moved and _origin_in(url) != old:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # The file itself goes last: a repeated command moves what is left beside it.
    for part in reversed(_PARTS):
        source = path.with_name(path.name + part)
        if source.is_file():
            source.replace(folder / source.name)


def _origin_in(url: str) -> str:
    """Return the origin of the newest signed head in a store, empty where there is none."""
    if not store_exists(url):
        return ""
    store = read_store(url)
    try:
        note = store.last_note()
    finally:
        store.close()
    return parse_head(note).origin if note else ""


def _create(
    settings: Settings,
    url: str,
    new: str,
    named: Predecessor,
    clock: Callable[[], datetime],
) -> None:
    if _num_entries(url):
        # A call that was killed wrote the first entry, and perhaps did not sign a head over it.
        Ledger.open(
            url=url, origin=new, keys_dir=settings.keys_dir, actor=settings.actor, clock=clock
        ).close()
        return
    Ledger.create(
        url=url,
        origin=new,
        keys_dir=settings.keys_dir,
        actor=settings.actor,
        clock=clock,
        lab_name=settings.name,
        predecessor=named,
    ).close()


def _num_entries(url: str) -> int:
    if not store_exists(url):
        return 0
    store = open_store(url)
    try:
        return store.tree().size
    finally:
        store.close()


def _name_in_settings(layout: Layout, old: str, new: str) -> None:
    text = layout.config.read_text("utf-8")
    match = _ORIGIN.search(text)
    if match is not None and match[1] == old:
        changed = f"{text[: match.start(1)]}{new}{text[match.end(1) :]}"
        write_atomic(layout.config, changed.encode())


def _republish(layout: Layout, url: str, new: str) -> None:
    with Ledger.inspect(url=url, origin=new) as ledger:
        publish(ledger, layout.registry)


def why_lost(layout: Layout, settings: Settings, url: str, clock: Callable[[], datetime]) -> str:
    """Return why the present log cannot be continued.

    Raises:
        ConflictError: it can: a split history helps nobody.
    """
    if (layout.state / _PLAN).is_file():
        return "an earlier call was cut short"
    try:
        Ledger.open(
            url=url,
            origin=settings.origin,
            keys_dir=settings.keys_dir,
            actor=settings.actor,
            clock=clock,
        ).close()
    except (NotFoundError, IntegrityError) as error:
        return error.message
    raise ConflictError(
        f"the log {settings.origin!r} is not lost: its store and its keys are here and fit",
        remedy="workbench status",
    )
