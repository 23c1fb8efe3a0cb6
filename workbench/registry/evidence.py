"""A log under verification: read once, in batches, with what the numbered checks share of it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from workbench.errors import IntegrityError, WorkbenchError
from workbench.registry.embargo import Withholding
from workbench.registry.entries import Body, Genesis, KeyRotation
from workbench.registry.heads import SignedHead, parse_head, verify_head
from workbench.registry.log import (
    Columns,
    Entry,
    Outline,
    RawLog,
    columns_of,
    entry_of,
    name_of,
    outline_of,
    read_body,
)
from workbench.registry.merkle import leaf_hashes
from workbench.registry.notes import VerifierKey, from_base64, split_note
from workbench.registry.replay import GrowingTree
from workbench.registry.rotation import KeyChain

_MARK = f'"kind":"{KeyRotation.kind}"'.encode()


class Fields(NamedTuple):
    """The members of envelopes, each as a column; empty until the envelopes were read."""

    actors: Sequence[str] = ()
    body_hashes: Sequence[str] = ()
    ids: Sequence[str] = ()
    kinds: Sequence[str] = ()
    logs: Sequence[str] = ()
    refs: Sequence[str] = ()
    """As they stand in the envelope, like ``"1a…","2b…"``."""
    subjects: Sequence[str] = ()
    times: Sequence[str] = ()

    def outline(self, at: int) -> Outline:
        """Return what one envelope says."""
        return outline_of([column[at] for column in self])


@dataclass(kw_only=True)
class Batch:
    """Entries that follow each other, as far as the checks have read them."""

    start: int
    columns: Columns
    leaves: list[bytes]
    """Leaf hash of each, computed from its bytes."""
    fields: "Fields" = field(default_factory=Fields)
    """What the envelopes say: filled by the check of the envelopes."""
    bodies: list[Body] = field(default_factory=list)
    """The typed bodies: filled by the check of the bodies."""

    def name(self, at: int) -> str:
        """Return how an entry is named in a fault."""
        return name_of(self.columns.stored(at))

    def entry(self, at: int) -> Entry:
        """Return an entry whose envelope and body were checked."""
        return entry_of(self.columns.stored(at), self.fields.outline(at), self.bodies[at])

    def of_kinds(self, kinds: Collection[str]) -> list[int]:
        """Return where in the batch entries of these kinds are."""
        if not self.present.isdisjoint(kinds):
            return [at for at, kind in enumerate(self.fields.kinds) if kind in kinds]
        return []

    @cached_property
    def present(self) -> frozenset[str]:
        """The kinds of the entries."""
        return frozenset(self.fields.kinds)


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
        self.suspicion = ""
        """Why the newest head's signature could not be checked, while that may lie in an entry."""
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
        size, start, self.is_cut = self.head.size, 0, True
        for whole in self.source.columns():
            found = _below(whole, size)
            batch = Batch(start=start, columns=found, leaves=leaf_hashes(found.envelopes))
            self._follow(batch)
            yield batch
            start += len(found.leaves)
        self.is_cut = start < size

    def head_key(self, size: int) -> VerifierKey:
        """Return the key that must have signed a head over the first entries.

        A reader may trust any log key of a verified chain; a key that is not of the chain is taken
        as it is, and the check of the first entry refuses it.
        """
        return self.chain.log_at(size) if self.chain.knows(str(self.key)) else self.key

    def is_of_unknown_key(self, note: str) -> bool:
        """Return whether a key signed that only a rotation would name which was not found.

        Then an entry was removed or changed, and a later check says which; if none does, the head
        itself is at fault.
        """
        signatures = [text for name, text in split_note(note)[1] if name == self.key.name]
        if self.broken or self.is_cut:
            return bool(signatures)
        known = {key.key_id for key in self.chain.log_keys}
        unknown = [text for text in signatures if from_base64(text)[:4] not in known]
        return self.chain.knows(str(self.key)) and len(unknown) == len(signatures) > 0

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
            if self.broken or self.is_cut:
                return head
            raise

    def _follow(self, batch: Batch) -> None:
        self.tree.extend(batch.leaves)
        joined = b"\n".join(batch.columns.envelopes)
        if batch.start == 0 or _MARK in joined:
            for at, envelope in enumerate(batch.columns.envelopes):
                if batch.start + at == 0 or _MARK in envelope:
                    self._follow_keys(batch, at)

    def _follow_keys(self, batch: Batch, at: int) -> None:
        # A string of an envelope escapes its quotes, so that the mark is only ever the member.
        kind = KeyRotation.kind if _MARK in batch.columns.envelopes[at] else Genesis.kind
        try:
            self.chain.follow(batch.start + at, read_body(kind, batch.columns.bodies[at]))
        except WorkbenchError as error:
            self.broken[batch.start + at] = error.message


def _below(columns: Columns, size: int) -> Columns:
    """Return the entries that a head over so many covers."""
    if max(columns.sequences, default=-1) < size:
        return columns
    kept = [at for at, sequence in enumerate(columns.sequences) if sequence < size]
    found = next(columns_of(map(columns.stored, kept)), None)
    return found or Columns(
        sequences=(), leaves=(), envelopes=(), salts=(), bodies=(), signatures=()
    )
