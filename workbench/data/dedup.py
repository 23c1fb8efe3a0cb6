"""Exact deduplication of normalised text: the first document of equal ones is kept."""

import hashlib
import unicodedata


def normalise(text: str) -> str:
    """Return the text after NFKC, case folding to lower case and white-space folding.

    Compatibility forms are folded again after lower-casing, so that the result is a fixed point:
    normalising twice changes nothing.
    """
    folded = unicodedata.normalize("NFKC", text).lower()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def content_digest(text: str) -> str:
    """Return the hexadecimal SHA-256 of the normalised text: equal for duplicates."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


class SeenTexts:
    """The digests of every document kept so far, over all domains of a corpus."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def is_new(self, digest: str) -> bool:
        """Return whether the digest was not seen before, and remember it."""
        key = bytes.fromhex(digest)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True
