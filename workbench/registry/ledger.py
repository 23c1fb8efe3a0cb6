"""The append-only ledger of a lab: reading a store, and appending to it through its `Writer`."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.drafts import wish
from workbench.registry.entries import Body, Genesis, Predecessor, Redaction
from workbench.registry.heads import SignedHead, parse_head
from workbench.registry.keys import Keys, create_keys, load_keys
from workbench.registry.log import (
    RECORD_FORMAT,
    Columns,
    Entry,
    KeysInForce,
    LogSource,
    ReplayedTree,
    StoredEntry,
    columns_of,
    read_entry,
)
from workbench.registry.redaction import What, pending_erasures, require_redactable
from workbench.registry.rotation import KeyChain, Role, Why
from workbench.registry.store import Store, create_store, open_store, read_store
from workbench.registry.writer import Clock, Entropy, Writer, stored_chain

__all__ = ["Entry", "Ledger", "LogSource", "SignedHead"]


class Ledger:
    """One log, open for reading and appending. Usable from several threads and processes."""

    def __init__(
        self, *, store: Store, origin: str, keys: Keys | None, writer: Writer | None
    ) -> None:
        self._store = store
        self._origin = origin
        self._read_keys = keys
        self._writer = writer

    @classmethod
    def create(
        cls,
        *,
        url: str,
        origin: str,
        keys_dir: Path,
        actor: str,
        clock: Clock,
        lab_name: str,
        predecessor: Predecessor | None = None,
        entropy: Entropy = os.urandom,
    ) -> "Ledger":
        """Make keys, store and first entry of a new log.

        Args:
            url: ``sqlite:////absolute/path`` or ``postgresql://user@host/database``.
            origin: identity of the log in its signed heads.
            keys_dir: gets one folder for this origin, mode 0700.
            actor: recorded as the author of entries.
            clock: returns the present moment with its time zone.
            lab_name: recorded in the first entry.
            predecessor: the log that this one continues, if there is one.
            entropy: source of salts and identifiers; only tests pass another one.

        Raises:
            ConflictError: the store holds a log, or the origin's keys have signed one.
        """
        keys = create_keys(keys_dir, origin)
        store = create_store(url)
        writer = Writer(store=store, keys=keys, actor=actor, clock=clock, entropy=entropy)
        genesis = Genesis(
            lab=lab_name,
            record_format=RECORD_FORMAT,
            log_key=str(keys.log.verifier),
            author_key=str(keys.author.verifier),
            predecessor=predecessor,
        )
        try:
            with store.lock():
                if store.tree().size:
                    raise ConflictError(
                        f"{store.place} already holds a log",
                        remedy="open it with workbench status, or name another file or schema in "
                        "store_url",
                    )
                writer.append(wish(genesis, "lab"))
        except BaseException:
            store.close()
            raise
        return cls(store=store, origin=origin, keys=keys, writer=writer)

    @classmethod
    def open(
        cls,
        *,
        url: str,
        origin: str,
        keys_dir: Path,
        actor: str,
        clock: Clock,
        entropy: Entropy = os.urandom,
    ) -> "Ledger":
        """Open a log, and sign the head that a crash may have left unsigned.

        Raises:
            NotFoundError: no such store or keys.
            IntegrityError: the store is not a continuation of the last signed head.
        """
        keys = load_keys(keys_dir, origin)
        store = open_store(url)
        writer = Writer(store=store, keys=keys, actor=actor, clock=clock, entropy=entropy)
        ledger = cls(store=store, origin=origin, keys=keys, writer=writer)
        try:
            with store.lock():
                writer.take_up_keys()
                writer.healed_tree(store.tree())
                ledger._erase_redacted()
        except BaseException:
            store.close()
            raise
        return ledger

    @classmethod
    def inspect(cls, *, url: str, origin: str, keys_dir: Path | None = None) -> "Ledger":
        """Open a log to read and verify it as it lies there: nothing is checked, healed or signed.

        Args:
            url: as of `create`; a store of an earlier version and one on a read-only disk will do.
            origin: identity of the log.
            keys_dir: where the keys may be; with them, the last head beside them is compared, too.

        Raises:
            NotFoundError: no such store.
        """
        keys = None
        if keys_dir is not None:
            with contextlib.suppress(NotFoundError):
                keys = load_keys(keys_dir, origin)
        return cls(store=read_store(url), origin=origin, keys=keys, writer=None)

    @property
    def origin(self) -> str:
        """Identity of the log."""
        return self._origin

    def now(self) -> datetime:
        """Return the moment by the clock that stamps entries."""
        return self._writing().now()

    def append(
        self, body: Body, *, subject: str, refs: Sequence[str] = (), at_size: int | None = None
    ) -> Entry:
        """Add an entry, make it durable, sign the tree head that covers it.

        Args:
            body: what happened.
            subject: experiment folder ``NNNN-slug``, ``lab`` or ``recipe:NAME@V``.
            refs: leaf hashes (hexadecimal) of the earlier entries that it rests on.
            at_size: how many entries the log must have; for an entry that says what was known.

        Raises:
            ConflictError: the log has another size than ``at_size``; nothing was recorded.
            InvalidFileError: the body, the subject or a reference cannot be recorded.
            NotFoundError: a reference is to no entry of this log.
            IntegrityError: the store is not a continuation of the last signed head.
            StoreUnavailableError: the store cannot be written. Nothing was recorded, unless the
                disk filled up or the server went away after the commit: then the entry is there,
                and the next writer signs it.
        """
        wanted = wish(body, subject, refs)
        if at_size is None:
            return self._writing().append_in_turn(wanted)
        writer = self._writing()
        with self._store.lock():
            return writer.append(wanted, at_size=at_size)

    def reserved(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name against all others who write to this log; see `Store.reserved`."""
        return self._store.reserved(name)

    def rotate(self, role: Role, *, why: Why, reason: str) -> Entry:
        """Replace a key of this log and return the entry that says so, signed by both keys.

        The old private key stays beside the new one, for as long as its owner wants to keep it. A
        crash leaves the old key in force or the new one; the next use of the log settles which.

        Raises:
            IntegrityError: the store is not a continuation of the last signed head.
            StoreUnavailableError: the store cannot be written; the old key stays in force.
        """
        writer = self._writing()
        with self._store.lock():
            return writer.rotate(role, why=why, reason=reason)

    def redact(self, target: Entry, *, what: What, reason: str) -> Entry:
        """Record that an entry's body is erased, then erase it and its salt from the store.

        A crash in between leaves the record, and the body is erased when the log is next opened.

        Raises:
            InvalidFileError: no reason is given.
            ConflictError: the entry is of a kind that is never erased, or erased already.
            StoreUnavailableError: the store cannot be written, or somebody is reading it.
        """
        require_redactable(target, reason=reason)
        body = Redaction(what=what, reason=reason)
        entry = self.append(body, subject=target.subject, refs=[target.leaf])
        with self._store.lock():
            self._erase_redacted()
        return entry

    def _erase_redacted(self) -> None:
        """Erase what a signed redaction names and is still there. The caller holds the lock."""
        below = self.head().size
        redactions = list(self._store.records(below=below, kind=Redaction.kind))
        if not redactions:
            return
        pending = pending_erasures(
            redactions, self._store.records(below=below), self.chain(), self.origin
        )
        for sequence, by in list(pending):
            self._store.erase(sequence, by=by)

    def chain(self) -> KeyChain:
        """Return the keys that spoke for this log, up to its last durable entry, verified.

        Raises:
            IntegrityError: the first entry is missing, or a rotation is not what it must be.
        """
        return stored_chain(self._store, self.origin)

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return roots of complete subtrees of 256**level leaves; of level 0 the leaf hashes.

        Raises:
            IntegrityError: not all of them are there.
        """
        return self._store.hashes(level, start, stop)

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        """Yield the entries that the newest signed head covers, oldest first.

        Raises:
            IntegrityError: an entry is not what it was; names the entry.
        """
        for stored in self._store.records(below=self.head().size, kind=kind, subject=subject):
            yield read_entry(stored, self.origin)

    def head(self) -> SignedHead:
        """Return the newest signed head.

        Raises:
            IntegrityError: there is none, or it is malformed.
        """
        note = self._store.last_note()
        if not note:
            raise IntegrityError(f"log {self.origin!r} has no signed head")
        return parse_head(note)

    @property
    def vkey(self) -> str:
        """C2SP verifier key of the tree heads; without keys here, the one of the first entry."""
        if self._keys is not None:
            return str(self._keys.log.verifier)
        first = next(self._store.records(below=1), None)
        body = read_entry(first, self.origin).body if first else None
        if not isinstance(body, Genesis):
            raise IntegrityError(
                f"{self._store.place} does not begin with the first entry of a log"
            )
        return body.log_key

    @property
    def _keys(self) -> Keys | None:
        """The log's keys, as far as they are here; a writer takes up those that replace them."""
        return self._writer.keys if self._writer else self._read_keys

    def _writing(self) -> Writer:
        if self._writer is None:
            raise ConflictError(
                "a log that is only inspected takes no entries", remedy="open it instead"
            )
        return self._writer

    def close(self) -> None:
        """Give the store's connections back. Closing twice is harmless."""
        self._store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def records(self, *, since: int = 0) -> Iterator[StoredEntry]:
        """Yield the entries that the newest signed head covers, unchecked, from ``since`` on."""
        yield from self._store.records(since=since, below=self.head().size)

    def columns(self) -> Iterator[Columns]:
        """Yield the same entries in batches."""
        return columns_of(self.records())

    def notes(self) -> Iterator[str]:
        """Yield every head that was signed, oldest first."""
        for _, note in self._store.heads():
            yield note

    def faults(self, tree: ReplayedTree, keys: KeysInForce | None) -> Iterator[str]:  # noqa: ARG002
        """Yield where the store's tree and heads contradict the tree over its entries."""
        # Read in this order, because another process may append meanwhile: the store's newest head
        # is never older than the one kept beside the keys, nor its tree than its newest head.
        last = self._keys.last_head() if self._keys else None
        newest = 0
        for newest, note in self._store.heads():
            size = parse_head(note).size
            if size != newest:
                yield f"the head in row {newest} is of size {size}"
        stored = self._store.tree()
        if last is not None and last.size > newest:
            yield f"a head of size {last.size} was signed, the newest here has {newest}"
        frontier = tree.frontier()
        for entry in self._store.records(since=tree.size, below=stored.size):
            frontier = frontier.appended(entry.leaf)
        if frontier.root() != stored.root():
            yield "the store's tree is not that of its entries"
