"""What a check of a claim found; apart from the checks, so that a reader can start without them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a value stands in the record."""

    sequence: int
    leaf: str
    """Leaf hash of the entry, hexadecimal."""
    id: str
    kind: str
    time: str
    """RFC 3339, UTC."""
    actor: str


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """One check of one claim, passed or not."""

    number: int
    """Of the check, as record-format.md numbers them."""
    check: str
    subject: str
    passed: bool
    detail: str
    sources: tuple[Source, ...]
