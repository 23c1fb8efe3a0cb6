"""A store made anew from the published files or from another store, under the same keys.

It goes on under the same origin only where nothing that was signed is missing: otherwise a second
history would grow under one name. Then `workbench.registry.successor` begins a new log instead.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.announcements import announcement
from workbench.registry.counts import entries_of
from workbench.registry.entries import Redaction
from workbench.registry.heads import SignedHead
from workbench.registry.hidden import hidden_entries
from workbench.registry.keys import Keys, load_keys
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource, RawLog, StoredEntry, read_outline
from workbench.registry.rotation import chain_of
from workbench.registry.store import create_store
from workbench.registry.succession import require_in_force
from workbench.registry.verify import verify_log

NEW_ORIGIN = "workbench restore --new-origin"
LOST = "lost with the store, while an embargo withheld it from publication"


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A store that was made anew."""

    head: SignedHead
    kept: SignedHead
    """What was kept beside the keys: older where they come from a backup."""
    place: str
    """Where the store is, without a password."""
    lost: tuple[str, ...]
    """Content that only the lost store had, by experiment, in words."""

    @property
    def are_keys_old(self) -> bool:
        """Whether the keys remember less than was published, as from a backup."""
        return self.kept.size < self.head.size


class Restorable(LogSource, RawLog, Protocol):
    """What a store can be made from: published files, or another store."""

    def head(self) -> SignedHead:
        """Return the newest signed head."""


@contextmanager
def opened_copy(file: Path, origin: str) -> Iterator[Ledger]:
    """Open a copy of a SQLite store to read it, and leave nothing new beside it.

    Args:
        file: the copy; not a store that a process uses.
        origin: identity of the log that it should hold.
    """
    log, index = (file.with_name(file.name + part) for part in ("-wal", "-shm"))
    made = [part for part in (log, index) if not part.exists()]
    try:
        with Ledger.inspect(url=f"sqlite:///{file.resolve()}", origin=origin) as ledger:
            yield ledger
    finally:
        # A reader may not write to the log, so that one which is new has nothing in it.
        for part in made if log in made else ():
            part.unlink(missing_ok=True)


def restore_store(
    source: Restorable, *, url: str, origin: str, keys_dir: Path, accept_loss: bool
) -> Restored:
    """Make a store of a log from its published files, or from a copy of its store.

    Args:
        source: the files or the copy.
        url: of a store that does not exist, or is empty.
        origin: the log's identity, as the lab's settings have it.
        keys_dir: holds the log's keys and the last head that they signed.
        accept_loss: go on although an embargo withheld content that only the lost store had.

    Raises:
        NotFoundError: the keys or the published files are not there.
        IntegrityError: the source does not verify, or is not of these keys.
        ConflictError: something that was signed is not in the source, or the store holds a log.
    """
    keys = _keys(keys_dir, origin)
    head = source.head()
    if head.origin != origin:
        raise ConflictError(
            f"what --from names is of log {head.origin!r}, this lab's is {origin!r}",
            remedy="give the right files with --from, or mend origin in workbench.toml",
        )
    kept = _last_head(keys)
    _refuse_older(head, kept)
    _require_verified(source, keys, kept)
    require_in_force(keys, chain_of(source))
    lost = _lost(list(source.entries()))
    if lost and not accept_loss:
        raise ConflictError(
            "this copy does not hold all content, and the store that did is lost:\n  "
            + "\n  ".join(lost),
            remedy="find a copy of the store, or repeat with --accept-loss, which records it",
        )
    place = _fill(source, head, url=url, keys=keys)
    return Restored(head=head, kept=kept, place=place, lost=tuple(lost))


def record_losses(ledger: Ledger) -> list[Entry]:
    """Record that content was lost with a store: each entry is redacted, so that it can be missed.

    Repeating it is harmless; only what nothing records yet is recorded.
    """
    missing = [h.entry for h in hidden_entries(ledger.entries()) if not h.is_redacted]
    body = Redaction(what="other", reason=LOST)
    return [ledger.append(body, subject=e.subject, refs=[e.leaf]) for e in missing]


def _keys(keys_dir: Path, origin: str) -> Keys:
    try:
        return load_keys(keys_dir, origin)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error.message}: without the keys nothing can be added to log {origin!r}",
            remedy=f"restore the keys from a backup, or begin a new log: {NEW_ORIGIN}",
        ) from error


def _last_head(keys: Keys) -> SignedHead:
    kept = keys.last_head()
    if kept is None:
        raise ConflictError(
            f"{keys.folder} has no last-head: nothing tells what was signed last",
            remedy=f"restore the whole folder from a backup of the keys, or {NEW_ORIGIN}",
        )
    return kept


def _refuse_older(head: SignedHead, kept: SignedHead) -> None:
    if head.size >= kept.size:
        return
    missing, were, they = f"entry {head.size}", "was", "it is"
    if kept.size - head.size > 1:
        missing, were, they = f"entries {head.size} to {kept.size - 1}", "were", "they are"
    raise ConflictError(
        f"{missing} of log {kept.origin!r} {were} signed and not found in this copy: {they} lost "
        "with the store, and others may have seen their head",
        remedy=f"find a newer copy of the store or of registry/, or {NEW_ORIGIN}",
    )


def _require_verified(source: Restorable, keys: Keys, kept: SignedHead) -> None:
    report = verify_log(source, vkey=str(keys.log.verifier), kept_head=kept.note)
    failed = report.first_failure
    if failed is not None:
        raise IntegrityError(
            f"the copy does not verify, so nothing is restored from it: check "
            f"{failed.number}, {failed.name}: {failed.detail}",
            remedy="give a sound copy with --from DIR (git has earlier ones)",
        )


def _lost(entries: Sequence[Entry]) -> list[str]:
    """Return what only the lost store had, a line an experiment."""
    missing = [found for found in hidden_entries(entries) if not found.is_redacted]
    counted = Counter((found.entry.subject, found.why) for found in missing)
    return [f"{subject}: {entries_of(n)}, {why}" for (subject, why), n in counted.items()]


def _fill(source: Restorable, head: SignedHead, *, url: str, keys: Keys) -> str:
    store = create_store(url)
    try:
        records = [_indexed(stored) for stored in source.records()]
        announced = [announcement(keys.author, head.origin, r.sequence, r.leaf) for r in records]
        with store.lock():
            store.fill(records, announced, list(source.notes()))
            keys.keep_head(head)
            keys.sync_head(head)
        return store.place
    finally:
        store.close()


def _indexed(stored: StoredEntry) -> StoredEntry:
    outline = read_outline(stored.envelope)
    return StoredEntry(
        sequence=stored.sequence,
        leaf=stored.leaf,
        envelope=stored.envelope,
        salt=stored.salt,
        body=stored.body,
        signature=stored.signature,
        id=outline.id,
        kind=outline.kind,
        subject=outline.subject,
    )
