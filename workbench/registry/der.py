"""Just enough of DER to put the certificates of a time stamp into the order that DER asks for.

Authorities send them in any order, which CMS lets them do (RFC 5652, section 5.1: only what is
signed must be DER). The library that reads responses refuses that. The set is not signed, and
sorting it changes no length.
"""

from collections.abc import Iterator

_CERTIFICATES = 0xA0


def certificates_in_order(response: bytes) -> bytes:
    """Return an RFC 3161 response with its set of certificates sorted; else as it was given."""
    try:
        # TimeStampResp: status, token. ContentInfo: type, [0]. SignedData: version, digest
        # algorithms, content, [0] certificates.
        token = _item(response, 0, len(response), [1, 1, 0])
        start, stop = _content(response, *token)
        inner = list(_items(response, start, stop))
        certificates = inner[3]
        if response[certificates[0]] != _CERTIFICATES:
            return response
        start, stop = _content(response, *certificates)
        items = sorted(response[begin:end] for begin, end in _items(response, start, stop))
    except (IndexError, ValueError):
        return response
    return response[:start] + b"".join(items) + response[stop:]


def _item(data: bytes, start: int, stop: int, path: list[int]) -> tuple[int, int]:
    """Return where the item at a path of positions stands, the outermost item being the first."""
    (begin, end), *_ = _items(data, start, stop)
    for position in path:
        begin, end = list(_items(data, *_content(data, begin, end)))[position]
    return begin, end


def _items(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where each item between two positions begins and ends."""
    while start < stop:
        _, end = _content(data, start, stop)
        yield start, end
        start = end


def _content(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return where the content of the item at a position begins and ends."""
    at, length = start + 2, data[start + 1]
    if length >= 0x80:
        size = length & 0x7F
        if not 0 < size <= 4:
            raise ValueError("an item has no definite length")
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > stop:
        raise ValueError("an item ends after what it is in")
    return at, at + length
