"""What somebody wants recorded, before it has its place in the log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.canonical import canonical_json, parse_json, profile_faults
from workbench.errors import InvalidFileError
from workbench.registry.entries import Body, parse_body
from workbench.registry.log import Entry, StoredEntry, entry_of, read_outline


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What somebody wants recorded."""

    body: Body
    body_bytes: bytes
    recorded: Body
    """The body as a later reader gets it."""
    subject: str
    refs: Sequence[str]


def wish(body: Body, subject: str, refs: Sequence[str] = ()) -> Wish:
    """Return the wish to record this.

    Raises:
        InvalidFileError: the body cannot be recorded, or does not read back.
    """
    data = checked_body(body)
    recorded = parse_body(body.kind, parse_json(data))
    return Wish(body=body, body_bytes=data, recorded=recorded, subject=subject, refs=refs)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An entry with everything but its place in the log."""

    stored: StoredEntry
    body: Body

    def entry(self, sequence: int) -> Entry:
        """Return the entry as a later reader gets it from this place."""
        placed = replace(self.stored, sequence=sequence)
        return entry_of(placed, read_outline(placed.envelope), self.body)


def checked_body(body: Body) -> bytes:
    """Return the bytes under which a body is recorded.

    Raises:
        InvalidFileError: it cannot be recorded.
    """
    try:
        value = body.to_json()
        faults = profile_faults(value)
        data = canonical_json(value)
    except ValueError as error:
        raise InvalidFileError(f"a {body.kind} body cannot be recorded: {error}") from error
    if faults:
        raise InvalidFileError(f"a {body.kind} body cannot be recorded: {'; '.join(faults)}")
    return data
