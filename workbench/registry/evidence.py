"""A log under verification: read once, in batches, with what the numbered checks share of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from workbench.errors import IntegrityError, WorkbenchError
from workbench.registry.embargo import Withholding
from workbench.registry.entries import Body, Genesis, KeyRotation
from workbench.registry.heads import SignedHead, parse_head, verify_head
from workbench.registry.log import Entry, Outline, RawLog, StoredEntry, entry_of, name_of, read_body
from workbench.registry.merkle import leaf_hash
from workbench.registry.notes import VerifierKey
from workbench.registry.replay import GrowingTree
from workbench.registry.rotation import KeyChain
from workbench.registry.tiles import WIDTH

_MARKS = tuple(f'"kind":"{body.kind}"'.encode() for body in (Genesis, KeyRotation))


@dataclass(kw_only=True)
class Batch:
    """Entries that follow each other, as far as the checks have read them."""

    start: int
    records: list[StoredEntry]
    leaves: list[bytes]
    """Leaf hash of each, computed from its bytes."""
    outlines: list[Outline] = field(default_factory=list)
    """What the envelopes say: filled by the check of the envelopes."""
    bodies: list[Body] = field(default_factory=list)
    """The typed bodies: filled by the check of the bodies."""

    def each(self, fault_of: Callable[[int, StoredEntry], str]) -> Iterator[str]:
        """Yield the faults that a check of one entry finds, with the entry's name."""
        for at, stored in enumerate(self.records):
            try:
                fault = fault_of(at, stored)
            except IntegrityError as error:
                fault = error.message
            if fault:
                yield f"{name_of(stored)}: {fault}"

    def entry(self, at: int) -> Entry:
        """Return an entry whose envelope and body were checked."""
        return entry_of(self.records[at], self.outlines[at], self.bodies[at])


class Evidence:
    """What is known of a log while its entries stream by. Only what the checks need is kept."""

    def __init__(self, source: RawLog, key: VerifierKey, kept: str | None) -> None:
        """Take the log, the verifier key that the reader trusts, and the head that they kept."""
        self.source = source
        self.key = key
        self.kept = kept
        self.tree = GrowingTree()
        self.chain = KeyChain(key.name)
        self.withholding = Withholding()
        self.broken: dict[int, str] = {}
        """Why the keys in force could not be followed, by position."""
        self.is_cut = False
        """Whether fewer entries could be read than the head covers."""
        self.warnings: list[str] = []

    @cached_property
    def head(self) -> SignedHead:
        """The newest head, its signature not verified yet."""
        found = self.source.head()
        if found is None:
            raise IntegrityError("the log has no signed head")
        return found

    def batches(self) -> Iterator[Batch]:
        """Yield the entries that the head covers, each batch followed already.

        Raises:
            WorkbenchError: the source cannot be read further.
        """
        # A live ledger may have grown since its head was read.
        size = self.head.size
        records = (stored for stored in self.source.records() if stored.sequence < size)
        start, self.is_cut = 0, True
        while found := list(islice(records, WIDTH)):
            batch = Batch(
                start=start,
                records=found,
                leaves=[leaf_hash(stored.envelope) for stored in found],
            )
            self._follow(batch)
            yield batch
            start += len(found)
        self.is_cut = start < size

    def head_key(self, size: int) -> VerifierKey:
        """Return the key that must have signed a head over the first entries.

        A reader may trust any log key of a verified chain; a key that is not of the chain is taken
        as it is, and the check of the first entry refuses it.
        """
        return self.chain.log_at(size) if self.chain.knows(str(self.key)) else self.key

    def verified_head(self, note: str) -> SignedHead:
        """Return a tree head of this log after its signature was checked.

        Where the keys in force cannot be followed, which fails a later check, the head is only
        read: what is reported then is the entry that is at fault, and not the heads after it.

        Raises:
            IntegrityError: the key that was in force did not sign it.
        """
        head = parse_head(note)
        try:
            return verify_head(note, self.head_key(head.size))
        except IntegrityError:
            if self.chain.knows(str(self.key)) and (self.broken or self.is_cut):
                return head
            raise

    def _follow(self, batch: Batch) -> None:
        self.tree.extend(batch.leaves)
        for at, stored in enumerate(batch.records, batch.start):
            if _MARKS[1] in stored.envelope or (at == 0 and _MARKS[0] in stored.envelope):
                self._follow_keys(at, stored)

    def _follow_keys(self, at: int, stored: StoredEntry) -> None:
        # A string of an envelope escapes its quotes, so that the mark is only ever the member.
        kind = KeyRotation.kind if _MARKS[1] in stored.envelope else Genesis.kind
        try:
            self.chain.follow(at, read_body(kind, stored.body))
        except WorkbenchError as error:
            self.broken[at] = error.message
