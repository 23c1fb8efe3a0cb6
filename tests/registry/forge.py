"""A log that is written in memory, by whoever holds its keys: for stories, attacks, benchmarks."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from workbench.canonical import canonical_json
from workbench.registry.entries import Body, Genesis
from workbench.registry.heads import SignedHead, parse_head, sign_head
from workbench.registry.log import (
    Columns,
    Entry,
    Envelope,
    StoredEntry,
    body_hash,
    columns_of,
    read_entry,
    signed_text,
    timestamp,
    uuid7,
)
from workbench.registry.merkle import leaf_hash, tree_root
from workbench.registry.notes import SigningKey
from workbench.registry.rotation import Role, rotation_body

ORIGIN = "example.com/lab"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str, number: int = 1) -> SigningKey:
    """Return the same key for the same arguments."""
    seed = hashlib.sha256(f"{name} {number}".encode()).digest()
    return SigningKey(name=name, seed=seed)


class ForgedLog:
    """A log of records that can be changed at will, with a head signed over each prefix."""

    def __init__(self, origin: str = ORIGIN, number: int = 1) -> None:
        self.origin = origin
        self.log_key = key(origin, number)
        self.author_key = key(f"{origin}/author", number)
        self.stored: list[StoredEntry] = []
        self.heads: list[str] = []
        genesis = Genesis(
            lab="test lab",
            record_format="1",
            log_key=str(self.log_key.verifier),
            author_key=str(self.author_key.verifier),
        )
        self.add(genesis, subject="lab")

    @property
    def vkey(self) -> str:
        return str(self.log_key.verifier)

    def add(
        self, body: Body, *, subject: str, refs: Sequence[str] = (), time: datetime | None = None
    ) -> Entry:
        """Append an entry and sign the head over it, as `Ledger.append` does."""
        record = self.made(len(self.stored), body, subject=subject, refs=refs, time=time)
        self.stored.append(record)
        self.sign()
        return read_entry(record, self.origin)

    append = add

    def made(
        self,
        sequence: int,
        body: Body,
        *,
        subject: str,
        refs: Sequence[str] = (),
        time: datetime | None = None,
    ) -> StoredEntry:
        """Return the record of an entry at this place, signed by the author where its kind is."""
        moment = time or BEGAN + timedelta(seconds=sequence)
        data = canonical_json(body.to_json())
        seed = f"{self.origin} {sequence} {moment}".encode() + data
        salt = hashlib.sha256(seed).digest()[:16]
        envelope = Envelope(
            actor="researcher",
            body_hash=body_hash(salt, data),
            id=uuid7(moment, hashlib.sha256(salt).digest()[:10]),
            kind=body.kind,
            log=self.origin,
            refs=list(refs),
            subject=subject,
            time=timestamp(moment),
            v=1,
        )
        leaf = leaf_hash(envelope.to_bytes())
        text = signed_text(self.origin, leaf.hex())
        return StoredEntry(
            sequence=sequence,
            leaf=leaf,
            envelope=envelope.to_bytes(),
            salt=salt,
            body=data,
            signature=self.author_key.signature(text) if body.signed else "",
            id=envelope.id,
            kind=envelope.kind,
            subject=envelope.subject,
        )

    def rotate(self, role: Role) -> Entry:
        """Replace a key by an entry that both sign; the head over it is by the new log key."""
        old = self.log_key if role == "log" else self.author_key
        new = key(old.name, 1000 + len(self.stored))
        body = rotation_body(
            self.origin, role, old=old, new=new, why="scheduled", reason="once a year"
        )
        record = self.made(len(self.stored), body, subject="lab")
        self.stored.append(record)
        if role == "log":
            self.log_key = new
        else:
            self.author_key = new
        self.sign()
        return read_entry(record, self.origin)

    def sign(self) -> None:
        """Sign a head over the records as they are now."""
        root = tree_root(stored.leaf for stored in self.stored)
        self.heads.append(sign_head(self.log_key, len(self.stored), root).note)

    def sign_all(self) -> None:
        """Sign every head anew with the present key, as an intruder with it would."""
        leaves = [stored.leaf for stored in self.stored]
        sizes = range(1, len(leaves) + 1)
        self.heads = [sign_head(self.log_key, n, tree_root(leaves[:n])).note for n in sizes]

    def hide(self, sequence: int) -> None:
        """Take the body and the salt away."""
        self.stored[sequence] = replace(self.stored[sequence], body=b"", salt=b"")

    def head(self) -> SignedHead:
        return parse_head(self.heads[-1])

    def records(self, *, since: int = 0) -> Iterator[StoredEntry]:
        return iter(self.stored[since : self.head().size])

    def columns(self) -> Iterator[Columns]:
        return columns_of(self.records())

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        for stored in self.records():
            entry = read_entry(stored, self.origin)
            if kind in (None, entry.kind) and subject in (None, entry.subject):
                yield entry

    def notes(self) -> list[str]:
        return list(self.heads)

    def faults(self, tree: object, keys: object) -> list[str]:
        return []
