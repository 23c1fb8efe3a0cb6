"""Text that somebody else wrote, made fit to be shown: a corpus may hold anything."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing, and signs that reorder a line."""

_BREAKS = re.compile("[ \\t-\\r\x85\u2028\u2029]+")
"""White space that may become one space; a narrow space within a number stays."""


def visible(text: str) -> str:
    """Return the text with control and reordering characters spelt out."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def excerpt(text: str, most: int) -> str:
    """Return the beginning of a text as one visible line of at most ``most`` characters."""
    line = visible(_BREAKS.sub(" ", text).strip(" "))
    return line if len(line) <= most else f"{line[: most - 1]}…"
