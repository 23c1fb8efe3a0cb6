"""The append-only ledger of a lab: the one place that writes entries and signs tree heads.

An append commits first and signs afterwards, so that no signed head ever covers an entry that a
crash could take back. Each commit carries the writer's signed announcement of its entry, so that
the next writer can sign a head that a crash left unsigned, and nothing else ever gets signed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from workbench.canonical import canonical_json, profile_faults
from workbench.errors import ConflictError, IntegrityError, InvalidFileError, NotFoundError
from workbench.registry.entries import BODIES, Body, Genesis
from workbench.registry.heads import SignedHead, parse_head, sign_head
from workbench.registry.keys import Keys, create_keys, load_keys
from workbench.registry.log import (
    MAX_ENVELOPE_BYTES,
    RECORD_FORMAT,
    SALT_SIZE,
    Columns,
    Entry,
    Envelope,
    KeysInForce,
    LogSource,
    ReplayedTree,
    StoredEntry,
    announcement_text,
    body_hash,
    columns_of,
    name_of,
    read_entry,
    signed_text,
    timestamp,
    uuid7,
)
from workbench.registry.merkle import Frontier, leaf_hash, tree_root
from workbench.registry.notes import verify_signature
from workbench.registry.store import Store

__all__ = ["Entry", "Ledger", "LogSource", "SignedHead"]

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]


class Ledger:
    """One log, open for reading and appending. Usable from several threads and processes."""

    def __init__(
        self, *, store: Store, keys: Keys, actor: str, clock: Clock, entropy: Entropy
    ) -> None:
        self._store = store
        self._keys = keys
        self._actor = actor
        self._clock = clock
        self._entropy = entropy

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
        entropy: Entropy = os.urandom,
    ) -> "Ledger":
        """Make keys, store and first entry of a new log.

        Args:
            url: SQLAlchemy URL of a SQLite file, its path absolute.
            origin: identity of the log in its signed heads.
            keys_dir: gets one folder for this origin, mode 0700.
            actor: recorded as the author of entries.
            clock: returns the present moment with its time zone.
            lab_name: recorded in the first entry.
            entropy: source of salts and identifiers; only tests pass another one.

        Raises:
            ConflictError: the store holds a log, or the origin's keys have signed one.
        """
        keys = create_keys(keys_dir, origin)
        store = Store.create(url)
        ledger = cls(store=store, keys=keys, actor=actor, clock=clock, entropy=entropy)
        genesis = Genesis(
            lab=lab_name,
            record_format=RECORD_FORMAT,
            log_key=str(keys.log.verifier),
            author_key=str(keys.author.verifier),
        )
        with store.lock():
            if store.tree().size:
                raise ConflictError(f"{url} already holds a log", remedy="workbench status")
            ledger._append(genesis, _checked_body(genesis), "lab", ())
        return ledger

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
        store = Store.open(url)
        ledger = cls(store=store, keys=keys, actor=actor, clock=clock, entropy=entropy)
        with store.lock():
            ledger._continued_tree()
        return ledger

    @classmethod
    def inspect(cls, *, url: str, origin: str, keys_dir: Path) -> "Ledger":
        """Open a log to read and verify it as it lies there: nothing is checked, healed or signed.

        Raises:
            NotFoundError: no such store or keys.
        """
        keys = load_keys(keys_dir, origin)
        store = Store.open(url)
        return cls(store=store, keys=keys, actor="", clock=_no_clock, entropy=os.urandom)

    @property
    def origin(self) -> str:
        """Identity of the log."""
        return self._keys.log.name

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
            StoreUnavailableError: the store cannot be written; nothing was recorded.
        """
        body_bytes = _checked_body(body)
        with self._store.lock():
            if at_size is not None and self._store.tree().size != at_size:
                raise ConflictError(
                    f"the log grew beyond {at_size} entries meanwhile", remedy="repeat the command"
                )
            return self._append(body, body_bytes, subject, refs)

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
        """C2SP verifier key of the tree heads."""
        return str(self._keys.log.verifier)

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
        last = self._keys.last_head()
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

    def _append(self, body: Body, body_bytes: bytes, subject: str, refs: Sequence[str]) -> Entry:
        """Do what `append` promises; the caller holds the lock."""
        tree = self._continued_tree()
        self._check_refs(refs)
        stored = self._prepared(body, body_bytes, subject, refs, tree.size)
        entry = read_entry(stored, self.origin)
        grown = tree.appended(stored.leaf)
        announced = announcement_text(self.origin, stored.sequence, entry.leaf)
        self._store.append(stored, grown, self._keys.author.signature(announced))
        self._sign(grown)
        return entry

    def _prepared(
        self, body: Body, body_bytes: bytes, subject: str, refs: Sequence[str], sequence: int
    ) -> StoredEntry:
        moment = self._clock()
        salt = self._entropy(SALT_SIZE)
        try:
            envelope = Envelope(
                actor=self._actor,
                body_hash=body_hash(salt, body_bytes),
                id=uuid7(moment, self._entropy(10)),
                kind=body.kind,
                log=self.origin,
                refs=list(refs),
                subject=subject,
                time=timestamp(moment),
                v=1,
            )
            data = envelope.to_bytes()
        except ValueError as error:
            raise InvalidFileError(f"the entry cannot be recorded: {error}") from error
        if len(data) > MAX_ENVELOPE_BYTES:
            raise InvalidFileError(
                f"the envelope has {len(data)} bytes, more than {MAX_ENVELOPE_BYTES}: "
                f"{len(refs)} references are too many"
            )
        leaf = leaf_hash(data)
        text = signed_text(self.origin, leaf.hex())
        return StoredEntry(
            sequence=sequence,
            leaf=leaf,
            envelope=data,
            salt=salt,
            body=body_bytes,
            signature=self._keys.author.signature(text) if body.signed else "",
            id=envelope.id,
            kind=envelope.kind,
            subject=envelope.subject,
        )

    def _check_refs(self, refs: Sequence[str]) -> None:
        try:
            unknown = self._store.unknown_leaves([bytes.fromhex(ref) for ref in refs])
        except ValueError as error:
            raise InvalidFileError(f"references {list(refs)} are not leaf hashes") from error
        if unknown or len(set(refs)) != len(refs):
            wrong = [leaf.hex() for leaf in unknown] or list(refs)
            raise NotFoundError(
                f"references {wrong} are to no entry of log {self.origin!r}, or are repeated"
            )

    def _sign(self, tree: Frontier) -> None:
        # Only ever called with a tree that is durable, under the lock.
        head = sign_head(self._keys.log, tree.size, tree.root())
        if self._store.last_note() != head.note:
            self._store.add_head(tree.size, head.note)
        self._keys.keep_head(head)

    def _continued_tree(self) -> Frontier:
        """Return the durable tree, signed; refuse one that breaks with the last signed head."""
        tree = self._store.tree()
        last = self._keys.last_head()
        signed = last.size if last else 0
        if last is not None:
            self._check_prefix(last, tree)
        if tree.size > signed + 1:
            raise IntegrityError(
                f"the store holds {tree.size} entries, the last signed head covers {signed}",
                remedy=f"restore last-head in {self._keys.folder} from a backup of the keys",
            )
        if tree.size == signed + 1:
            self._check_unsigned(signed)
            self._sign(tree)
        return tree

    def _check_prefix(self, last: SignedHead, tree: Frontier) -> None:
        if tree.size < last.size:
            raise IntegrityError(
                f"the store holds {tree.size} entries but a head over {last.size} was signed: "
                "it was rolled back",
                remedy="restore the newest copy of the store; never append to an older one",
            )
        same = tree.size == last.size
        root = tree.root() if same else tree_root(self._store.leaves(last.size))
        if root != last.root:
            raise IntegrityError(
                f"the store's first {last.size} entries are not those that were signed",
                remedy="workbench verify",
            )

    def _check_unsigned(self, sequence: int) -> None:
        """Check the entry that a crash left without a signed head before it gets one."""
        (stored,) = self._store.records(since=sequence, below=sequence + 1)
        entry = read_entry(stored, self.origin)
        self._check_announced(stored)
        leaves = [*self._store.leaves(sequence), stored.leaf]
        if tree_root(leaves) != self._store.tree().root():
            raise IntegrityError(f"{name_of(stored)} is not in the store's tree")
        if BODIES[entry.kind].signed:
            text = signed_text(self.origin, entry.leaf)
            verify_signature(text, stored.signature, self._keys.author.verifier)

    def _check_announced(self, stored: StoredEntry) -> None:
        text = announcement_text(self.origin, stored.sequence, stored.leaf.hex())
        try:
            verify_signature(text, self._store.announcement(), self._keys.author.verifier)
        except IntegrityError as error:
            raise IntegrityError(
                f"{name_of(stored)} was put into the store by something else than this log's "
                "writers: it will not be signed",
                remedy="restore the store from before it, and find out who can write to it",
            ) from error


def _no_clock() -> datetime:
    raise ConflictError("a log that is only inspected takes no entries", remedy="open it instead")


def _checked_body(body: Body) -> bytes:
    try:
        value = body.to_json()
        faults = profile_faults(value)
        data = canonical_json(value)
    except ValueError as error:
        raise InvalidFileError(f"a {body.kind} body cannot be recorded: {error}") from error
    if faults:
        raise InvalidFileError(f"a {body.kind} body cannot be recorded: {'; '.join(faults)}")
    return data
