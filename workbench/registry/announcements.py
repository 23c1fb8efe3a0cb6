"""A writer's word, committed with its entry, that it was a writer of this log who wrote it.

If a crash leaves entries without a signed head, this is how the next writer knows that a holder of
the keys wrote them, and not somebody with access to the store alone.
"""

import hmac
from collections.abc import Iterable

from workbench.errors import IntegrityError
from workbench.registry.notes import SigningKey, verify_signature

_MAC = "mac1:"


def announcement(key: SigningKey, origin: str, sequence: int, leaf: bytes) -> str:
    """Return the announcement of an entry: only who has the author's private key can make it.

    It is HMAC-SHA256 under a key derived from the author's, because nobody else ever checks it and
    a signature would cost a tenth of a commit.
    """
    derived = hmac.digest(key.seed, b"workbench append v1", "sha256")
    text = announcement_text(origin, sequence, leaf).encode()
    return _MAC + hmac.digest(derived, text, "sha256").hex()


def check_announcement(
    found: str, keys: Iterable[SigningKey], origin: str, sequence: int, leaf: bytes
) -> None:
    """Check that one of the author's keys announced the entry.

    Raises:
        IntegrityError: none did.
    """
    for key in keys:
        if found.startswith(_MAC):
            if hmac.compare_digest(found, announcement(key, origin, sequence, leaf)):
                return
        elif _is_signature(found, key, announcement_text(origin, sequence, leaf)):
            return
    raise IntegrityError(f"entry {sequence} was not announced by this log's author")


def announcement_text(origin: str, sequence: int, leaf: bytes) -> str:
    """Return what is announced."""
    return f"workbench append v1\n{origin}\n{sequence}\n{leaf.hex()}\n"


def _is_signature(found: str, key: SigningKey, text: str) -> bool:
    """Return whether it is a signature: so it was made by stores of version 1."""
    try:
        verify_signature(text, found, key.verifier)
    except IntegrityError:
        return False
    return True
