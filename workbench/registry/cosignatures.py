"""Cosignatures of witnesses (C2SP tlog-cosignature, Ed25519): at this time, this was the log.

A witness who cosigns a head says that it is consistent with every head that it cosigned before, and
the largest of this log that it has seen.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from workbench.errors import IntegrityError
from workbench.registry.notes import (
    COSIGNATURE,
    ID_SIZE,
    accepts,
    from_base64,
    key_id,
    parse_private,
    parse_vkey,
    private_text,
    public_key,
    refuse_key_name,
    split_note,
    to_base64,
    vkey_text,
)

_TIME_SIZE = 8
_MOST_SECONDS = 253_402_300_799
"""The last second of the year 9999: what a calendar can show."""


@dataclass(frozen=True, kw_only=True)
class CosignerKey:
    """The public key of a witness, with the name that its cosignatures carry."""

    name: str
    public: bytes
    """32 bytes of an Ed25519 key."""

    @property
    def key_id(self) -> bytes:
        """First four bytes of SHA-256(name ‖ newline ‖ 0x04 ‖ key)."""
        return key_id(self.name, COSIGNATURE, self.public)

    def __str__(self) -> str:
        """Return the C2SP vkey, ``name+id+key``."""
        return vkey_text(self.name, COSIGNATURE, self.public)

    @classmethod
    def parse(cls, vkey: str) -> "CosignerKey":
        """Return the key of a C2SP vkey.

        Raises:
            IntegrityError: the text is not a vkey of a cosigning key, or its id does not fit.
        """
        name, public = parse_vkey(vkey, COSIGNATURE)
        return cls(name=name, public=public)


@dataclass(frozen=True, kw_only=True)
class Cosigner:
    """The private key of a witness."""

    name: str
    seed: bytes = field(repr=False)
    """32 bytes; the Ed25519 private key. The signed message does not name the witness, so that a
    key must not serve under two names."""

    def __post_init__(self) -> None:
        refuse_key_name(self.name)

    @property
    def verifier(self) -> CosignerKey:
        """The public half."""
        return CosignerKey(name=self.name, public=public_key(self.seed))

    def to_text(self) -> str:
        """Return the private key as one line. Secret."""
        return private_text(self.name, COSIGNATURE, self.seed)

    @classmethod
    def parse(cls, text: str) -> "Cosigner":
        """Return the key that `to_text` wrote. No message of this function shows the secret.

        Raises:
            IntegrityError: the text is not such a key.
        """
        name, seed = parse_private(text, COSIGNATURE)
        return cls(name=name, seed=seed)

    def cosign(self, note: str, moment: datetime) -> str:
        """Return the signature line over a head's note, its newline included.

        Raises:
            IntegrityError: the note is malformed.
        """
        text, _ = split_note(note)
        seconds = int(moment.timestamp())
        raw = Ed25519PrivateKey.from_private_bytes(self.seed).sign(_message(text, seconds))
        data = self.verifier.key_id + seconds.to_bytes(_TIME_SIZE, "big") + raw
        return f"— {self.name} {to_base64(data)}\n"


@dataclass(frozen=True, kw_only=True)
class Cosignature:
    """A witness saw a head."""

    witness: CosignerKey
    moment: datetime
    """By the witness's clock, whole seconds, UTC."""
    line: str
    """The signature line, verbatim, its newline included."""


def cosignatures_by(note: str, key: CosignerKey) -> list[Cosignature]:
    """Return the cosignatures that a witness put on a head, verified; empty when there are none.

    Raises:
        IntegrityError: the note is malformed, or a signature under the key's name and id is wrong.
    """
    text, signatures = split_note(note)
    found = []
    for name, signature in signatures:
        data = _decoded(signature)
        if name != key.name or data[:ID_SIZE] != key.key_id:
            continue
        seconds = int.from_bytes(data[ID_SIZE : ID_SIZE + _TIME_SIZE], "big")
        raw = data[ID_SIZE + _TIME_SIZE :]
        if seconds > _MOST_SECONDS or not accepts(key.public, raw, _message(text, seconds)):
            raise IntegrityError(f"the cosignature by {key.name!r} does not fit what it signs")
        moment = datetime.fromtimestamp(seconds, UTC)
        found.append(Cosignature(witness=key, moment=moment, line=f"— {name} {signature}\n"))
    return found


def _message(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _decoded(signature: str) -> bytes:
    try:
        return from_base64(signature)
    except ValueError as error:
        raise IntegrityError(f"a signature line of the note is malformed: {error}") from error
