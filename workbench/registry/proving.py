"""One entry of a log proved to somebody who has a single file and the log's verifier key.

The file is a C2SP tlog-proof. Its extra data carries the entry's envelope, body and signature, and
with their own paths the entries that say which keys speak for the log: its first and its rotations.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from workbench.canonical import Json, canonical_json, parse_json
from workbench.errors import IntegrityError, NotFoundError, WorkbenchError
from workbench.registry import proofs
from workbench.registry.cosignatures import Cosignature, CosignerKey, cosignatures_by
from workbench.registry.entries import (
    BODIES,
    Amendment,
    Genesis,
    Hidden,
    KeyRotation,
    Record,
    Registration,
    Verdict,
)
from workbench.registry.heads import SignedHead, parse_head, verify_head
from workbench.registry.log import (
    Entry,
    HashSource,
    StoredEntry,
    read_entry,
    signed_text,
    timestamp,
)
from workbench.registry.merkle import leaf_hash, verify_inclusion
from workbench.registry.notes import VerifierKey, from_base64, to_base64, verify_signature
from workbench.registry.proof_file import LogProof
from workbench.registry.rotation import KeyChain


class ProvableLog(HashSource, Protocol):
    """A log whose entries and tree can be read."""

    @property
    def origin(self) -> str:
        """The log's identity."""

    def records(self) -> Iterator[StoredEntry]:
        """Yield the entries as bytes, in order."""


class Carried(Record):
    """An entry as a proof carries it; each text stands for its UTF-8 bytes, exactly."""

    envelope: str
    body: str = ""
    """Empty where the body is withheld or redacted."""
    salt: str = ""
    """Hexadecimal."""
    signature: str = ""


class Supporting(Carried):
    """An entry that names a key, with its own way up to the same head."""

    index: int
    path: list[str]
    """Base64, lowest sibling first."""


class Extra(Record):
    """What a proof carries beside the path."""

    entry: Carried
    keys: list[Supporting]
    """The first entry of the log and every key rotation that the head covers, in order."""
    v: Literal[1] = 1


def prove(log: ProvableLog, sequence: int, head_note: str) -> LogProof:
    """Return the proof of an entry under a head, to be verified without anything of the log.

    Args:
        log: published files or a store.
        sequence: position of the entry in the log.
        head_note: a signed head of the log that covers the entry, with its cosignatures.

    Raises:
        NotFoundError: the head covers no such entry.
        IntegrityError: what the log holds does not give the proof.
    """
    head = parse_head(head_note)
    if not 0 <= sequence < head.size:
        raise NotFoundError(
            f"entry {sequence} is not under the head over {head.size} entries",
            remedy="workbench publish",
        )
    wanted = list(_needed(log, sequence, head.size))
    entry = next(stored for stored in wanted if stored.sequence == sequence)
    keys = [stored for stored in wanted if _names_key(stored, log.origin)]
    extra = Extra(
        entry=Carried(**_texts(entry)),
        keys=[
            Supporting(**_texts(stored), index=stored.sequence, path=path)
            for stored in keys
            for path in [[to_base64(h) for h in proofs.inclusion(log, stored.sequence, head.size)]]
        ],
    )
    proof = LogProof(
        index=sequence,
        path=tuple(proofs.inclusion(log, sequence, head.size)),
        head=head_note,
        extra=canonical_json(extra.model_dump(mode="python")),
    )
    verify_inclusion(entry.leaf, sequence, head.size, proof.path, head.root)
    return proof


def _needed(log: ProvableLog, sequence: int, size: int) -> Iterator[StoredEntry]:
    for stored in log.records():
        if stored.sequence >= size:
            return
        if stored.sequence == sequence or _names_key(stored, log.origin):
            yield stored


def _names_key(stored: StoredEntry, origin: str) -> bool:
    # The kind stands in the envelope in one spelling only: it is canonical JSON.
    if stored.sequence == 0:
        return True
    marked = f'"kind":"{KeyRotation.kind}"'.encode()
    return marked in stored.envelope and read_entry(stored, origin).kind == KeyRotation.kind


def _texts(stored: StoredEntry) -> dict[str, str]:
    return {
        "envelope": stored.envelope.decode(),
        "body": stored.body.decode(),
        "salt": stored.salt.hex(),
        "signature": stored.signature,
    }


@dataclass(frozen=True, kw_only=True)
class ProofStep:
    """One numbered step of checking a proof and how it went."""

    number: int
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class ProofReport:
    """What a proof file shows to somebody who trusts the log's verifier key, and nothing else."""

    steps: tuple[ProofStep, ...]
    entry: Entry | None
    """None unless every step passed."""
    cosignatures: tuple[Cosignature, ...]
    """By the witnesses that the reader trusts, verified."""
    head: SignedHead | None

    @property
    def passed(self) -> bool:
        """Whether every step passed."""
        return all(step.passed for step in self.steps)

    def values(self) -> dict[str, Json]:
        """Return the report for another program."""
        entry, head = self.entry, self.head
        return {
            "passed": self.passed,
            "steps": [asdict(step) for step in self.steps],
            "head": head and {"origin": head.origin, "size": head.size, "note": head.note},
            "entry": entry
            and {
                "sequence": entry.sequence,
                "leaf": entry.leaf,
                "kind": entry.kind,
                "subject": entry.subject,
                "time": entry.time,
                "body": parse_json(entry.body_bytes) if entry.body_bytes else None,
            },
            "cosignatures": [
                {"witness": str(seen.witness), "time": timestamp(seen.moment)}
                for seen in self.cosignatures
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the report, one line a step, the outcome last."""
        for step in self.steps:
            yield f"{'ok  ' if step.passed else 'FAIL'} p{step.number}  {step.name}: {step.detail}"
        if self.passed and self.entry is not None and self.head is not None:
            entry = self.entry
            yield from _says(entry)
            yield (
                f"PROVED    {entry.kind} of {entry.subject} is entry {entry.sequence} of "
                f"{self.head.origin} ({self.head.size} entries)"
            )
            if not self.cosignatures:
                yield (
                    "note      no witness that you named cosigned this head: the log may show "
                    "others another one, and when it was signed is not proved"
                )
        else:
            failed = next(step for step in self.steps if not step.passed)
            yield f"FAILED    p{failed.number}, {failed.name}: {failed.detail}"


def _says(entry: Entry) -> Iterator[str]:
    """Yield what a promise or a verdict says, where the proof carries it."""
    body = entry.body
    if isinstance(body, Registration | Amendment):
        frozen: dict[str, Any] = body.frozen if isinstance(body.frozen, dict) else {}
        yield f"title     {_printable(frozen.get('title', entry.subject))}"
        decision, measures = frozen.get("decision") or {}, frozen.get("measures") or {}
        metric = (measures.get("primary") or {}).get("metric", "")
        claims = [(decision.get("hypothesis"), decision.get("claim"), metric)]
        claims += [
            (one.get("hypothesis"), one.get("claim"), one.get("metric"))
            for one in decision.get("family") or ()
        ]
        for hypothesis, claim, measured in claims:
            yield f"claim     {_printable(f'{hypothesis}: {claim} on {measured}')}"
        yield "later     amendments, a withdrawal or a verdict after it are not in this proof"
    elif isinstance(body, Verdict):
        claim = f"{body.hypothesis}: {body.claim} on {body.metric}"
        yield f"verdict   {_printable(claim)} is {body.outcome}"
    elif isinstance(body, Hidden):
        yield "hidden    its content: what it says is not proved"


def _printable(text: object) -> str:
    """Return a stranger's text as one line that cannot steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def check_proof(text: str, *, vkey: str, witnesses: Iterable[str] = ()) -> ProofReport:
    """Check a proof file by itself: no log, no store and no network are needed.

    Args:
        text: content of the ``.tlog-proof`` file.
        vkey: the log's verifier key, now or before a rotation, from a place that its keeper does
            not control.
        witnesses: verifier keys (type 4) of the witnesses that the reader trusts.

    Raises:
        IntegrityError: one of the given keys is malformed.
    """
    keys = [CosignerKey.parse(witness) for witness in witnesses]
    proof = _Checked(text, VerifierKey.parse(vkey), keys)
    steps: list[ProofStep] = []
    for number, (name, check) in enumerate(_STEPS, start=1):
        try:
            passed, detail = True, check(proof)
        except WorkbenchError as error:
            passed, detail = False, error.message
        steps.append(ProofStep(number=number, name=name, passed=passed, detail=detail))
        if not passed:
            return ProofReport(steps=tuple(steps), entry=None, cosignatures=(), head=None)
    return ProofReport(
        steps=tuple(steps),
        entry=proof.entry,
        cosignatures=tuple(proof.cosignatures),
        head=proof.head,
    )


class _Checked:
    """A proof under check: each level is read once, and only when the one below it held."""

    def __init__(self, text: str, key: VerifierKey, witnesses: list[CosignerKey]) -> None:
        self._text = text
        self._key = key
        self._witnesses = witnesses

    @cached_property
    def proof(self) -> LogProof:
        return LogProof.parse(self._text)

    @cached_property
    def extra(self) -> Extra:
        try:
            value = parse_json(self.proof.extra)
            canonical_json(value)  # refuses what UTF-8 cannot carry
            return Extra.model_validate(value)
        except ValueError as error:
            shown = " ".join(str(error).split())[:200]
            raise IntegrityError(
                f"its extra data is not what `workbench proof` writes: {shown}"
            ) from error

    @cached_property
    def chain(self) -> KeyChain:
        """The log's keys, as its first entry and its rotations name them."""
        chain = KeyChain(self._key.name)
        for carried in self.extra.keys:
            stored = _stored(carried, carried.index)
            entry = read_entry(stored, self._key.name)
            if isinstance(entry.body, Genesis) and entry.sequence != 0:
                raise IntegrityError(f"entry {entry.sequence} cannot be the first")
            chain.follow(entry.sequence, entry.body)
        return chain

    @cached_property
    def head(self) -> SignedHead:
        return verify_head(self.proof.head, self.chain.log)

    @cached_property
    def entry(self) -> Entry:
        return read_entry(_stored(self.extra.entry, self.proof.index), self._key.name)

    @cached_property
    def cosignatures(self) -> list[Cosignature]:
        found = [c for key in self._witnesses for c in cosignatures_by(self.proof.head, key)]
        return sorted(found, key=lambda cosignature: cosignature.moment)

    def check_head(self) -> str:
        if not self.chain.knows(str(self._key)):
            raise IntegrityError(f"the log that it is about was never signed by {self._key}")
        return f"{self.head.size} entries of {self.head.origin}"

    def check_inclusion(self) -> str:
        self.proof.verify(leaf_hash(self.extra.entry.envelope.encode()), self.chain.log)
        return f"entry {self.proof.index} is under that head"

    def check_keys(self) -> str:
        for carried in self.extra.keys:
            leaf = leaf_hash(carried.envelope.encode())
            path = [_hash(text) for text in carried.path]
            verify_inclusion(leaf, carried.index, self.head.size, path, self.head.root)
        rotations = len(self.extra.keys) - 1
        return f"named by the first entry, {rotations} rotations"

    def check_body(self) -> str:
        hidden = (
            "withheld: the envelope binds it by its hash" if self.entry.body_bytes == b"" else ""
        )
        return hidden or f"{self.entry.kind} of {self.entry.subject}, {self.entry.time}"

    def check_author(self) -> str:
        if not BODIES[self.entry.kind].signed:
            return f"a {self.entry.kind} carries none"
        author = self.chain.author_at(self.entry.sequence)
        text = signed_text(self._key.name, self.entry.leaf)
        verify_signature(text, self.entry.signature, author)
        return f"by {author.name}"

    def check_witnesses(self) -> str:
        if not self._witnesses:
            return "no witness was named"
        seen = [f"{c.witness.name} at {timestamp(c.moment)}" for c in self.cosignatures]
        return "; ".join(seen) or "none of those that were named cosigned this head"


_STEPS: tuple[tuple[str, Callable[[_Checked], str]], ...] = (
    ("form", lambda proof: f"{len(proof.proof.path)} hashes, {len(proof.extra.keys)} key entries"),
    ("signed head", _Checked.check_head),
    ("inclusion", _Checked.check_inclusion),
    ("keys of the log", _Checked.check_keys),
    ("entry and body", _Checked.check_body),
    ("author signature", _Checked.check_author),
    ("witnesses", _Checked.check_witnesses),
)


def _stored(carried: Carried, sequence: int) -> StoredEntry:
    envelope = carried.envelope.encode()
    try:
        salt = bytes.fromhex(carried.salt)
    except ValueError as error:
        raise IntegrityError(f"the salt {carried.salt!r} is not hexadecimal") from error
    return StoredEntry(
        sequence=sequence,
        leaf=leaf_hash(envelope),
        envelope=envelope,
        salt=salt,
        body=carried.body.encode(),
        signature=carried.signature,
    )


def _hash(text: str) -> bytes:
    try:
        return from_base64(text)
    except ValueError as error:
        raise IntegrityError(f"a hash of the proof is not base64: {text[:60]!r}") from error
