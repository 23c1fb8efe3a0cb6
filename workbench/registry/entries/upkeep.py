"""What keeps a log usable: erasing what must not be kept, and changing its keys."""

from typing import Literal

from workbench.registry.entries.record import Body


class Redaction(Body):
    """The body and salt of the one entry that it refers to were erased; its envelope stays."""

    kind = "redaction"
    signed = True
    reason: str
    what: Literal["personal_data", "secret", "licence", "legal_order", "other"]


class KeyRotation(Body):
    """A key is replaced. Both keys sign; heads over this entry carry the new log key's signature.

    Each signature is base64 of key id ‖ Ed25519 signature over the text of
    `workbench.registry.rotation.rotation_text`.
    """

    kind = "key_rotation"
    signed = True
    role: Literal["log", "author"]
    old_key: str
    """C2SP verifier key."""
    new_key: str
    """C2SP verifier key, of the same name."""
    old_signature: str
    new_signature: str
    why: Literal["scheduled", "owner_change", "compromise"]
    reason: str
