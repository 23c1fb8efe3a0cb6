"""What each check of a log looks for. Each takes the entries batch by batch, names its faults.

A check may rely on those before it only for entries that it has taken already: what can be said of
the whole log is said when it is closed.
"""

import secrets
from array import array
from collections import Counter
from collections.abc import Iterator

from workbench.errors import IntegrityError
from workbench.registry.embargo import Hole
from workbench.registry.entries import (
    BODIES,
    NEVER_WITHHELD,
    Embargo,
    Genesis,
    Hidden,
    Redaction,
    Reveal,
)
from workbench.registry.evidence import Batch, Evidence
from workbench.registry.heads import SignedHead, parse_head
from workbench.registry.log import (
    SALT_SIZE,
    StoredEntry,
    body_hash,
    name_of,
    read_body,
    read_outline,
    signed_text,
)
from workbench.registry.notes import VerifierKey, verify_signature

_MAX_WARNINGS = 20
_ALL_HEADS = 1000
"""Up to so many heads, each signature is verified."""
_ID_PARTS = 64


class Examination:
    """One numbered check of one log."""

    def __init__(self, log: Evidence) -> None:
        """Take what is known of the log."""
        self.log = log

    def take(self, batch: Batch) -> Iterator[str]:  # noqa: ARG002
        """Yield what is wrong with these entries."""
        return iter(())

    def close(self) -> Iterator[str]:
        """Yield what is wrong with the whole log, after the last entry was taken."""
        return iter(())

    def extent(self) -> str:
        """Return what was checked, so that a check of nothing is seen to be one."""
        return f"{self.log.head.size} entries"


class SignedHeadCheck(Examination):
    """The newest head verifies, and covers something."""

    def close(self) -> Iterator[str]:
        """Yield when it does not."""
        head = self.log.verified_head(self.log.head.note)
        if head.size == 0:
            yield "the signed head covers no entry"


class SizeCheck(Examination):
    """Every entry is there."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._missing = -1
        self._seen = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Look for the first gap."""
        self._seen += len(batch.records)
        if self._missing < 0:
            numbered = enumerate((stored.sequence for stored in batch.records), batch.start)
            self._missing = next((at for at, sequence in numbered if at != sequence), -1)
        return iter(())

    def close(self) -> Iterator[str]:
        """Yield the first entry that is missing."""
        missing = self._seen if self._missing < 0 else self._missing
        if missing < self.log.head.size:
            yield f"entry {missing} is missing: the signed head covers {self.log.head.size} entries"


class LeafCheck(Examination):
    """The bytes give the recorded leaf hashes."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose bytes do not."""
        for leaf, stored in zip(batch.leaves, batch.records, strict=True):
            if leaf != stored.leaf:
                yield f"{name_of(stored)}: its bytes do not give its leaf hash"


class RootCheck(Examination):
    """The entries are those that were signed."""

    def close(self) -> Iterator[str]:
        """Yield when they are not."""
        head = self.log.head
        if self.log.tree.root_at(head.size) != head.root:
            yield f"the root of the {head.size} entries is not the one that was signed"


class KeptCheck(Examination):
    """The head that the reader kept is of a prefix of this log."""

    def close(self) -> Iterator[str]:
        """Yield when it is not."""
        if self.log.kept is None:
            return
        kept, now = self.log.verified_head(self.log.kept), self.log.head.size
        if kept.size > now:
            yield f"you kept a head over {kept.size} entries, the log now has {now}"
        elif self.log.tree.root_at(kept.size) != kept.root:
            yield f"the first {kept.size} entries are not those of the head that you kept"

    def extent(self) -> str:
        """Return what the kept head covers."""
        if self.log.kept is None:
            return "none was given"
        return f"{parse_head(self.log.kept).size} entries kept"


class EarlierHeadsCheck(Examination):
    """Every head that the log kept is over its entries, and was signed.

    All of them are compared with the entries. Of more than a thousand, the signatures of a random
    sample are verified: what a head says is vouched for by the entries already.
    """

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._notes = iter(log.source.notes())
        self._waiting: SignedHead | None = None
        self._size_before = -1
        self._count = self._verified = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the heads over entries up to the batch's last that are not of this history."""
        end = batch.start + len(batch.leaves)
        head = self._next()
        if head is None or head.size > end:
            return
        frontier, leaves = self.log.tree.frontier(batch.start), iter(batch.leaves)
        while head is not None and head.size <= end:
            while frontier.size < head.size:
                frontier = frontier.appended(next(leaves))
            yield from self._faults(head)
            if head.size == frontier.size and head.root != frontier.root():
                yield f"the head of size {head.size} was signed over other entries"
            head = self._next()

    def close(self) -> Iterator[str]:
        """Yield the faults of the remaining heads."""
        # Heads beyond the newest one were signed meanwhile: a live ledger grows.
        while (head := self._next()) is not None:
            yield from self._faults(head)

    def extent(self) -> str:
        """Return how many heads there were."""
        sampled = "" if self._verified == self._count else f", {self._verified} signatures verified"
        return f"{self._count} heads{sampled}"

    def _next(self) -> SignedHead | None:
        """Return the oldest head that was not compared yet."""
        if self._waiting is None:
            note = next(self._notes, None)
            self._waiting = None if note is None else parse_head(note)
        return self._waiting

    def _faults(self, head: SignedHead) -> Iterator[str]:
        self._waiting = None
        self._count += 1
        if self._count <= _ALL_HEADS or secrets.randbelow(self._count) < _ALL_HEADS:
            self._verified += 1
            self.log.verified_head(head.note)
        if head.size <= self._size_before:
            yield f"the head of size {head.size} is out of order"
        self._size_before = head.size


class HoldingsCheck(Examination):
    """What the log holds beside its entries agrees with them."""

    def close(self) -> Iterator[str]:
        """Yield what contradicts them."""
        keys = None if self.log.broken else self.log.chain
        yield from self.log.source.faults(self.log.tree, keys)


class EnvelopeCheck(Examination):
    """Envelopes are canonical, complete, of this log and indexed as they are."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._time_before = ""
        self._backward = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Read the envelopes, and yield the entries whose envelope is wrong."""
        origin, outlines = self.log.key.name, batch.outlines
        for stored in batch.records:
            try:
                outline = read_outline(stored.envelope)
            except IntegrityError as error:
                yield f"{name_of(stored)}: {error.message}"
                continue
            outlines.append(outline)
            if outline.log != origin:
                yield f"{name_of(stored)}: it belongs to log {outline.log!r}"
            if stored.kind is not None or stored.id is not None or stored.subject is not None:
                yield from _index_faults(stored)
            if outline.time < self._time_before:
                self._warn(stored, outline.time)
            self._time_before = outline.time

    def close(self) -> Iterator[str]:
        """Say how many warnings were left out."""
        if self._backward > _MAX_WARNINGS:
            left_out = self._backward - _MAX_WARNINGS
            self.log.warnings.append(f"the clock went back at {left_out} more entries")
        return iter(())

    def _warn(self, stored: StoredEntry, time: str) -> None:
        self._backward += 1
        if self._backward <= _MAX_WARNINGS:
            self.log.warnings.append(
                f"{name_of(stored)} says {time}, the one before it {self._time_before}: "
                "the clock went back"
            )


class BodyHashCheck(Examination):
    """Bodies are those that the envelopes bind."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose body or salt is not the one that was hashed."""
        for outline, stored in zip(batch.outlines, batch.records, strict=True):
            if stored.is_hidden:
                continue
            if len(stored.salt) != SALT_SIZE:
                yield f"{name_of(stored)}: its salt has {len(stored.salt)} bytes, not {SALT_SIZE}"
            elif body_hash(stored.salt, stored.body) != outline.body_hash:
                yield f"{name_of(stored)}: its body is not the one that was hashed"


class BodyCheck(Examination):
    """Bodies are canonical and fit their kinds; the record says why one is not here."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._holes: list[Hole] = []

    def take(self, batch: Batch) -> Iterator[str]:
        """Read the bodies, and yield the entries whose body is malformed."""
        for at, stored in enumerate(batch.records):
            kind = batch.outlines[at].kind
            if stored.is_hidden:
                batch.bodies.append(Hidden())
                self._add_hole(batch, at)
                continue
            try:
                batch.bodies.append(read_body(kind, stored.body))
            except IntegrityError as error:
                batch.bodies.append(Hidden())
                yield f"{name_of(stored)}: {error.message}"
            if kind in _WITHHOLDING_KINDS:
                self.log.withholding.follow(batch.entry(at))

    def close(self) -> Iterator[str]:
        """Yield the entries whose body is missing without an account."""
        for hole in self._holes:
            if self.log.withholding.accounts_for(hole):
                continue
            name = f"entry {hole.sequence} ({hole.kind} {hole.leaf[:12]}…)"
            if hole.kind in NEVER_WITHHELD:
                yield f"{name}: its body is not here, and a {hole.kind} is never withheld"
            else:
                yield f"{name}: its body is not here, and no embargo or redaction accounts for it"

    def extent(self) -> str:
        """Return how many bodies were read, and why others were not."""
        redacted = sum(self.log.withholding.redacts(hole) for hole in self._holes)
        parts = [f"{self.log.head.size - len(self._holes)} entries"]
        if redacted:
            parts.append(f"{redacted} redacted")
        if len(self._holes) > redacted:
            parts.append(f"{len(self._holes) - redacted} under embargo")
        return ", ".join(parts)

    def _add_hole(self, batch: Batch, at: int) -> None:
        outline = batch.outlines[at]
        self._holes.append(
            Hole(
                sequence=batch.start + at,
                leaf=batch.leaves[at].hex(),
                kind=outline.kind,
                subject=outline.subject,
            )
        )


class GenesisCheck(Examination):
    """The first entry names the log's key, and is the only one of its kind."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield a first entry of another kind or key, and a second one."""
        if batch.start == 0:
            first = batch.bodies[0]
            if not isinstance(first, Genesis):
                raise IntegrityError(f"entry 0 is a {batch.outlines[0].kind}, not the genesis")
            for vkey in (first.log_key, first.author_key):
                fault = _key_fault(vkey)
                if fault:
                    yield f"entry 0 (genesis {batch.outlines[0].id}): {fault}"
        for at, outline in enumerate(batch.outlines, batch.start):
            if outline.kind == Genesis.kind and at:
                yield f"entry {at} (genesis {outline.id}) is a second first entry"

    def close(self) -> Iterator[str]:
        """Yield when no key of the log is the one that the reader trusts."""
        if not self.log.chain.knows(str(self.log.key)):
            named = self.log.chain.log_at(1)
            yield f"entry 0 (genesis) names the key {named}, not {self.log.key}"


class IdCheck(Examination):
    """Identifiers are used once."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        # Eight bytes an identifier instead of a hundred; parts bound what `close` needs at a time.
        self._hashes = tuple(array("q") for _ in range(_ID_PARTS))

    def take(self, batch: Batch) -> Iterator[str]:
        """Remember the identifiers."""
        hashes = self._hashes
        for outline in batch.outlines:
            value = hash(outline.id)
            hashes[value % _ID_PARTS].append(value)
        return iter(())

    def close(self) -> Iterator[str]:
        """Yield the entries whose identifier was used before."""
        suspects: set[int] = set()
        for part in self._hashes:
            if len(set(part)) != len(part):
                suspects.update(value for value, count in Counter(part).items() if count > 1)
        if suspects:
            yield from self._repeated(suspects)

    def _repeated(self, suspects: set[int]) -> Iterator[str]:
        first: dict[str, int] = {}
        for stored in self.log.source.records():
            if stored.sequence >= self.log.head.size:
                break
            identifier = read_outline(stored.envelope).id
            if hash(identifier) in suspects:
                before = first.setdefault(identifier, stored.sequence)
                if before != stored.sequence:
                    yield f"{name_of(stored)}: entry {before} has the same id"


class RefCheck(Examination):
    """Entries refer to earlier entries only."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries that refer to something else."""
        position = self.log.tree.position
        for at, outline in enumerate(batch.outlines, batch.start):
            for ref in outline.refs:
                if not 0 <= position(bytes.fromhex(ref)) < at:
                    name = name_of(batch.records[at - batch.start])
                    yield f"{name}: it refers to {ref}, which is no earlier entry"
                    break


class SignatureCheck(Examination):
    """The author signed what only an author may say, and every change of the keys holds."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._signed = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose signature is missing, wrong or out of place."""
        broken = self.log.broken

        def fault(at: int, stored: StoredEntry) -> str:
            if batch.start + at in broken:
                return broken[batch.start + at]
            if not BODIES[batch.outlines[at].kind].signed:
                return "it carries a signature, its kind has none" if stored.signature else ""
            self._signed += 1
            if not stored.signature:
                return "the author's signature is missing"
            text = signed_text(self.log.key.name, batch.leaves[at].hex())
            author = self.log.chain.author_at(batch.start + at)
            verify_signature(text, stored.signature, author)
            return ""

        return batch.each(fault)

    def extent(self) -> str:
        """Return how many entries are signed."""
        return f"{self._signed} signed entries"


_WITHHOLDING_KINDS = frozenset(body.kind for body in (Embargo, Reveal, Redaction))


def _key_fault(vkey: str) -> str:
    try:
        VerifierKey.parse(vkey)
    except IntegrityError as error:
        return error.message
    return ""


def _index_faults(stored: StoredEntry) -> Iterator[str]:
    outline = read_outline(stored.envelope)
    for column in ("id", "kind", "subject"):
        if getattr(stored, column) not in (None, getattr(outline, column)):
            yield f"{name_of(stored)}: the store's index says {column} {getattr(stored, column)!r}"
            return
