"""What each check of a log looks for. Each yields its faults, naming the entry."""

from collections.abc import Callable, Iterator
from functools import cached_property

from workbench.errors import IntegrityError
from workbench.registry.entries import BODIES, Body, Genesis
from workbench.registry.heads import SignedHead, verify_head
from workbench.registry.log import (
    SALT_SIZE,
    Entry,
    Envelope,
    RawLog,
    StoredEntry,
    body_hash,
    name_of,
    read_body,
    read_entry,
    read_envelope,
    signed_text,
)
from workbench.registry.merkle import EMPTY_ROOT, Frontier, leaf_hash
from workbench.registry.notes import VerifierKey, verify_signature


class Evidence:
    """A log under verification: each level is read once, and only when the one below it held."""

    def __init__(self, source: RawLog, key: VerifierKey, kept: str | None) -> None:
        self.source = source
        self.key = key
        self.kept = kept

    @cached_property
    def notes(self) -> list[str]:
        """Signed heads that the log kept, oldest first; at least one."""
        found = self.source.notes()
        if not found:
            raise IntegrityError("the log has no signed head")
        return found

    @cached_property
    def head(self) -> SignedHead:
        """The newest head, its signature verified."""
        return verify_head(self.notes[-1], self.key)

    @cached_property
    def records(self) -> list[StoredEntry]:
        """The entries that the head covers, as bytes."""
        # A live ledger may have grown since its head was read.
        return [stored for stored in self.source.records() if stored.sequence < self.head.size]

    @cached_property
    def leaves(self) -> list[bytes]:
        """Leaf hash of each entry, computed from its bytes."""
        return [leaf_hash(stored.envelope) for stored in self.records]

    @cached_property
    def roots(self) -> list[bytes]:
        """Root of each prefix, the empty one first."""
        roots, frontier = [EMPTY_ROOT], Frontier()
        for leaf in self.leaves:
            frontier = frontier.appended(leaf)
            roots.append(frontier.root())
        return roots

    @cached_property
    def envelopes(self) -> list[Envelope]:
        """The typed envelopes."""
        return [read_envelope(stored.envelope) for stored in self.records]

    @cached_property
    def bodies(self) -> list[Body]:
        """The typed bodies."""
        pairs = zip(self.envelopes, self.records, strict=True)
        return [read_body(envelope.kind, stored.body) for envelope, stored in pairs]

    @cached_property
    def genesis(self) -> Genesis:
        """The first entry's body."""
        body = self.bodies[0]
        if not isinstance(body, Genesis):
            raise IntegrityError(f"entry 0 is a {body.kind}, not the genesis")
        return body

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries, hashes checked again one by one."""
        return [read_entry(stored, self.key.name) for stored in self.records]

    def each(self, check: Callable[[int, StoredEntry], str]) -> Iterator[str]:
        """Yield the faults that a check of one entry finds, with the entry's name."""
        for index, stored in enumerate(self.records):
            try:
                fault = check(index, stored)
            except IntegrityError as error:
                fault = error.message
            if fault:
                yield f"{name_of(stored)}: {fault}"


def head_faults(log: Evidence) -> Iterator[str]:
    """Yield when the newest head does not verify, or covers nothing."""
    if log.head.size == 0:
        yield "the signed head covers no entry"


def size_faults(log: Evidence) -> Iterator[str]:
    """Yield the first entry that is missing."""
    sequences = [stored.sequence for stored in log.records]
    gaps = (at for at, sequence in enumerate(sequences) if at != sequence)
    missing = next(gaps, len(sequences))
    if missing < log.head.size:
        yield f"entry {missing} is missing: the signed head covers {log.head.size} entries"


def leaf_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose bytes do not give the recorded leaf hash."""

    def fault(index: int, stored: StoredEntry) -> str:
        return "" if log.leaves[index] == stored.leaf else "its bytes do not give its leaf hash"

    return log.each(fault)


def root_faults(log: Evidence) -> Iterator[str]:
    """Yield when the entries are not those that were signed."""
    if log.roots[-1] != log.head.root:
        yield f"the root of the {log.head.size} entries is not the one that was signed"


def kept_faults(log: Evidence) -> Iterator[str]:
    """Yield when the head that the reader kept is not of a prefix of this log."""
    if log.kept is None:
        return
    kept = verify_head(log.kept, log.key)
    if kept.size > log.head.size:
        yield f"you kept a head over {kept.size} entries, the log now has {log.head.size}"
    elif log.roots[kept.size] != kept.root:
        yield f"the first {kept.size} entries are not those of the head that you kept"


def earlier_head_faults(log: Evidence) -> Iterator[str]:
    """Yield the heads that were not signed, or over other entries than these."""
    before = -1
    for note in log.notes:
        head = verify_head(note, log.key)
        if not before < head.size <= log.head.size:
            yield f"the head of size {head.size} is out of order"
        elif log.roots[head.size] != head.root:
            yield f"the head of size {head.size} was signed over other entries"
        before = head.size


def holding_faults(log: Evidence) -> Iterator[str]:
    """Yield what the log holds beside its entries and contradicts them."""
    yield from log.source.faults(log.leaves)


def envelope_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose envelope is malformed, of another log, or indexed wrongly."""

    def fault(_: int, stored: StoredEntry) -> str:
        envelope = read_envelope(stored.envelope)
        if envelope.log != log.key.name:
            return f"it belongs to log {envelope.log!r}"
        for column in ("id", "kind", "subject"):
            if getattr(stored, column) not in (None, getattr(envelope, column)):
                return f"the store's index says {column} {getattr(stored, column)!r}"
        return ""

    return log.each(fault)


def body_hash_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose body or salt is not the one that was hashed."""

    def fault(index: int, stored: StoredEntry) -> str:
        if len(stored.salt) != SALT_SIZE:
            return f"its salt has {len(stored.salt)} bytes, not {SALT_SIZE}"
        same = body_hash(stored.salt, stored.body) == log.envelopes[index].body_hash
        return "" if same else "its body is not the one that was hashed"

    return log.each(fault)


def body_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose body is not canonical or does not fit its kind."""

    def fault(index: int, stored: StoredEntry) -> str:
        read_body(log.envelopes[index].kind, stored.body)
        return ""

    return log.each(fault)


def genesis_faults(log: Evidence) -> Iterator[str]:
    """Yield when the first entry does not name the log's key, or is not the only one."""
    if log.genesis.log_key != str(log.key):
        yield f"entry 0 (genesis) names the key {log.genesis.log_key}, not {log.key}"
    for entry in log.entries[1:]:
        if entry.kind == Genesis.kind:
            yield f"entry {entry.sequence} (genesis {entry.id}) is a second first entry"


def id_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose identifier was used before."""
    seen: dict[str, int] = {}
    for index, envelope in enumerate(log.envelopes):
        first = seen.setdefault(envelope.id, index)
        if first != index:
            yield f"{name_of(log.records[index])}: entry {first} has the same id"


def ref_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries that refer to something that is no earlier entry."""
    positions = {leaf.hex(): index for index, leaf in enumerate(log.leaves)}

    def fault(index: int, _: StoredEntry) -> str:
        refs = log.envelopes[index].refs
        late = [ref for ref in refs if positions.get(ref, index) >= index]
        return f"it refers to {late[0]}, which is no earlier entry" if late else ""

    return log.each(fault)


def signature_faults(log: Evidence) -> Iterator[str]:
    """Yield the entries whose author signature is missing, wrong or out of place."""
    author = VerifierKey.parse(log.genesis.author_key)

    def fault(index: int, stored: StoredEntry) -> str:
        if not BODIES[log.envelopes[index].kind].signed:
            return "it carries a signature, its kind has none" if stored.signature else ""
        if not stored.signature:
            return "the author's signature is missing"
        verify_signature(
            signed_text(log.key.name, log.leaves[index].hex()), stored.signature, author
        )
        return ""

    return log.each(fault)
