"""The text of a proof that something is in a log (C2SP tlog-proof). Knows nothing of entries."""

import re
from dataclasses import dataclass, field

from workbench.errors import IntegrityError
from workbench.registry.heads import SignedHead, verify_head
from workbench.registry.merkle import HASH_SIZE, verify_inclusion
from workbench.registry.notes import VerifierKey, from_base64, to_base64

HEADER = "c2sp.org/tlog-proof@v1"
SUFFIX = ".tlog-proof"
MOST_HASHES = 63
"""A tree of at most 2^63 leaves is no higher."""
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})\Z")


@dataclass(frozen=True, kw_only=True)
class LogProof:
    """A leaf's way up to a signed head."""

    index: int
    """Position of the leaf in the log, from 0."""
    path: tuple[bytes, ...] = field(repr=False)
    """Audit path, lowest sibling first."""
    head: str = field(repr=False)
    """The signed note of the head, verbatim, with the cosignatures that it has."""
    extra: bytes = field(default=b"", repr=False)
    """What the application needs besides; nothing vouches for it by itself."""

    def to_text(self) -> str:
        """Return the proof as it stands in a ``.tlog-proof`` file."""
        extra = f"extra {to_base64(self.extra)}\n" if self.extra else ""
        path = "".join(f"{to_base64(value)}\n" for value in self.path)
        return f"{HEADER}\n{extra}index {self.index}\n{path}\n{self.head}"

    @classmethod
    def parse(cls, text: str) -> "LogProof":
        """Return the proof that a file holds. Nothing in it is checked but its form.

        Raises:
            IntegrityError: the text is not such a proof.
        """
        first, separator, head = text.partition("\n\n")
        lines = first.split("\n")
        if not separator or lines.pop(0) != HEADER:
            raise IntegrityError(f"a proof begins with the line {HEADER} and ends with a head")
        extra = b""
        if lines and lines[0].startswith("extra "):
            extra = _bytes_of(lines.pop(0).removeprefix("extra "), "extra data")
        match = _INDEX.match(lines.pop(0)) if lines else None
        if match is None:
            raise IntegrityError("a proof has a line `index N` before its hashes")
        if len(lines) > MOST_HASHES:
            raise IntegrityError(f"a proof has at most {MOST_HASHES} hashes, this one {len(lines)}")
        path = tuple(_bytes_of(line, "hash") for line in lines)
        if any(len(value) != HASH_SIZE for value in path):
            raise IntegrityError(f"a hash of a proof has {HASH_SIZE} bytes")
        return cls(index=int(match[1]), path=path, head=head, extra=extra)

    def verify(self, leaf: bytes, key: VerifierKey) -> SignedHead:
        """Check that the leaf hash is in the log of this key, and return the head that says so.

        Raises:
            IntegrityError: the head is not signed by the key, or the leaf is not under it.
        """
        head = verify_head(self.head, key)
        verify_inclusion(leaf, self.index, head.size, self.path, head.root)
        return head


def _bytes_of(text: str, what: str) -> bytes:
    try:
        return from_base64(text)
    except ValueError as error:
        raise IntegrityError(f"the {what} of the proof is not base64: {text[:60]!r}") from error
