"""The one place that makes entries and signs tree heads.

An append commits first and signs afterwards, so that no signed head ever covers an entry that a
crash could take back. Each commit carries the writer's announcement of its entry, so that the next
writer can sign a head that a crash left unsigned, and nothing else ever gets signed. A head follows
from its entries alone, so the entry's commit is the only thing that an append waits for.
"""

import base64
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from workbench.errors import (
    ConflictError,
    IntegrityError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
)
from workbench.registry.announcements import announcement, check_announcement
from workbench.registry.drafts import Draft, Wish, wish
from workbench.registry.entries import BODIES, Genesis, KeyRotation
from workbench.registry.heads import SignedHead, parse_head, sign_head
from workbench.registry.keys import Keys, load_keys
from workbench.registry.log import (
    MAX_ENVELOPE_BYTES,
    SALT_SIZE,
    Entry,
    Envelope,
    StoredEntry,
    body_hash,
    name_of,
    read_entry,
    signed_text,
    timestamp,
    uuid7,
)
from workbench.registry.merkle import Frontier, leaf_hash
from workbench.registry.notes import SigningKey, verify_signature
from workbench.registry.requests import request, requested
from workbench.registry.rotation import KeyChain, Role, Why, followed_chain, rotation_body
from workbench.registry.store import Store
from workbench.registry.subtrees import grown, prefix
from workbench.registry.succession import install, key_of, prepare, require_in_force, settle

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]
_TURNS = 40
"""Times that a writer waits for others before it stands in line for the lock."""
_SYNC_EVERY = 256
"""Heads between two that are kept durably beside the keys: all that a loss of power can hide."""


class Writer:
    """Who may append to a log: a store, the log's keys, and what entries are made of.

    Every method but `append_in_turn` is called under the store's lock.
    """

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        actor: str,
        clock: Clock,
        entropy: Entropy = os.urandom,
    ) -> None:
        self.keys = keys
        self._store = store
        self._origin = keys.log.name
        self._actor = actor
        self._clock = clock
        self._entropy = entropy
        self._synced = keys.synced_size()

    def append_in_turn(self, wish: Wish) -> Entry:
        """Add an entry as `Ledger.append` says; called without the lock.

        Where the log is taken, the writer that has it next is asked to append this entry with its
        own: as many as wait are then one commit and one signature.
        """
        with self._store.lock_if_free() as free:
            if free:
                return self.append(wish)
        # What cannot be recorded is refused at once, and nobody else is asked for it.
        self._check_refs(wish.refs)
        with self._store.spool() as spool:
            # Stamped under the spool's lock, so that times do not fall along the log.
            draft = self._prepared(wish)
            spool.put(request(draft.stored, self.keys.author, self._origin))
        for turn in range(_TURNS):
            answer = self._store.awaited(draft.stored.leaf, turn)
            if answer is not None and _covers(answer):
                return draft.entry(answer[0])
            with self._store.lock_if_free() as free:
                if free:
                    return self.append(wish, asked=draft)
        with self._store.lock():
            return self.append(wish, asked=draft)

    def append(
        self,
        wish: Wish,
        *,
        asked: Draft | None = None,
        at_size: int | None = None,
        before_signing: Callable[[], object] | None = None,
    ) -> Entry:
        """Add an entry as `Ledger.append` says, and before it those that others asked for.

        Args:
            wish: what to record.
            asked: the same, where another writer was asked for it.
            at_size: how many entries must be before it; those that others asked for count.
            before_signing: called when the entry is durable and before a head covers it; the caller
                has called `settle` before. The entry is then committed after the others', alone.

        Raises:
            ConflictError: another number of entries than ``at_size`` is before it.
        """
        # Who rotates has settled the log under this lock, and left a key waiting that a healing of
        # the log would take for what a crash left.
        tree = self.continued_tree() if before_signing is None else self._store.tree()
        if asked is not None:
            # Signed by now: the tree is.
            found = self._store.sequence_of(asked.stored.leaf)
            if found is not None:
                return asked.entry(found)
        self._check_refs(wish.refs)
        with self._store.spool() as spool:
            others = self._asked_for(spool.taken())
            draft = next((asked for one in others if asked and one.leaf == asked.stored.leaf), None)
            if draft is None:
                draft = self._prepared(wish)
                others.append(draft.stored)
        # A UUID of version 7 begins with its time. None of them refers to another: only what was
        # acknowledged can be referred to.
        others.sort(key=lambda one: one.id or "")
        if at_size is not None or before_signing is not None:
            tree = self._before_alone(tree, [one for one in others if one is not draft.stored])
            others = [draft.stored]
        if at_size is not None and tree.size != at_size:
            raise ConflictError(
                f"the log grew beyond {at_size} entries meanwhile", remedy="repeat the command"
            )
        try:
            grown_tree = self._appended(tree, others)
        except IntegrityError:
            if len(others) == 1:
                raise
            # One of the others' is refused: they ask again, each for itself.
            others = [draft.stored]
            grown_tree = self._appended(tree, others)
        if before_signing is not None:
            before_signing()
            self.take_up_keys()
        self._sign(grown_tree)
        place = next(n for n, one in enumerate(others) if one.leaf == draft.stored.leaf)
        return draft.entry(tree.size + place)

    def _before_alone(self, tree: Frontier, others: Sequence[StoredEntry]) -> Frontier:
        """Append what others asked for by itself; return the tree that then is signed."""
        if not others:
            return tree
        with contextlib.suppress(IntegrityError):
            # Where one is refused they ask again, each for itself.
            tree = self._appended(tree, others)
            self._sign(tree)
        return tree

    def _appended(self, tree: Frontier, entries: Sequence[StoredEntry]) -> Frontier:
        """Make the entries durable at the tree's end; return the tree over them."""
        numbered = [replace(one, sequence=tree.size + n) for n, one in enumerate(entries)]
        growth = grown(tree, [one.leaf for one in numbered])
        key, origin = self.keys.author, self._origin
        words = [announcement(key, origin, one.sequence, one.leaf) for one in numbered]
        self._store.append(numbered, words, growth)
        return growth.tree

    def _asked_for(self, lines: Sequence[bytes]) -> list[StoredEntry]:
        """Return the entries that holders of the keys asked for and the log does not have."""
        if not lines:
            return []
        # By the key in force only: what was signed by one before a rotation cannot come after it,
        # and who asked with it asks again.
        authors = [self.keys.author]
        found = [requested(line, authors, self._origin) for line in lines]
        by_leaf = {one.leaf: one for one in found if one is not None}
        return [by_leaf[leaf] for leaf in self._store.unknown_leaves(list(by_leaf))]

    def _prepared(self, wish: Wish) -> Draft:
        body, body_bytes, subject, refs = wish.body, wish.body_bytes, wish.subject, wish.refs
        moment = self._clock()
        salt = self._entropy(SALT_SIZE)
        try:
            envelope = Envelope(
                actor=self._actor,
                body_hash=body_hash(salt, body_bytes),
                id=uuid7(moment, self._entropy(10)),
                kind=body.kind,
                log=self._origin,
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
        text = signed_text(self._origin, leaf.hex())
        stored = StoredEntry(
            sequence=0,
            leaf=leaf,
            envelope=data,
            salt=salt,
            body=body_bytes,
            signature=self.keys.author.signature(text) if body.signed else "",
            id=envelope.id,
            kind=envelope.kind,
            subject=envelope.subject,
        )
        return Draft(stored=stored, body=wish.recorded)

    def _check_refs(self, refs: Sequence[str]) -> None:
        if not refs:
            return
        try:
            unknown = self._store.unknown_leaves([bytes.fromhex(ref) for ref in refs])
        except ValueError as error:
            raise InvalidFileError(f"references {list(refs)} are not leaf hashes") from error
        if unknown or len(set(refs)) != len(refs):
            wrong = [leaf.hex() for leaf in unknown] or list(refs)
            raise NotFoundError(
                f"references {wrong} are to no entry of log {self._origin!r}, or are repeated"
            )

    def now(self) -> datetime:
        """Return the moment by the clock that stamps entries."""
        return self._clock()

    def rotate(self, role: Role, *, why: Why, reason: str) -> Entry:
        """Replace a key as `Ledger.rotate` says."""
        self.settle()
        old, new = key_of(self.keys, role), prepare(self.keys, role)
        body = rotation_body(self._origin, role, old=old, new=new, why=why, reason=reason)
        return self.append(wish(body, "lab"), before_signing=lambda: install(self.keys, role))

    def settle(self) -> None:
        """Keep the newest head so that no loss of power takes it back."""
        head = self._signed_head(self.continued_tree())
        self.keys.sync_head(head)
        self._synced = head.size

    def _signed_head(self, tree: Frontier) -> SignedHead:
        return sign_head(self.keys.log, tree.size, tree.root())

    def _sign(self, tree: Frontier) -> None:
        # Only ever called with a tree that is durable, under the lock.
        head = self._signed_head(tree)
        self._store.add_head(tree.size, head.note)
        self._keep(head)

    def _keep(self, head: SignedHead) -> None:
        """Keep the head beside the keys. Neither this nor its row need be durable: they follow."""
        try:
            self.keys.keep_head(head)
            if head.size >= self._synced + _SYNC_EVERY or not self._synced:
                self.keys.sync_head(head)
                self._synced = head.size
        except OSError as error:
            raise StoreUnavailableError(
                f"the head over {head.size} entries cannot be kept in {self.keys.folder}: {error}",
                remedy="free the folder (disk space, permissions); the next writer signs the entry",
            ) from error

    def continued_tree(self) -> Frontier:
        """Return the durable tree, signed; refuse one that breaks with the last signed head."""
        self._take_up_changed_keys()
        tree = self._store.tree()
        if _says(self.keys.newest()) == (tree.size, tree.root()):
            return tree
        # A writer died: perhaps between a rotation's entry and the new key.
        self.take_up_keys()
        return self.healed_tree(tree)

    def _take_up_changed_keys(self) -> None:
        if self.keys.are_replaced():
            self.take_up_keys()

    def take_up_keys(self) -> None:
        """Read the keys again, and finish or undo a replacement that a crash cut short.

        Raises:
            IntegrityError: the keys are not those that the log's entries put in force.
        """
        keys = load_keys(self.keys.folder.parent, self._origin)
        if self._store.tree().size:
            chain = stored_chain(self._store, self._origin)
            keys = settle(keys, chain)
            require_in_force(keys, chain)
        self.keys = keys

    def healed_tree(self, tree: Frontier) -> Frontier:
        """Return the tree, with a signed head over it even if a crash prevented that."""
        keys = self.keys
        last = keys.last_head()
        signed = Frontier()
        if last is not None:
            signed = self._signed_prefix(last, tree)
        elif tree.size > 1:
            raise IntegrityError(
                f"the store holds {tree.size} entries, the last signed head covers 0",
                remedy=f"restore last-head in {keys.folder} from a backup of the keys",
            )
        if tree.size > signed.size:
            self._check_unsigned(signed, tree)
            # A writer that was killed has perhaps not waited for the disk.
            self._store.settle()
        if tree.size:
            same = last is not None and last.size == tree.size
            self._complete(last if last is not None and same else self._signed_head(tree))
        return tree

    def _complete(self, head: SignedHead) -> None:
        """Keep the head wherever a crash left it out."""
        noted = self._store.last_note()
        if not noted or parse_head(noted).size < head.size:
            self._store.add_head(head.size, head.note)
        self._keep(head)

    def _signed_prefix(self, last: SignedHead, tree: Frontier) -> Frontier:
        if tree.size < last.size:
            raise IntegrityError(
                f"the store holds {tree.size} entries but a head over {last.size} was signed: "
                "it was rolled back",
                remedy="restore the newest copy of the store; never append to an older one",
            )
        same = tree.size == last.size
        signed = tree if same else prefix(self._store.hashes, last.size)
        if signed.root() != last.root:
            raise IntegrityError(
                f"the store's first {last.size} entries are not those that were signed",
                remedy="workbench verify",
            )
        return signed

    def _check_unsigned(self, signed: Frontier, tree: Frontier) -> None:
        """Check the entries that a crash left without a signed head before they get one."""
        announced = self._store.announcements(since=signed.size, below=tree.size)
        records = self._store.records(since=signed.size, below=tree.size)
        authors = self.keys.authors()
        found = signed
        for stored, word in zip(records, announced, strict=True):
            self._check_announced(stored, word, authors)
            found = found.appended(leaf_hash(stored.envelope))
        if found != tree:
            raise IntegrityError(
                f"the entries from {signed.size} on are not those of the store's tree",
                remedy="workbench verify",
            )

    def _check_announced(
        self, stored: StoredEntry, announced: str, authors: Sequence[SigningKey]
    ) -> None:
        entry = read_entry(stored, self._origin)
        try:
            check_announcement(announced, authors, self._origin, stored.sequence, stored.leaf)
        except IntegrityError as error:
            raise IntegrityError(
                f"{name_of(stored)} was put into the store by something else than this log's "
                "writers: it will not be signed",
                remedy="restore the store from before it, and find out who can write to it",
            ) from error
        if BODIES[entry.kind].signed:
            _check_signature(signed_text(self._origin, entry.leaf), stored, authors)


def _says(note: bytes) -> tuple[int, bytes] | None:
    """Return size and root that a head gives, its signature unchecked.

    Enough for a writer who compares them with its store and signs nothing but what it finds there.
    """
    try:
        _, size, root, _ = note.split(b"\n", 3)
        return int(size), base64.b64decode(root, validate=True)
    except ValueError:
        return None


def _check_signature(text: str, stored: StoredEntry, authors: Sequence[SigningKey]) -> None:
    """Check that one of the author's keys signed the entry."""
    *others, last = authors
    for author in others:
        with contextlib.suppress(IntegrityError):
            verify_signature(text, stored.signature, author.verifier)
            return
    verify_signature(text, stored.signature, last.verifier)


def _covers(answer: tuple[int, str]) -> bool:
    """Return whether the newest head covers the entry: its writer may have been killed."""
    sequence, note = answer
    says = _says(note.encode())
    return says is not None and says[0] > sequence


def stored_chain(store: Store, origin: str) -> KeyChain:
    """Return the keys that spoke for a log, up to its last durable entry, verified.

    Raises:
        IntegrityError: the first entry is missing, or a rotation is not what it must be.
    """
    below = store.tree().size
    kinds = (Genesis.kind, KeyRotation.kind)
    found = (stored for kind in kinds for stored in store.records(below=below, kind=kind))
    return followed_chain(origin, (read_entry(stored, origin) for stored in found))
