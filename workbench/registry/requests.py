"""What a writer that finds the log taken asks of the one that has it: to append an entry for it.

A request is one line: an HMAC that only a holder of the author's key can make, and the entry. So
nobody with access to the store alone gets anything signed by asking.
"""

import base64
import hmac
import json
from collections.abc import Sequence

from workbench.registry.log import StoredEntry
from workbench.registry.notes import SigningKey


def request(entry: StoredEntry, key: SigningKey, origin: str) -> bytes:
    """Return the line that asks for the entry; its place in the log is for the other to say."""
    binary = (entry.leaf, entry.envelope, entry.salt, entry.body)
    texts = (entry.signature, entry.id, entry.kind, entry.subject)
    data = json.dumps([*(base64.b64encode(one).decode() for one in binary), *texts]).encode()
    return _mac(data, key, origin) + b" " + data


def requested(line: bytes, keys: Sequence[SigningKey], origin: str) -> StoredEntry | None:
    """Return the entry that is asked for, numbered 0, or None where no author's key asked."""
    mac, _, data = line.partition(b" ")
    if not any(hmac.compare_digest(mac, _mac(data, key, origin)) for key in keys):
        return None
    leaf, envelope, salt, body, *texts = json.loads(data)
    signature, identifier, kind, subject = texts
    return StoredEntry(
        sequence=0,
        leaf=base64.b64decode(leaf),
        envelope=base64.b64decode(envelope),
        salt=base64.b64decode(salt),
        body=base64.b64decode(body),
        signature=signature,
        id=identifier,
        kind=kind,
        subject=subject,
    )


def _mac(data: bytes, key: SigningKey, origin: str) -> bytes:
    derived = hmac.digest(key.seed, b"workbench request v1", "sha256")
    return hmac.digest(derived, origin.encode() + b"\n" + data, "sha256").hex().encode()
