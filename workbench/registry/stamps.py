"""What a time stamp says, for those who have no need of the library that reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """An authority saw a message at a moment."""

    moment: datetime
    """By the authority's clock, UTC."""
    accuracy: timedelta
    """How far its clock may be off, as it says; zero where it does not say."""
    authority: str
    """Subject of the certificate that signed (RFC 4514)."""
    checked: bool
    """Whether a root that the reader trusts vouches for that certificate."""

    @property
    def latest(self) -> datetime:
        """The message existed at this moment at the latest."""
        return self.moment + self.accuracy


class StampReader(Protocol):
    """What reads and verifies RFC 3161 responses; absent where the extra is not installed."""

    def read_stamp(self, response: bytes, message: bytes) -> Stamp:
        """Return what a response says, its signature not checked."""

    def verify_stamp(self, response: bytes, message: bytes, roots: Sequence[bytes]) -> Stamp:
        """Return what a response says, its signature checked up to one of the roots (PEM)."""
