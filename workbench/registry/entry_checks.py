"""The checks of the entries themselves: envelopes, bodies, keys, identifiers, references."""

from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from operator import gt

from pydantic import TypeAdapter, ValidationError

from workbench.errors import IntegrityError
from workbench.registry.checks import Examination
from workbench.registry.counts import entries_of
from workbench.registry.embargo import Hole
from workbench.registry.entries import (
    BODIES,
    NEVER_WITHHELD,
    Body,
    Embargo,
    Genesis,
    Hidden,
    Redaction,
    Reveal,
)
from workbench.registry.evidence import Batch, Evidence, Fields
from workbench.registry.log import (
    MAX_ENVELOPE_BYTES,
    SALT_SIZE,
    body_hashes,
    name_of,
    read_body,
    read_outline,
    signed_text,
)
from workbench.registry.notes import VerifierKey, verify_signature
from workbench.registry.plain import plain_envelopes, plain_values

_MAX_WARNINGS = 20
_ID_PARTS = 64


class EnvelopeCheck(Examination):
    """Envelopes are canonical, complete, of this log and indexed as they are."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._time_before = ""
        self._backward = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Read the envelopes, and yield the entries whose envelope is wrong."""
        envelopes = batch.columns.envelopes
        fits = max(map(len, envelopes), default=0) <= MAX_ENVELOPE_BYTES
        plain = plain_envelopes(envelopes) if fits else None
        rows = [] if plain is None else plain
        if plain is None:
            yield from self._read_each(batch, rows)
        if len(rows) == len(envelopes):
            batch.fields = Fields(*zip(*rows, strict=True))
            yield from self._fitting(batch)
            self._look_at_times(batch)

    def close(self) -> Iterator[str]:
        """Say how many warnings were left out."""
        if self._backward > _MAX_WARNINGS:
            left_out = self._backward - _MAX_WARNINGS
            self.log.warnings.append(f"the clock went back at {left_out} more entries")
        return iter(())

    def _read_each(self, batch: Batch, rows: list[tuple[str, ...]]) -> Iterator[str]:
        for at, envelope in enumerate(batch.columns.envelopes):
            try:
                read = read_outline(envelope)
            except IntegrityError as error:
                yield f"{batch.name(at)}: {error.message}"
                continue
            refs = ",".join(f'"{ref}"' for ref in read.refs)
            head = (read.actor, read.body_hash, read.id, read.kind, read.log)
            rows.append((*head, refs, read.subject, read.time))

    def _fitting(self, batch: Batch) -> Iterator[str]:
        """Yield the entries of another log, and those that the store's index has otherwise."""
        origin, fields = self.log.key.name, batch.fields
        if set(fields.logs) != {origin}:
            for at, log in enumerate(fields.logs):
                if log != origin:
                    yield f"{batch.name(at)}: it belongs to log {log!r}"
        if batch.columns.indices:
            told = list(zip(fields.ids, fields.kinds, fields.subjects, strict=True))
            for at, index in enumerate(batch.columns.indices):
                if index != told[at] and index != (None, None, None):
                    yield f"{batch.name(at)}: {_index_fault(index, told[at])}"

    def _look_at_times(self, batch: Batch) -> None:
        times = [self._time_before, *batch.fields.times]
        self._time_before = times[-1]
        if any(map(gt, times, times[1:])):
            for at, (before, time) in enumerate(pairwise(times)):
                if time < before:
                    self._warn(f"{batch.name(at)} says {time}, the one before it {before}")

    def _warn(self, text: str) -> None:
        self._backward += 1
        if self._backward <= _MAX_WARNINGS:
            self.log.warnings.append(f"{text}: the clock went back")


class BodyHashCheck(Examination):
    """Bodies are those that the envelopes bind."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose body or salt is not the one that was hashed."""
        columns = batch.columns
        digests = body_hashes(columns.salts, columns.bodies)
        bound = batch.fields.body_hashes
        if digests == list(bound) and set(map(len, columns.salts)) == {SALT_SIZE}:
            return
        for at, salt in enumerate(columns.salts):
            if not salt and not columns.bodies[at]:
                continue
            if len(salt) != SALT_SIZE:
                yield f"{batch.name(at)}: its salt has {len(salt)} bytes, not {SALT_SIZE}"
            elif digests[at] != bound[at]:
                yield f"{batch.name(at)}: its body is not the one that was hashed"


_MOST_TOLD = 20


class BodyCheck(Examination):
    """Bodies are canonical and fit their kinds; the record says why one is not here."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._holes: list[Hole] = []
        self._adapters: dict[str, TypeAdapter[list[Body]]] = {}

    def take(self, batch: Batch) -> Iterator[str]:
        """Read the bodies, and yield the entries whose body is malformed."""
        plain = self._plain_bodies(batch)
        if plain is None:
            yield from self._read_each(batch)
        else:
            batch.bodies.extend(plain)
        for at in batch.of_kinds(_WITHHOLDING_KINDS):
            self.log.withholding.follow(batch.entry(at))

    def close(self) -> Iterator[str]:
        """Yield the entries whose body is missing without an account."""
        for hole in self._holes:
            if not self.log.withholding.accounts_for(hole):
                yield (
                    f"entry {hole.sequence} ({hole.kind} {hole.leaf[:12]}…): its body is not here, "
                    "and no embargo or redaction accounts for it"
                )
        erased = [hole for hole in self._holes if self.log.withholding.redacts(hole)]
        self.log.warnings += [
            f"the {hole.kind} of {hole.subject} (entry {hole.sequence}) was redacted: what it said "
            "cannot be checked any more"
            for hole in erased[:_MOST_TOLD]
        ]
        if len(erased) > _MOST_TOLD:
            self.log.warnings.append(f"{len(erased) - _MOST_TOLD} more entries were redacted")

    def extent(self) -> str:
        """Return how many bodies were read, and why others were not."""
        redacted = sum(self.log.withholding.redacts(hole) for hole in self._holes)
        parts = [entries_of(self.log.head.size - len(self._holes))]
        if redacted:
            parts.append(f"{redacted} redacted")
        if len(self._holes) > redacted:
            parts.append(f"{len(self._holes) - redacted} under embargo")
        return ", ".join(parts)

    def _plain_bodies(self, batch: Batch) -> list[Body] | None:
        """Return the bodies where all of them are here and plain; None where one is not."""
        values = plain_values(batch.columns.bodies)
        if values is None or not batch.present <= BODIES.keys():
            return None
        bodies: list[Body] = [_HIDDEN] * len(values)
        try:
            for kind in batch.present:
                places = batch.of_kinds((kind,))
                found = self._adapter(kind).validate_python([values[at] for at in places])
                for at, body in zip(places, found, strict=True):
                    bodies[at] = body
        except ValidationError:
            return None
        return bodies

    def _adapter(self, kind: str) -> TypeAdapter[list[Body]]:
        if kind not in self._adapters:
            self._adapters[kind] = TypeAdapter(list[BODIES[kind]])  # type: ignore[valid-type]
        return self._adapters[kind]

    def _read_each(self, batch: Batch) -> Iterator[str]:
        for at, body in enumerate(batch.columns.bodies):
            batch.bodies.append(_HIDDEN)
            if not body and not batch.columns.salts[at]:
                kind = batch.fields.kinds[at]
                if kind in NEVER_WITHHELD:
                    yield f"{batch.name(at)}: its body is not here, and a {kind} is never withheld"
                else:
                    self._add_hole(batch, at)
                continue
            try:
                batch.bodies[at] = read_body(batch.fields.kinds[at], body)
            except IntegrityError as error:
                yield f"{batch.name(at)}: {error.message}"

    def _add_hole(self, batch: Batch, at: int) -> None:
        self._holes.append(
            Hole(
                sequence=batch.start + at,
                leaf=batch.leaves[at].hex(),
                kind=batch.fields.kinds[at],
                subject=batch.fields.subjects[at],
            )
        )


class GenesisCheck(Examination):
    """The first entry names the log's key, and is the only one of its kind."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield a first entry of another kind or key, and a second one."""
        if batch.start == 0:
            first = batch.bodies[0]
            if not isinstance(first, Genesis):
                raise IntegrityError(f"entry 0 is a {batch.fields.kinds[0]}, not the genesis")
            for vkey in (first.log_key, first.author_key):
                fault = _key_fault(vkey)
                if fault:
                    yield f"entry 0 (genesis {batch.fields.ids[0]}): {fault}"
        for at in batch.of_kinds((Genesis.kind,)):
            if batch.start + at:
                identifier = batch.fields.ids[at]
                yield f"entry {batch.start + at} (genesis {identifier}) is a second first entry"

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
        for value in map(hash, batch.fields.ids):
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
        places = [at for at, refs in enumerate(batch.fields.refs, batch.start) for _ in refs[::67]]
        refs = ",".join(filter(None, batch.fields.refs)).replace('"', "").split(",")
        found = self.log.tree.positions(map(bytes.fromhex, refs if places else ()))
        for at, ref, position in zip(places, refs, found, strict=bool(places)):
            if not 0 <= position < at:
                name = batch.name(at - batch.start)
                yield f"{name}: it refers to {ref}, which is no earlier entry"


class SignatureCheck(Examination):
    """The author signed what only an author may say, and every change of the keys holds."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._signed = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose signature is missing, wrong or out of place."""
        places = set(batch.of_kinds(_SIGNED_KINDS))
        self._signed += len(places)
        if any(batch.columns.signatures):
            places.update(at for at, text in enumerate(batch.columns.signatures) if text)
        for at in sorted(places):
            fault = self._fault(batch, at)
            if fault:
                yield f"{batch.name(at)}: {fault}"

    def _fault(self, batch: Batch, at: int) -> str:
        position, signature = batch.start + at, batch.columns.signatures[at]
        if batch.fields.kinds[at] not in _SIGNED_KINDS:
            return "it carries a signature, its kind has none"
        if position in self.log.broken:
            return self.log.broken[position]
        if not signature:
            return "the author's signature is missing"
        text = signed_text(self.log.key.name, batch.leaves[at].hex())
        try:
            verify_signature(text, signature, self.log.chain.author_at(position))
        except IntegrityError as error:
            return error.message
        return ""

    def extent(self) -> str:
        """Return how many entries are signed."""
        return f"{self._signed} signed entries"


_WITHHOLDING_KINDS = frozenset(body.kind for body in (Embargo, Reveal, Redaction))
_SIGNED_KINDS = frozenset(kind for kind, body in BODIES.items() if body.signed)
_HIDDEN = Hidden()


def _key_fault(vkey: str) -> str:
    try:
        VerifierKey.parse(vkey)
    except IntegrityError as error:
        return error.message
    return ""


def _index_fault(index: tuple[str | None, ...], told: tuple[str, ...]) -> str:
    columns = zip(("id", "kind", "subject"), index, told, strict=True)
    wrong = [f"{name} {found!r}" for name, found, true in columns if found != true]
    return f"the store's index says {wrong[0]}"
