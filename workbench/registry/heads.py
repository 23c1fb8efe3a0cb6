"""Signed tree heads: the text of C2SP tlog-checkpoint in a signed note."""

import re
from dataclasses import dataclass, field

from workbench.errors import IntegrityError
from workbench.registry.merkle import HASH_SIZE
from workbench.registry.notes import (
    SigningKey,
    VerifierKey,
    from_base64,
    sign_note,
    split_note,
    to_base64,
    verify_note,
)

_TAG = re.compile(r"<[^<>\n]*>")
_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})\Z")


@dataclass(frozen=True, kw_only=True)
class SignedHead:
    """What a log commits to at one moment: its origin, its size and the root over its entries."""

    origin: str
    size: int
    root: bytes = field(repr=False)
    note: str = field(repr=False)
    """The signed note, verbatim: what a reader keeps and an anchor records."""


def sign_head(key: SigningKey, size: int, root: bytes) -> SignedHead:
    """Return the tree head under this key, whose name is the log's origin.

    The same arguments give the same note, because Ed25519 is deterministic.
    """
    note = sign_note(f"{key.name}\n{size}\n{to_base64(root)}\n", key)
    return SignedHead(origin=key.name, size=size, root=root, note=note)


def parse_head(note: str) -> SignedHead:
    """Return what a tree head says, without trusting it: its signatures are not checked.

    Raises:
        IntegrityError: the note is not a tree head.
    """
    text, _ = split_note(note)
    lines = text.split("\n")[:-1]
    # Further lines are extensions, which tlog-checkpoint lets a reader pass over.
    if len(lines) < 3 or not all(lines) or not _SIZE.match(lines[1]):
        raise IntegrityError("a tree head is an origin, a size and a root, each on a line")
    try:
        root = from_base64(lines[2])
    except ValueError as error:
        raise IntegrityError(f"the root of a tree head is malformed: {error}") from error
    if len(root) != HASH_SIZE:
        raise IntegrityError(f"the root of a tree head has {len(root)} bytes, not {HASH_SIZE}")
    return SignedHead(origin=lines[0], size=int(lines[1]), root=root, note=note)


def verify_head(note: str, key: VerifierKey) -> SignedHead:
    """Return the tree head that this key signed for the log of the same name.

    Raises:
        IntegrityError: malformed, not signed by the key, or of another log.
    """
    verify_note(note, key)
    head = parse_head(note)
    if head.origin != key.name:
        raise IntegrityError(f"the tree head is of log {head.origin!r}, the key of {key.name!r}")
    return head


def head_name(head: SignedHead) -> str:
    """Return a file name for a head: its size and the first bytes of its root."""
    return f"{head.size}-{head.root[:4].hex()}"


def heads_in(text: str) -> list[tuple[str, int, bytes]]:
    """Return the tree heads (origin, size, root) that stand in a text or HTML, as in a chronicle.

    They may be unsigned: whoever kept the text vouches for it.
    """
    found = []
    lines = [line.strip() for line in _TAG.sub("\n", text).split("\n")]
    for origin, size, encoded in zip(lines, lines[1:], lines[2:], strict=False):
        if not _SIZE.match(size) or not origin or " " in origin:
            continue
        try:
            root = from_base64(encoded)
        except ValueError:
            continue
        if len(root) == HASH_SIZE:
            found.append((origin, int(size), root))
    return found
