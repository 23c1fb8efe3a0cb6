"""One document of a source, and how a long one is cut."""

from collections.abc import Iterator
from dataclasses import dataclass

_NUM_PARTS = 3
_PART_CHARACTERS = 1000
EXCERPT = f"{_NUM_PARTS} times {_PART_CHARACTERS} characters: beginning, middle, end"
"""What `excerpt` takes, for the record."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text with the name that finds it again in its source."""

    id: str
    """Stable between machines: the source's own name and a path or row number in it."""
    text: str
    provenance: str
    """Who published it and in which version, as far as the source says."""
    licence: str = ""
    """SPDX expression or what the source says; empty where it does not."""
    language: str = ""
    """Language or programming language, where the source says; else empty."""
    has_text: bool = True
    """False where the source has no string in the text's place; `text` is then empty."""


def cut_at_line_end(text: str, max_bytes: int) -> str:
    """Return the longest run of whole lines from the start that fits in ``max_bytes`` of UTF-8.

    A first line that is longer than the limit is cut between two characters.
    """
    return next(pieces(text, max_bytes), "")


def pieces(text: str, max_bytes: int) -> Iterator[str]:
    """Yield the text in consecutive pieces of at most ``max_bytes`` of UTF-8, cut at line ends.

    The pieces joined are the text. An empty text has no pieces.

    Raises:
        UnicodeEncodeError: a lone surrogate, which has no UTF-8 form.
    """
    data = text.encode("utf-8")
    start = 0
    while start < len(data):
        end = _piece_end(data, start, max_bytes)
        yield data[start:end].decode("utf-8")
        start = end


def _piece_end(data: bytes, start: int, max_bytes: int) -> int:
    limit = start + max_bytes
    if limit >= len(data):
        return len(data)
    line_end = data.rfind(b"\n", start, limit)
    if line_end >= 0:
        return line_end + 1
    while data[limit] & 0xC0 == 0x80:  # a UTF-8 continuation byte: step back to the character
        limit -= 1
    # A limit below one character would not advance; config.py asks for at least 100 bytes.
    return max(limit, start + 1)


def excerpt(text: str) -> str:
    """Return what a model that judges a document sees of it.

    Short texts are seen whole, longer ones in three parts of 1,000 characters: the beginning, the
    middle and the end, joined by spaces.
    """
    if len(text) <= _NUM_PARTS * _PART_CHARACTERS:
        return text
    last = len(text) - _PART_CHARACTERS
    starts = [last * part // (_NUM_PARTS - 1) for part in range(_NUM_PARTS)]
    return " ".join(text[start : start + _PART_CHARACTERS] for start in starts)
