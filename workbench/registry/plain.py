"""Recognising what nearly every entry is: JSON that is plainly canonical and in the profile.

Parsing and writing anew in Python takes ten times as long as all hashing. What is recognised here,
the careful way (`workbench.canonical`) would accept, too; what is not, it has to look at.
"""

import re
import unicodedata
from collections.abc import Sequence

from pydantic_core import from_json, to_json

from workbench.canonical import MAX_SAFE_INTEGER, Json

UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
KIND = r"[a-z][a-z0-9_]{0,39}"
SUBJECT = r"[a-z0-9][a-z0-9:@._-]{0,159}"
_TEXT = r'[^"\\\x00-\x1f\x7f-\U0010ffff]'
PLAIN_ENVELOPE = re.compile(
    rf'^\{{"actor":"({_TEXT}{{1,80}})","body_hash":"([0-9a-f]{{64}})","id":"({UUID7})",'
    rf'"kind":"({KIND})","log":"({_TEXT}{{3,120}})",'
    r'"refs":\[((?:"[0-9a-f]{64}"(?:,"[0-9a-f]{64}")*)?)\],'
    rf'"subject":"({SUBJECT})","time":"({TIME})","v":1\}}$',
    re.MULTILINE,
)
"""To be matched in full, or found as lines. Its groups are the members in their order, references
as they stand; none has a line break."""
_KEY = re.compile(r"[a-z0-9_]+")


def plain_envelopes(envelopes: Sequence[bytes]) -> list[tuple[str, ...]] | None:
    """Return the groups of `PLAIN_ENVELOPE` for each envelope; None where one is not plain."""
    joined = b"\n".join(envelopes)
    if not joined.isascii():
        return None
    found = PLAIN_ENVELOPE.findall(joined.decode("ascii"))
    # A line break within an envelope makes a line that does not match, so that the counts differ.
    same = len(found) == len(envelopes) == joined.count(b"\n") + 1
    return found if same else None


def plain_value(data: bytes) -> Json | None:
    """Return the value of JSON that is canonical and in the profile; None where unsure.

    Bytes that are written again as they were have no spaces, no key twice and no other spelling of
    a string; the order of keys and the profile are looked at in `_is_plain`. No null is plain, so
    that None says nothing of the bytes.
    """
    values = plain_values([data])
    return None if values is None else values[0]


def plain_values(texts: Sequence[bytes]) -> list[Json] | None:
    """Return the value of each of these JSON texts; None where one is not plain."""
    joined = b",".join(texts)
    try:
        # Every part of a text in normal form C is in normal form C.
        if not joined.isascii() and not unicodedata.is_normalized("NFC", joined.decode()):
            return None
        values: list[Json] = from_json(b"[" + joined + b"]", allow_inf_nan=False)
    except ValueError:
        return None
    # Texts that are cut elsewhere than at these commas do not come out as they went in.
    if list(map(to_json, values)) != list(texts) or not all(map(_is_plain, values)):
        return None
    return values


def _is_plain(value: Json) -> bool:
    kind = type(value)
    if kind is dict:
        before = ""
        for key, item in value.items():
            if key <= before or not _KEY.fullmatch(key):
                return False
            before = key
            if type(item) is not str and not _is_plain(item):
                return False
        return True
    if kind is str or kind is bool:
        return True
    if kind is int:
        return bool(-MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER)
    return kind is list and all(map(_is_plain, value))
