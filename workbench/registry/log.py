"""What an entry is made of, and what any log offers to its readers. Knows no database."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Literal, NamedTuple, Protocol

from pydantic import ConfigDict, Field, StringConstraints

from workbench.canonical import canonical_json, parse_json, profile_faults
from workbench.errors import IntegrityError, InvalidFileError, WorkbenchError
from workbench.registry.entries import Body, Hidden, Record, parse_body
from workbench.registry.heads import SignedHead
from workbench.registry.merkle import Frontier, leaf_hash
from workbench.registry.notes import VerifierKey
from workbench.registry.plain import KIND, PLAIN_ENVELOPE, SUBJECT, TIME, UUID7, plain_value

RECORD_FORMAT = "1"
MAX_ENVELOPE_BYTES = 2**16 - 1
"""An entry bundle writes an entry's length in two bytes (C2SP tlog-tiles)."""
SALT_SIZE = 16

_HEX = StringConstraints(pattern=r"^[0-9a-f]{64}$")


class Envelope(Record):
    """The signed-for part of an entry: its canonical JSON is the leaf of the Merkle tree."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    actor: str = Field(min_length=1, max_length=80)
    body_hash: Annotated[str, _HEX]
    """SHA-256(0x02 ‖ salt ‖ body): the body can be withheld and still be bound."""
    id: str = Field(pattern=rf"^{UUID7}$")
    kind: str = Field(pattern=rf"^{KIND}$")
    log: str = Field(min_length=3, max_length=120)
    """Origin of the log: an entry of one log is no entry of another."""
    refs: list[Annotated[str, _HEX]]
    """Leaf hashes of the earlier entries that this one rests on."""
    subject: str = Field(pattern=rf"^{SUBJECT}$")
    time: str = Field(pattern=rf"^{TIME}$")
    v: Literal[1]

    def to_bytes(self) -> bytes:
        """Return the RFC 8785 bytes that are hashed."""
        # Its fields' patterns leave nothing to escape but in these two; a test compares this with
        # the general form, which takes ten times as long under the writer's lock.
        actor, log = canonical_json(self.actor).decode(), canonical_json(self.log).decode()
        refs = ",".join(f'"{ref}"' for ref in self.refs)
        return (
            f'{{"actor":{actor},"body_hash":"{self.body_hash}","id":"{self.id}",'
            f'"kind":"{self.kind}","log":{log},"refs":[{refs}],"subject":"{self.subject}",'
            f'"time":"{self.time}","v":{self.v}}}'
        ).encode()


class Outline(NamedTuple):
    """What an envelope says, read from bytes that were found to be canonical and complete."""

    actor: str
    body_hash: str
    id: str
    kind: str
    log: str
    refs: tuple[str, ...]
    subject: str
    time: str


@dataclass(frozen=True, kw_only=True)
class StoredEntry:
    """An entry as bytes, exactly as a store or a published log holds it; nothing is trusted."""

    sequence: int
    leaf: bytes
    """What the store says is the leaf hash."""
    envelope: bytes
    salt: bytes
    body: bytes
    signature: str
    """Base64 of key id ‖ Ed25519 signature by the author, empty for unsigned kinds."""
    id: str | None = None
    """This and the next two are the store's index columns; a published log has none."""
    kind: str | None = None
    subject: str | None = None

    @property
    def is_hidden(self) -> bool:
        """Whether the body is withheld or redacted: neither body nor salt is here."""
        return not self.body and not self.salt


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Entries that follow each other as bytes, field by field: quicker to check than one by one."""

    sequences: Sequence[int]
    leaves: Sequence[bytes]
    envelopes: Sequence[bytes]
    salts: Sequence[bytes]
    bodies: Sequence[bytes]
    signatures: Sequence[str]
    indices: Sequence[tuple[str | None, str | None, str | None]] = ()
    """The store's index columns id, kind and subject; a published log has none."""

    def stored(self, at: int) -> StoredEntry:
        """Return one of the entries."""
        identifier, kind, subject = self.indices[at] if self.indices else (None, None, None)
        return StoredEntry(
            sequence=self.sequences[at],
            leaf=self.leaves[at],
            envelope=self.envelopes[at],
            salt=self.salts[at],
            body=self.bodies[at],
            signature=self.signatures[at],
            id=identifier,
            kind=kind,
            subject=subject,
        )


def columns_of(records: Iterable[StoredEntry], most: int = 256) -> Iterator[Columns]:
    """Yield the entries in batches of at most so many."""
    rest = iter(records)
    while found := list(islice(rest, most)):
        yield Columns(
            sequences=[stored.sequence for stored in found],
            leaves=[stored.leaf for stored in found],
            envelopes=[stored.envelope for stored in found],
            salts=[stored.salt for stored in found],
            bodies=[stored.body for stored in found],
            signatures=[stored.signature for stored in found],
            indices=[(stored.id, stored.kind, stored.subject) for stored in found],
        )


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry whose hashes were checked when it was read."""

    sequence: int
    """Position in the log, from 0."""
    leaf: str
    """Leaf hash, lower-case hexadecimal: how other entries refer to this one."""
    id: str
    kind: str
    subject: str
    """Experiment folder ``NNNN-slug``, ``lab``, or ``recipe:NAME@V``."""
    time: str
    """RFC 3339, UTC, milliseconds, ``Z``."""
    actor: str
    refs: tuple[str, ...]
    body: Body
    envelope: bytes = field(repr=False)
    body_bytes: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    signature: str = field(repr=False)


class LogSource(Protocol):
    """A log to read from: a ledger's store or its published files."""

    @property
    def origin(self) -> str:
        """The log's identity."""

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        """Yield the entries that the signed head covers, in order.

        Raises:
            IntegrityError: an entry is not what it was; names the entry.
        """

    def head(self) -> SignedHead | None:
        """Return the newest signed head; its signature is checked by `verify_log`."""


class RawLog(Protocol):
    """A log as bytes, for verification and publication."""

    @property
    def origin(self) -> str:
        """The log's identity."""

    def head(self) -> SignedHead | None:
        """Return the newest signed head; its signature is not checked here.

        Raises:
            IntegrityError: there is none, or it is malformed.
        """

    def records(self, *, since: int = 0) -> Iterator[StoredEntry]:
        """Yield the entries that the newest signed head covers, unchecked, in order.

        Args:
            since: position of the first one that is wanted.
        """

    def columns(self) -> Iterator[Columns]:
        """Yield the same entries, all of them, in batches."""

    def notes(self) -> Iterable[str]:
        """Yield the signed heads that the log kept, oldest first; the last is the newest."""

    def faults(self, tree: "ReplayedTree", keys: "KeysInForce | None") -> Iterable[str]:
        """Yield what contradicts the entries in what else the log holds (indices, tiles, keys).

        Args:
            tree: computed from the entries.
            keys: those that the entries leave in force; None where they could not be followed.
        """


class KeysInForce(Protocol):
    """The keys that speak for a log after its last entry (see `workbench.registry.rotation`)."""

    @property
    def log(self) -> VerifierKey:
        """Signs tree heads."""

    @property
    def author(self) -> VerifierKey:
        """Signs entries."""


class ReplayedTree(Protocol):
    """The Merkle tree over entries that were read, computed from their bytes."""

    @property
    def size(self) -> int:
        """Entries in it."""

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return roots of complete subtrees of 256^level leaves (see `HashSource`)."""

    def frontier(self) -> Frontier:
        """Return what is needed to append to the tree."""


class HashSource(Protocol):
    """A log whose tree can be read in parts, so that a proof needs O(log n) of it."""

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        """Return the roots of the complete subtrees ``start`` to ``stop`` of a level, unchecked.

        Each is over 256^level leaves; those of level 0 are the leaf hashes.

        Raises:
            IntegrityError: the log has fewer, or they cannot be read.
        """


def body_hashes(salts: Iterable[bytes], bodies: Iterable[bytes]) -> list[str]:
    """Return `body_hash` of each pair."""
    sha256 = hashlib.sha256
    pairs = zip(salts, bodies, strict=True)
    return [sha256(b"\x02" + salt + body).hexdigest() for salt, body in pairs]


def body_hash(salt: bytes, body: bytes) -> str:
    """Return the hexadecimal SHA-256(0x02 ‖ salt ‖ body)."""
    return hashlib.sha256(b"\x02" + salt + body).hexdigest()


def uuid7(moment: datetime, random: bytes) -> str:
    """Return a UUID version 7 (RFC 9562, section 5.7).

    Args:
        moment: its first 48 bits, in milliseconds since 1970.
        random: ten bytes for the rest.
    """
    milliseconds = int(moment.timestamp() * 1000)
    value = (milliseconds << 80) | int.from_bytes(random[:10], "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def timestamp(moment: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone: pass datetime.now(UTC)")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def signed_text(origin: str, leaf: str) -> str:
    """Return what an author signs of an entry."""
    return f"workbench entry v1\n{origin}\n{leaf}\n"


def read_envelope(data: bytes) -> Envelope:
    """Return the envelope of these bytes.

    Raises:
        IntegrityError: not canonical JSON in the ledger's profile, or a field is not as it must be.
    """
    if len(data) > MAX_ENVELOPE_BYTES:
        raise IntegrityError(f"the envelope has {len(data)} bytes, more than {MAX_ENVELOPE_BYTES}")
    try:
        value = parse_json(data)
        faults = profile_faults(value)
        if not faults and canonical_json(value) != data:
            faults = ["the bytes are not canonical (RFC 8785)"]
        envelope = Envelope.model_validate(value)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"the envelope is malformed: {_one_line(error)}") from error
    if faults:
        raise IntegrityError(f"the envelope is malformed: {faults[0]}")
    return envelope


def read_outline(data: bytes) -> Outline:
    """Return what the envelope of these bytes says; the quick form of `read_envelope`.

    Raises:
        IntegrityError: as `read_envelope`.
    """
    if len(data) <= MAX_ENVELOPE_BYTES and data.isascii():
        match = PLAIN_ENVELOPE.fullmatch(data.decode("ascii"))
        if match:
            return outline_of(match.groups())
    read = read_envelope(data)
    return Outline(
        actor=read.actor,
        body_hash=read.body_hash,
        id=read.id,
        kind=read.kind,
        log=read.log,
        refs=tuple(read.refs),
        subject=read.subject,
        time=read.time,
    )


def outline_of(groups: Sequence[str]) -> Outline:
    """Return what an envelope says from the groups that `PLAIN_ENVELOPE` finds in it."""
    actor, digest, identifier, kind, log, refs, subject, time = groups
    leaves = tuple(refs[1:-1].split('","')) if refs else ()
    return Outline(actor, digest, identifier, kind, log, leaves, subject, time)


def read_body(kind: str, data: bytes) -> Body:
    """Return the typed body of these bytes.

    Raises:
        IntegrityError: not canonical JSON in the ledger's profile, or it does not fit its kind.
    """
    try:
        value = plain_value(data)
        faults: list[str] = []
        if value is None:
            value = parse_json(data)
            faults = profile_faults(value)
            if not faults and canonical_json(value) != data:
                faults = ["the bytes are not canonical (RFC 8785)"]
        body = parse_body(kind, value)
    except (ValueError, RecursionError, InvalidFileError) as error:
        raise IntegrityError(f"the body is malformed: {_one_line(error)}") from error
    if faults:
        raise IntegrityError(f"the body is malformed: {faults[0]}")
    return body


def read_entry(stored: StoredEntry, origin: str) -> Entry:
    """Return the entry after its leaf hash, its log and its body hash were checked.

    Where the body is hidden, its place is taken by `Hidden`: only verification says whether an
    embargo or a redaction accounts for that.

    Raises:
        IntegrityError: one of them is wrong; the message names the entry.
    """
    try:
        outline = read_outline(stored.envelope)
        if leaf_hash(stored.envelope) != stored.leaf:
            raise IntegrityError("the leaf hash is not that of the envelope")
        if outline.log != origin:
            raise IntegrityError(f"it belongs to log {outline.log!r}")
        body = _read_bound_body(stored, outline)
    except IntegrityError as error:
        raise IntegrityError(f"{name_of(stored)}: {error}", remedy="workbench verify") from error
    return entry_of(stored, outline, body)


def entry_of(stored: StoredEntry, outline: Outline, body: Body) -> Entry:
    """Return the entry of parts whose hashes were checked."""
    return Entry(
        sequence=stored.sequence,
        leaf=stored.leaf.hex(),
        id=outline.id,
        kind=outline.kind,
        subject=outline.subject,
        time=outline.time,
        actor=outline.actor,
        refs=outline.refs,
        body=body,
        envelope=stored.envelope,
        body_bytes=stored.body,
        salt=stored.salt,
        signature=stored.signature,
    )


def _read_bound_body(stored: StoredEntry, outline: Outline) -> Body:
    if stored.is_hidden:
        return Hidden()
    if body_hash(stored.salt, stored.body) != outline.body_hash:
        raise IntegrityError("the body is not the one that was hashed")
    return read_body(outline.kind, stored.body)


def name_of(stored: StoredEntry) -> str:
    """Return ``entry 7 (trial 0190…)`` as far as its envelope can be read."""
    try:
        value = parse_json(stored.envelope)
        return f"entry {stored.sequence} ({value['kind']} {value['id']})"
    except (ValueError, KeyError, TypeError):
        known = " ".join(part for part in (stored.kind, stored.id) if part) or "unreadable"
        return f"entry {stored.sequence} ({known})"


def _one_line(error: Exception) -> str:
    text = error.message if isinstance(error, WorkbenchError) else str(error)
    return " ".join(text.split())
