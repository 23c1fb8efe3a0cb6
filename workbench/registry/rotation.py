"""Which keys speak for a log at each of its entries: the first entry's, then those rotated to.

An entry is signed by the author key in force before it, a head over n entries by the log key in
force after them, so that the first head over a rotation of the log key carries the new signature.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from workbench.errors import IntegrityError
from workbench.registry.entries import Body, Genesis, KeyRotation
from workbench.registry.log import Entry, LogSource
from workbench.registry.notes import SigningKey, VerifierKey, verify_signature

Role: TypeAlias = Literal["log", "author"]
Why: TypeAlias = Literal["scheduled", "owner_change", "compromise"]


def rotation_text(origin: str, role: str, old_key: str, new_key: str) -> str:
    """Return what the old and the new key both sign of a rotation.

    Args:
        origin: the log's identity.
        role: ``log`` or ``author``.
        old_key: C2SP verifier key that is given up.
        new_key: C2SP verifier key that takes its place.
    """
    return f"workbench rotation v1\n{origin}\n{role}\n{old_key}\n{new_key}\n"


def rotation_body(
    origin: str, role: Role, *, old: SigningKey, new: SigningKey, why: Why, reason: str
) -> KeyRotation:
    """Return the body of the entry that replaces one key by another, signed by both."""
    old_key, new_key = str(old.verifier), str(new.verifier)
    text = rotation_text(origin, role, old_key, new_key)
    return KeyRotation(
        role=role,
        old_key=old_key,
        new_key=new_key,
        old_signature=old.signature(text),
        new_signature=new.signature(text),
        why=why,
        reason=reason,
    )


class KeyChain:
    """The keys in force, followed along a log from its first entry and verified at each step."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._keys: dict[Role, list[tuple[int, VerifierKey]]] = {"log": [], "author": []}

    @property
    def log(self) -> VerifierKey:
        """The log key in force after what was followed: it signs the newest head.

        Raises:
            IntegrityError: the first entry was not followed yet.
        """
        return self._newest("log")

    @property
    def author(self) -> VerifierKey:
        """The author key in force after what was followed: it signs the next entry.

        Raises:
            IntegrityError: the first entry was not followed yet.
        """
        return self._newest("author")

    def follow(self, sequence: int, body: Body) -> None:
        """Go on by one entry; only a genesis and a key rotation matter, others may be left out.

        Raises:
            IntegrityError: the rotation does not replace the key in force, is not signed by both
                keys, or comes back to a key that was given up. The chain stays as it was.
        """
        if isinstance(body, Genesis):
            self._begin(sequence, body)
        elif isinstance(body, KeyRotation):
            new = self._verified(body)
            self._keys[body.role].append((sequence, new))

    def log_at(self, size: int) -> VerifierKey:
        """Return the log key that signs a head over the first ``size`` entries.

        Raises:
            IntegrityError: the first entry was not followed yet.
        """
        # A head over no entry can only be signed by the key that the first entry will name.
        return self._before("log", max(size, 1))

    def author_at(self, sequence: int) -> VerifierKey:
        """Return the author key that signs the entry at this position: the one before it.

        Raises:
            IntegrityError: the first entry was not followed yet.
        """
        # The first entry is announced by the key that it names.
        return self._before("author", max(sequence, 1))

    def history(self, role: Role) -> tuple[tuple[int, VerifierKey], ...]:
        """Return each key of a role with the sequence of the entry that put it in force."""
        return tuple(self._keys[role])

    @property
    def log_keys(self) -> tuple[VerifierKey, ...]:
        """Every log key so far, the first entry's first."""
        return tuple(key for _, key in self._keys["log"])

    def knows(self, vkey: str) -> bool:
        """Return whether this is the log's key, now or before a rotation."""
        return any(str(key) == vkey.strip() for _, key in self._keys["log"])

    def knows_author(self, vkey: str) -> bool:
        """Return whether this is the author's key, now or before a rotation."""
        return any(str(key) == vkey.strip() for _, key in self._keys["author"])

    def _begin(self, sequence: int, body: Genesis) -> None:
        if self._keys["log"]:
            raise IntegrityError(f"entry {sequence} is a second first entry")
        named: tuple[tuple[Role, str], ...] = (("log", body.log_key), ("author", body.author_key))
        for role, vkey in named:
            self._keys[role] = [(sequence, VerifierKey.parse(vkey))]

    def _verified(self, body: KeyRotation) -> VerifierKey:
        old = self._newest(body.role)
        if body.old_key != str(old):
            raise IntegrityError(f"it replaces {body.old_key}, the {body.role} key is {old}")
        new = VerifierKey.parse(body.new_key)
        if str(new) != body.new_key or new.name != old.name:
            raise IntegrityError(f"the new {body.role} key {body.new_key} is not of {old.name!r}")
        if any(new.public == key.public for keys in self._keys.values() for _, key in keys):
            raise IntegrityError(f"the new {body.role} key {body.new_key} was in use before")
        text = rotation_text(self._origin, body.role, body.old_key, body.new_key)
        verify_signature(text, body.old_signature, old)
        verify_signature(text, body.new_signature, new)
        return new

    def _newest(self, role: Role) -> VerifierKey:
        if not self._keys[role]:
            raise IntegrityError("the log's first entry, which names its keys, is missing")
        return self._keys[role][-1][1]

    def _before(self, role: Role, position: int) -> VerifierKey:
        earlier = [key for sequence, key in self._keys[role] if sequence < position]
        return earlier[-1] if earlier else self._newest(role)


def chain_of(source: LogSource) -> KeyChain:
    """Return the key chain of a log, verified.

    Raises:
        IntegrityError: the first entry is missing, or a rotation is not what it must be.
    """
    kinds = (Genesis.kind, KeyRotation.kind)
    return followed_chain(source.origin, (e for kind in kinds for e in source.entries(kind=kind)))


def followed_chain(origin: str, entries: Iterable[Entry]) -> KeyChain:
    """Return the chain along these entries, the first entry of the log before its rotations.

    Raises:
        IntegrityError: one of them is no rotation of the keys in force; names the entry.
    """
    chain = KeyChain(origin)
    for entry in entries:
        try:
            chain.follow(entry.sequence, entry.body)
        except IntegrityError as error:
            name = f"entry {entry.sequence} ({entry.kind} {entry.id})"
            raise IntegrityError(f"{name}: {error.message}") from error
    return chain
