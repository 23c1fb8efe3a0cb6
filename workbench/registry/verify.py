"""The numbered checks of ``workbench verify``; ``docs/record-format.md`` uses the same numbers.

Each check works on bytes as they are stored and never re-serialises what it hashes. A check runs
only when all before it passed, because it builds on them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from workbench.errors import IntegrityError, WorkbenchError
from workbench.registry.conduct import anchor_faults, is_confirmatory, order_faults, seed_faults
from workbench.registry.entries import BODIES, Anchor, Body, Genesis, RunStarted
from workbench.registry.heads import SignedHead, parse_head, verify_head
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


@dataclass(frozen=True, kw_only=True)
class Check:
    """One numbered check and how it went."""

    number: int
    name: str
    passed: bool
    detail: str
    """The first fault with its entry, or what was checked."""
    claim: str
    """What holds when the check passes."""


@dataclass(frozen=True, kw_only=True)
class LogReport:
    """Whether a log is what was signed, and whether what it records was done in the right order."""

    origin: str
    size: int
    """Entries covered by the newest head; 0 when the head cannot be read."""
    head: str
    """The newest signed head, verbatim: keep it, and pass it as the kept head next time."""
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def first_failure(self) -> Check | None:
        """The check that failed, with the entry it names; later ones were not run."""
        return next((check for check in self.checks if not check.passed), None)


class _Log:
    """A log under verification: each level is read once, and only when the one below it held."""

    def __init__(self, source: RawLog, key: VerifierKey, kept: str | None) -> None:
        self.source = source
        self.key = key
        self.kept = kept

    @cached_property
    def notes(self) -> list[str]:
        found = self.source.notes()
        if not found:
            raise IntegrityError("the log has no signed head")
        return found

    @cached_property
    def head(self) -> SignedHead:
        return verify_head(self.notes[-1], self.key)

    @cached_property
    def records(self) -> list[StoredEntry]:
        # A live ledger may have grown since its head was read.
        return [stored for stored in self.source.records() if stored.sequence < self.head.size]

    @cached_property
    def leaves(self) -> list[bytes]:
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
        return [read_envelope(stored.envelope) for stored in self.records]

    @cached_property
    def bodies(self) -> list[Body]:
        pairs = zip(self.envelopes, self.records, strict=True)
        return [read_body(envelope.kind, stored.body) for envelope, stored in pairs]

    @cached_property
    def genesis(self) -> Genesis:
        body = self.bodies[0]
        if not isinstance(body, Genesis):
            raise IntegrityError(f"entry 0 is a {body.kind}, not the genesis")
        return body

    @cached_property
    def entries(self) -> list[Entry]:
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


def verify_log(source: RawLog, *, vkey: str, kept_head: str | None) -> LogReport:
    """Verify a log from its bytes.

    Args:
        source: a ledger or a published log.
        vkey: C2SP verifier key of the log, from a place that the log's keeper does not control.
        kept_head: a signed head that the reader kept from before, verbatim; without one, a log cut
            back to an older head cannot be told from a young one.

    Raises:
        IntegrityError: the verifier key itself is malformed.
    """
    log = _Log(source, VerifierKey.parse(vkey), kept_head)
    checks: list[Check] = []
    failed = 0
    for number, step in enumerate(STEPS, start=1):
        passed, detail = False, f"not run: check {failed} failed"
        if not failed:
            passed, detail = _outcome(log, step)
            failed = 0 if passed else number
        checks.append(
            Check(number=number, name=step.name, passed=passed, detail=detail, claim=step.claim)
        )
    head_holds = checks[0].passed
    return LogReport(
        origin=log.key.name,
        size=log.head.size if head_holds else 0,
        head=log.head.note if head_holds else "",
        checks=tuple(checks),
        warnings=tuple(_warnings(log)) if all(check.passed for check in checks) else (),
    )


def _outcome(log: _Log, step: "_Step") -> tuple[bool, str]:
    try:
        faults = list(step.faults(log))
    except WorkbenchError as error:
        faults = [error.message]
    if not faults:
        return True, step.extent(log)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return False, f"{faults[0]}{more}"


def _head_faults(log: _Log) -> Iterator[str]:
    if log.head.size == 0:
        yield "the signed head covers no entry"


def _size_faults(log: _Log) -> Iterator[str]:
    sequences = [stored.sequence for stored in log.records]
    gaps = (at for at, sequence in enumerate(sequences) if at != sequence)
    missing = next(gaps, len(sequences))
    if missing < log.head.size:
        yield f"entry {missing} is missing: the signed head covers {log.head.size} entries"


def _leaf_faults(log: _Log) -> Iterator[str]:
    def fault(index: int, stored: StoredEntry) -> str:
        return "" if log.leaves[index] == stored.leaf else "its bytes do not give its leaf hash"

    return log.each(fault)


def _root_faults(log: _Log) -> Iterator[str]:
    if log.roots[-1] != log.head.root:
        yield f"the root of the {log.head.size} entries is not the one that was signed"


def _kept_faults(log: _Log) -> Iterator[str]:
    if log.kept is None:
        return
    kept = verify_head(log.kept, log.key)
    if kept.size > log.head.size:
        yield f"you kept a head over {kept.size} entries, the log now has {log.head.size}"
    elif log.roots[kept.size] != kept.root:
        yield f"the first {kept.size} entries are not those of the head that you kept"


def _earlier_head_faults(log: _Log) -> Iterator[str]:
    before = -1
    for note in log.notes:
        head = verify_head(note, log.key)
        if not before < head.size <= log.head.size:
            yield f"the head of size {head.size} is out of order"
        elif log.roots[head.size] != head.root:
            yield f"the head of size {head.size} was signed over other entries"
        before = head.size


def _holding_faults(log: _Log) -> Iterator[str]:
    yield from log.source.faults(log.leaves)


def _envelope_faults(log: _Log) -> Iterator[str]:
    def fault(_: int, stored: StoredEntry) -> str:
        envelope = read_envelope(stored.envelope)
        if envelope.log != log.key.name:
            return f"it belongs to log {envelope.log!r}"
        for column in ("id", "kind", "subject"):
            if getattr(stored, column) not in (None, getattr(envelope, column)):
                return f"the store's index says {column} {getattr(stored, column)!r}"
        return ""

    return log.each(fault)


def _body_hash_faults(log: _Log) -> Iterator[str]:
    def fault(index: int, stored: StoredEntry) -> str:
        if len(stored.salt) != SALT_SIZE:
            return f"its salt has {len(stored.salt)} bytes, not {SALT_SIZE}"
        same = body_hash(stored.salt, stored.body) == log.envelopes[index].body_hash
        return "" if same else "its body is not the one that was hashed"

    return log.each(fault)


def _body_faults(log: _Log) -> Iterator[str]:
    def fault(index: int, stored: StoredEntry) -> str:
        read_body(log.envelopes[index].kind, stored.body)
        return ""

    return log.each(fault)


def _genesis_faults(log: _Log) -> Iterator[str]:
    if log.genesis.log_key != str(log.key):
        yield f"entry 0 (genesis) names the key {log.genesis.log_key}, not {log.key}"
    for entry in log.entries[1:]:
        if entry.kind == Genesis.kind:
            yield f"entry {entry.sequence} (genesis {entry.id}) is a second first entry"


def _id_faults(log: _Log) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, envelope in enumerate(log.envelopes):
        first = seen.setdefault(envelope.id, index)
        if first != index:
            yield f"{name_of(log.records[index])}: entry {first} has the same id"


def _ref_faults(log: _Log) -> Iterator[str]:
    positions = {leaf.hex(): index for index, leaf in enumerate(log.leaves)}

    def fault(index: int, _: StoredEntry) -> str:
        refs = log.envelopes[index].refs
        late = [ref for ref in refs if positions.get(ref, index) >= index]
        return f"it refers to {late[0]}, which is no earlier entry" if late else ""

    return log.each(fault)


def _signature_faults(log: _Log) -> Iterator[str]:
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


def _order_faults(log: _Log) -> Iterator[str]:
    return order_faults(log.entries)


def _anchor_faults(log: _Log) -> Iterator[str]:
    return anchor_faults(log.entries, log.roots, log.key)


def _seed_faults(log: _Log) -> Iterator[str]:
    return seed_faults(log.entries)


def _warnings(log: _Log) -> Iterator[str]:
    if log.kept is None:
        yield (
            "no kept head was given: that the log was cut back to an older head, or that others "
            "were shown another log, cannot be excluded"
        )
    for before, after in zip(log.entries, log.entries[1:], strict=False):
        if after.time < before.time:
            yield (
                f"entry {after.sequence} ({after.kind} {after.id}) says {after.time}, "
                f"the one before it {before.time}: the clock went back"
            )


def _kept_extent(log: _Log) -> str:
    return "none was given" if log.kept is None else f"{parse_head(log.kept).size} entries kept"


def _signed_extent(log: _Log) -> str:
    return f"{sum(BODIES[envelope.kind].signed for envelope in log.envelopes)} signed entries"


def _confirmatory_extent(log: _Log) -> str:
    return f"{sum(is_confirmatory(entry) for entry in log.entries)} confirmatory entries"


def _kind_extent(kind: str) -> Callable[[_Log], str]:
    return lambda log: f"{sum(entry.kind == kind for entry in log.entries)} of kind {kind}"


def _entries_extent(log: _Log) -> str:
    return f"{log.head.size} entries"


@dataclass(frozen=True, kw_only=True)
class _Step:
    """How one check is made. The order of `STEPS` is the numbering."""

    name: str
    claim: str
    faults: Callable[[_Log], Iterator[str]]
    extent: Callable[[_Log], str] = _entries_extent
    """What was checked, so that a check of nothing is seen to be one."""


STEPS = (
    _Step(
        name="signed head",
        claim="The log's key signed the newest head.",
        faults=_head_faults,
    ),
    _Step(
        name="all entries",
        claim="Every entry that the head covers is there.",
        faults=_size_faults,
    ),
    _Step(
        name="leaf hashes",
        claim="No byte of an envelope differs from its recorded hash.",
        faults=_leaf_faults,
    ),
    _Step(
        name="Merkle root",
        claim="The entries are exactly those that were signed, in order.",
        faults=_root_faults,
    ),
    _Step(
        name="kept head",
        claim="Nothing that you saw before was changed or removed.",
        faults=_kept_faults,
        extent=_kept_extent,
    ),
    _Step(
        name="earlier heads",
        claim="Every head that was kept with the log is of this same history.",
        faults=_earlier_head_faults,
        extent=lambda log: f"{len(log.notes)} heads",
    ),
    _Step(
        name="indices and tiles",
        claim="What serves the entries agrees with them.",
        faults=_holding_faults,
    ),
    _Step(
        name="envelopes",
        claim="Each envelope is canonical, complete and of this log.",
        faults=_envelope_faults,
    ),
    _Step(
        name="body hashes",
        claim="Each body is the one that its envelope binds.",
        faults=_body_hash_faults,
    ),
    _Step(
        name="bodies",
        claim="Each body is canonical and has the fields of its kind.",
        faults=_body_faults,
    ),
    _Step(
        name="first entry",
        claim="The log names the keys that speak for it.",
        faults=_genesis_faults,
    ),
    _Step(
        name="identifiers",
        claim="No identifier stands for two entries.",
        faults=_id_faults,
    ),
    _Step(
        name="references",
        claim="Each entry rests on earlier entries only.",
        faults=_ref_faults,
    ),
    _Step(
        name="author signatures",
        claim="The author signed what only an author may say.",
        faults=_signature_faults,
        extent=_signed_extent,
    ),
    _Step(
        name="order of conduct",
        claim="What was done under a registration came after it.",
        faults=_order_faults,
        extent=_confirmatory_extent,
    ),
    _Step(
        name="anchors",
        claim="The head from which seeds derive covers the registration.",
        faults=_anchor_faults,
        extent=_kind_extent(Anchor.kind),
    ),
    _Step(
        name="seeds",
        claim="No confirmatory run began before its registration was signed.",
        faults=_seed_faults,
        extent=_kind_extent(RunStarted.kind),
    ),
)
