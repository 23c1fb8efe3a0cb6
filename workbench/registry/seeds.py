"""Time-locked seeds: nobody can know them before the registration is in a signed tree head."""

import hashlib
import hmac


def time_locked_seed(head_note: str, registration_leaf: str, index: int) -> int:
    """Return seed ``index`` (from 0) of a registration, an unsigned 64-bit integer.

    First eight bytes, big-endian, of HMAC-SHA256(SHA256(head note), "seed/v1|LEAF|INDEX"). The same
    index gives the same seed in every arm.

    Args:
        head_note: the signed head that covers the registration, verbatim as the anchor records it.
        registration_leaf: the registration's leaf hash, lower-case hexadecimal.
        index: number of the repeat.
    """
    key = hashlib.sha256(head_note.encode()).digest()
    message = f"seed/v1|{registration_leaf}|{index}".encode()
    return int.from_bytes(hmac.digest(key, message, "sha256")[:8], "big")
