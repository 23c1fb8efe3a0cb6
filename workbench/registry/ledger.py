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
from workbench.registry.entries import BODIES, Body, Genesis, KeyRotation, Redaction
from workbench.registry.heads import SignedHead, parse_head, sign_head
from workbench.registry.keys import Keys, create_keys, load_keys
from workbench.registry.log import (
    MAX_ENVELOPE_BYTES,
    RECORD_FORMAT,
    SALT_SIZE,
    Entry,
    Envelope,
    LogSource,
    StoredEntry,
    announcement_text,
    body_hash,
    name_of,
    read_entry,
    signed_text,
    timestamp,
    uuid7,
)
from workbench.registry.merkle import Frontier, leaf_hash, tree_root
from workbench.registry.notes import VerifierKey, verify_signature
from workbench.registry.redaction import What, pending_erasures, require_redactable
from workbench.registry.rotation import KeyChain, Role, Why, follow_all, rotation_body
from workbench.registry.store import Store
from workbench.registry.succession import (
    KeyFilesState,
    install,
    key_files_state,
    key_of,
    prepare,
    require_in_force,
    settle,
)

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
        self._key_files: KeyFilesState | None = None

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
            ledger._erase_redacted()
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

    def now(self) -> datetime:
        """Return the moment by the clock that stamps entries."""
        return self._clock()

    def append(self, body: Body, *, subject: str, refs: Sequence[str] = ()) -> Entry:
        """Add an entry, make it durable, sign the tree head that covers it.

        Args:
            body: what happened.
            subject: experiment folder ``NNNN-slug``, ``lab`` or ``recipe:NAME@V``.
            refs: leaf hashes (hexadecimal) of the earlier entries that it rests on.

        Raises:
            InvalidFileError: the body, the subject or a reference cannot be recorded.
            NotFoundError: a reference is to no entry of this log.
            IntegrityError: the store is not a continuation of the last signed head.
            StoreUnavailableError: the store cannot be written; nothing was recorded.
        """
        body_bytes = _checked_body(body)
        with self._store.lock():
            return self._append(body, body_bytes, subject, refs)

    def rotate(self, role: Role, *, why: Why, reason: str) -> Entry:
        """Replace a key of this log and return the entry that says so, signed by both keys.

        The old private key stays beside the new one, for as long as its owner wants to keep it. A
        crash leaves the old key in force or the new one; the next use of the log settles which.

        Raises:
            IntegrityError: the store is not a continuation of the last signed head.
            StoreUnavailableError: the store cannot be written; the old key stays in force.
        """
        with self._store.lock():
            self._continued_tree()
            new = prepare(self._keys, role)
            old = key_of(self._keys, role)
            body = rotation_body(self.origin, role, old=old, new=new, why=why, reason=reason)
            return self._append(body, _checked_body(body), "lab", (), rotating=True)

    def redact(self, target: Entry, *, what: What, reason: str) -> Entry:
        """Record that an entry's body is erased, then erase it and its salt from the store.

        A crash in between leaves the record, and the body is erased when the log is next opened.

        Raises:
            InvalidFileError: no reason is given.
            ConflictError: the entry is of a kind that is never erased, or erased already.
        """
        require_redactable(target, reason=reason)
        body = Redaction(what=what, reason=reason)
        entry = self.append(body, subject=target.subject, refs=[target.leaf])
        with self._store.lock():
            self._erase_redacted()
        return entry

    def chain(self) -> KeyChain:
        """Return the keys that spoke for this log, up to its last durable entry, verified.

        Raises:
            IntegrityError: the first entry is missing, or a rotation is not what it must be.
        """
        chain = KeyChain(self.origin)
        below = self._store.tree().size
        for kind in (Genesis.kind, KeyRotation.kind):
            found = self._store.records(below=below, kind=kind)
            follow_all(chain, (read_entry(stored, self.origin) for stored in found))
        return chain

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

    def records(self) -> Iterator[StoredEntry]:
        """Yield the bytes of the entries that the newest signed head covers, unchecked."""
        yield from self._store.records(below=self.head().size)

    def notes(self) -> list[str]:
        """Return every head that was signed, oldest first."""
        return [note for _, note in self._store.heads()]

    def faults(self, leaves: Sequence[bytes]) -> list[str]:
        """Return where the store's tree and heads contradict these leaf hashes of its entries."""
        # Read in this order, because another process may append meanwhile: the store's newest head
        # is never older than the one kept beside the keys, nor its tree than its newest head.
        last = self._keys.last_head()
        heads = [(size, parse_head(note).size) for size, note in self._store.heads()]
        tree = self._store.tree()
        found = [f"the head in row {row} is of size {size}" for row, size in heads if row != size]
        newest = heads[-1][1] if heads else 0
        if last is not None and last.size > newest:
            found.append(f"a head of size {last.size} was signed, the newest here has {newest}")
        stored = self._store.leaves(tree.size)
        if tree_root([*leaves, *stored[len(leaves) :]]) != tree.root():
            found.append("the store's tree is not that of its entries")
        return found

    def _append(
        self,
        body: Body,
        body_bytes: bytes,
        subject: str,
        refs: Sequence[str],
        *,
        rotating: bool = False,
    ) -> Entry:
        """Do what `append` promises; the caller holds the lock."""
        # A rotation's caller did so before the new key was left waiting, which this would undo.
        tree = self._store.tree() if rotating else self._continued_tree()
        self._check_refs(refs)
        stored = self._prepared(body, body_bytes, subject, refs, tree.size)
        entry = read_entry(stored, self.origin)
        grown = tree.appended(stored.leaf)
        announced = announcement_text(self.origin, stored.sequence, entry.leaf)
        self._store.append(stored, grown, self._keys.author.signature(announced))
        if isinstance(body, KeyRotation):
            self._keys = install(self._keys, body.role)
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
        self._take_up_keys(tree.size)
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

    def _take_up_keys(self, size: int) -> None:
        """Read the keys again when their files changed, and settle a replacement cut short."""
        found = key_files_state(self._keys.folder)
        if found == self._key_files or size == 0:
            return
        chain = self.chain()
        keys = load_keys(self._keys.folder.parent, self.origin)
        self._keys = settle(keys, chain) if found.is_unsettled else keys
        require_in_force(self._keys, chain)
        self._key_files = key_files_state(self._keys.folder)

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
        author = self.chain().author_at(sequence)
        self._check_announced(stored, author)
        leaves = [*self._store.leaves(sequence), stored.leaf]
        if tree_root(leaves) != self._store.tree().root():
            raise IntegrityError(f"{name_of(stored)} is not in the store's tree")
        if BODIES[entry.kind].signed:
            text = signed_text(self.origin, entry.leaf)
            verify_signature(text, stored.signature, author)

    def _check_announced(self, stored: StoredEntry, author: VerifierKey) -> None:
        text = announcement_text(self.origin, stored.sequence, stored.leaf.hex())
        try:
            verify_signature(text, self._store.announcement(), author)
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
