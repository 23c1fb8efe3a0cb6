"""Signed notes (C2SP signed-note): a text, a blank line, and Ed25519 signature lines."""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from workbench.errors import IntegrityError

ED25519 = b"\x01"
"""Signature type of a plain Ed25519 signature of the note's text."""
COSIGNATURE = b"\x04"
"""Signature type of a witness's time-stamped Ed25519 signature (C2SP tlog-cosignature)."""
ID_SIZE = 4
MAX_SIGNATURES = 64
_NAME = re.compile(r"[^\s+]+\Z")
_VKEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)\Z")
_PRIVATE = re.compile(r"PRIVATE\+KEY\+([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)\n?\Z")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_NAMES = {ED25519: "an Ed25519", COSIGNATURE: "a witness's cosigning (Ed25519, type 4)"}
_MADE_BY = {
    ED25519: "workbench keys new NAME makes a reviewer's; a log's is in its file log.vkey",
    COSIGNATURE: "workbench keys new NAME --witness makes one; a reviewer's key never cosigns",
}
_SIGNATURE_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/=]+)\Z")


def from_base64(text: str) -> bytes:
    """Return the bytes of canonical standard base64; another spelling of the same bytes is refused.

    Raises:
        ValueError: the text is not what base64 writes.
    """
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError(f"{text!r} is not canonical base64")
    return data


def to_base64(data: bytes) -> str:
    """Return standard base64 with padding."""
    return base64.b64encode(data).decode()


def key_id(name: str, algorithm: bytes, public: bytes) -> bytes:
    """Return the first four bytes of SHA-256(name ‖ newline ‖ algorithm ‖ key)."""
    return hashlib.sha256(name.encode() + b"\n" + algorithm + public).digest()[:ID_SIZE]


def public_key(seed: bytes) -> bytes:
    """Return the 32 public bytes of an Ed25519 private key."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def vkey_text(name: str, algorithm: bytes, public: bytes) -> str:
    """Return the C2SP vkey, ``name+id+key``."""
    return f"{name}+{key_id(name, algorithm, public).hex()}+{to_base64(algorithm + public)}"


def parse_vkey(vkey: str, algorithm: bytes) -> tuple[str, bytes]:
    """Return the name and the 32 public bytes of a C2SP vkey of this signature type.

    Raises:
        IntegrityError: the text is not such a vkey, or its id does not fit.
    """
    match = _VKEY.match(vkey.strip())
    if not match:
        raise IntegrityError(f"verifier key {vkey!r} is not of the form name+id+key")
    name, named_id, text = match.groups()
    public = _key_material(text, vkey, algorithm)
    found = key_id(name, algorithm, public).hex()
    if found != named_id:
        raise IntegrityError(f"verifier key {vkey!r} has id {found}, not {named_id}")
    return name, public


def private_text(name: str, algorithm: bytes, seed: bytes) -> str:
    """Return a private key as one line, as Go's ``note`` writes it. Secret."""
    named_id = key_id(name, algorithm, public_key(seed)).hex()
    return f"PRIVATE+KEY+{name}+{named_id}+{to_base64(algorithm + seed)}\n"


def parse_private(text: str, algorithm: bytes) -> tuple[str, bytes]:
    """Return the name and the seed that `private_text` wrote. No message shows the secret.

    Raises:
        IntegrityError: the text is not a private key of this signature type.
    """
    match = _PRIVATE.match(text)
    if not match:
        raise IntegrityError("the private key file is not of the form PRIVATE+KEY+name+id+key")
    name, named_id, secret = match.groups()
    try:
        data = from_base64(secret)
    except ValueError:
        data = b""
    if data[:1] != algorithm or len(data) != 33:
        raise IntegrityError(
            f"the private key of {name!r} is not {_NAMES[algorithm]} key",
            remedy=_MADE_BY[algorithm],
        )
    if key_id(name, algorithm, public_key(data[1:])).hex() != named_id:
        raise IntegrityError(f"the private key of {name!r} does not have the id {named_id}")
    return name, data[1:]


def refuse_key_name(name: str) -> None:
    """Refuse what cannot be the name of a key.

    Raises:
        IntegrityError: it is empty, or has a space or a plus.
    """
    if not _NAME.match(name):
        raise IntegrityError(f"key name {name!r} is empty or has a space or a plus")


@dataclass(frozen=True, kw_only=True)
class VerifierKey:
    """A public key with the name that its signatures carry."""

    name: str
    public: bytes
    """32 bytes of an Ed25519 key."""

    @cached_property
    def key_id(self) -> bytes:
        """First four bytes of SHA-256(name ‖ newline ‖ 0x01 ‖ key)."""
        return key_id(self.name, ED25519, self.public)

    def __str__(self) -> str:
        """Return the C2SP vkey, ``name+id+key``."""
        return vkey_text(self.name, ED25519, self.public)

    @classmethod
    def parse(cls, vkey: str) -> "VerifierKey":
        """Return the key of a C2SP vkey.

        Raises:
            IntegrityError: the text is not a vkey of an Ed25519 key, or its id does not fit.
        """
        name, public = parse_vkey(vkey, ED25519)
        return cls(name=name, public=public)

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Return whether the 64 bytes are this key's signature of the message."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.public)


def accepts(public: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the 64 bytes are the Ed25519 key's signature of the message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _key_material(text: str, shown: str, algorithm: bytes) -> bytes:
    try:
        data = from_base64(text)
    except ValueError as error:
        raise IntegrityError(f"key {shown!r} is not base64: {error}") from error
    if data[:1] != algorithm or len(data) != 33:
        raise IntegrityError(
            f"key {shown!r} is not {_NAMES[algorithm]} key", remedy=_MADE_BY[algorithm]
        )
    return data[1:]


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A private key with the name that its signatures carry. Its text form is Go's ``note``'s."""

    name: str
    seed: bytes = field(repr=False)
    """32 bytes; the Ed25519 private key."""

    def __post_init__(self) -> None:
        refuse_key_name(self.name)

    @cached_property
    def verifier(self) -> VerifierKey:
        """The public half."""
        return VerifierKey(name=self.name, public=self._key.public_key().public_bytes_raw())

    def to_text(self) -> str:
        """Return the private key as one line. Secret."""
        return private_text(self.name, ED25519, self.seed)

    @classmethod
    def parse(cls, text: str) -> "SigningKey":
        """Return the key that `to_text` wrote. No message of this function shows the secret.

        Raises:
            IntegrityError: the text is not such a key.
        """
        name, seed = parse_private(text, ED25519)
        return cls(name=name, seed=seed)

    def signature(self, text: str) -> str:
        """Return base64 of key id ‖ Ed25519 signature, as it stands on a signature line."""
        return to_base64(self.verifier.key_id + self._key.sign(text.encode()))

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def sign_note(text: str, key: SigningKey) -> str:
    """Return the note: the text, which must end in a newline, a blank line and the signature.

    Raises:
        ValueError: the text cannot be the text of a note.
    """
    if not text.endswith("\n") or _has_control_characters(text):
        raise ValueError("a note's text ends in a newline and has no other control characters")
    return f"{text}\n— {key.name} {key.signature(text)}\n"


def verify_signature(text: str, signature: str, key: VerifierKey) -> None:
    """Check base64 of key id ‖ signature over the text.

    Raises:
        IntegrityError: it is malformed, by another key, or not over this text.
    """
    try:
        data = from_base64(signature)
    except ValueError as error:
        raise IntegrityError(f"a signature is malformed: {error}") from error
    if data[:ID_SIZE] != key.key_id:
        raise IntegrityError(f"a signature is not by the key {key}")
    if not key.accepts(data[ID_SIZE:], text.encode()):
        raise IntegrityError(f"a signature by {key.name!r} does not fit what it signs")


def verify_note(note: str, key: VerifierKey) -> str:
    """Return the text of a note that this key signed. Signatures by other keys are passed over.

    Raises:
        IntegrityError: the note is malformed, the key did not sign it, or its signature is wrong.
    """
    text, signatures = split_note(note)
    found = [s for name, s in signatures if name == key.name and _names_key(s, key)]
    if not found:
        raise IntegrityError(f"the note carries no signature by the key {key}")
    for signature in found:
        verify_signature(text, signature, key)
    return text


def split_note(note: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a note's text and its (key name, signature) lines, unverified.

    Raises:
        IntegrityError: the note is malformed.
    """
    text, separator, tail = note.rpartition("\n\n")
    lines = tail.split("\n")
    if not separator or lines.pop() != "" or not lines or _has_control_characters(note):
        raise IntegrityError("a signed note is a text, a blank line and signature lines")
    if len(lines) > MAX_SIGNATURES:
        raise IntegrityError(f"the note has {len(lines)} signatures, more than {MAX_SIGNATURES}")
    matches = [_SIGNATURE_LINE.match(line) for line in lines]
    signatures = [(match[1], match[2]) for match in matches if match]
    if len(signatures) != len(lines):
        raise IntegrityError("a signature line of the note is malformed")
    return f"{text}\n", signatures


def _names_key(signature: str, key: VerifierKey) -> bool:
    try:
        return from_base64(signature)[:ID_SIZE] == key.key_id
    except ValueError as error:
        raise IntegrityError(f"a signature line of the note is malformed: {error}") from error


def _has_control_characters(text: str) -> bool:
    return bool(_CONTROL.search(text))
