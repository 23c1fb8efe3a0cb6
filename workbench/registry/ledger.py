"""The append-only ledger of a lab: reading a store, and appending to it through its `Writer`."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.entries import Body, Genesis, KeyRotation
from workbench.registry.heads import SignedHead, parse_head
from workbench.registry.keys import Keys, create_keys, load_keys
from workbench.registry.log import RECORD_FORMAT, Entry, LogSource, StoredEntry, read_entry
from workbench.registry.merkle import tree_root
from workbench.registry.store import Store, create_store, open_store, read_store
from workbench.registry.writer import Clock, Entropy, Writer, wish

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
        try:
            with store.lock():
                writer.healed_tree(store.tree())
        except BaseException:
            store.close()
            raise
        return cls(store=store, origin=origin, keys=keys, writer=writer)

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
            StoreUnavailableError: the store cannot be written. Nothing was recorded, unless the
                disk filled up or the server went away after the commit: then the entry is there,
                and the next writer signs it.
        """
        return self._writing().append_in_turn(wish(body, subject, refs))

    def rotate(
        self, body: KeyRotation, *, replace_keys: Callable[[], None], refs: Sequence[str] = ()
    ) -> Entry:
        """Record that a key is replaced, replace it, and sign the head with the keys then in force.

        Args:
            body: carries both signatures already.
            replace_keys: changes the key files, and is safe to repeat. It is called once the entry
                is durable; if the process dies before it ended, the next writer is refused until
                the files are those that the entry names.
            refs: as of `append`.

        Raises:
            IntegrityError: the store is not a continuation of the last signed head.
            StoreUnavailableError: the store cannot be written; nothing was recorded.
        """
        writer, wanted = self._writing(), wish(body, "lab", refs)
        with self._store.lock():
            writer.settle()
            return writer.append(wanted, before_signing=replace_keys)

    def erase(self, sequence: int, *, by: int) -> None:
        """Erase body and salt of an entry that the later redaction entry ``by`` refers to.

        May be repeated, and must be if the process died meanwhile.

        Raises:
            IntegrityError: there is no such redaction.
            StoreUnavailableError: the store cannot be written, or somebody is reading it.
        """
        self._writing()
        with self._store.lock():
            self._store.erase(sequence, by=by)

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
        last = self._keys.last_head() if self._keys else None
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
