"""What lies outside a log, held against it: its anchors, and the bounds that they set."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from workbench.registry.anchored import AnchorFindings, AnchorTrust, find_anchors
from workbench.registry.anchors import Read
from workbench.registry.bounds import RegistrationBounds, registration_bounds
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Genesis,
    KeyRotation,
    Registration,
    RunStarted,
    SweepStarted,
    Withdrawal,
)
from workbench.registry.log import Entry, HashSource, RawLog, read_entry, read_outline
from workbench.registry.rotation import KeyChain

OUTSIDE_KINDS = frozenset(
    body.kind
    for body in (
        Genesis, KeyRotation, Registration, Anchor, Amendment, Withdrawal, SweepStarted, RunStarted,
    )
)  # fmt: skip
"""What keys and bounds are read from; the rest of a large log need not be typed for it."""


class AnchorableLog(RawLog, HashSource, Protocol):
    """A log whose entries and tree can be read."""


def anchors_of(
    log: AnchorableLog, *, size: int, read: Read | None, trust: AnchorTrust
) -> AnchorFindings:
    """Return the anchors of a log, held against its tree.

    Args:
        log: The store or the published files.
        size: Entries under its newest head.
        read: Reads a file of the published log; None where nothing is published.
        trust: Whom the reader believes.

    Raises:
        IntegrityError: the log's first entry or a rotation of its keys is not what it must be.
    """
    return _anchors(log, list(_entries(log, size)), size=size, read=read, trust=trust)


def outside(
    log: AnchorableLog,
    entries: Sequence[Entry],
    *,
    size: int,
    read: Read | None,
    trust: AnchorTrust,
) -> tuple[AnchorFindings, tuple[RegistrationBounds, ...]]:
    """Return the anchors of a verified log and what they show of each registration.

    Args:
        log: The store or the published files.
        entries: Those of the kinds `OUTSIDE_KINDS`, in order.
        size: Entries under its newest head.
        read: Reads a file of the published log; None where nothing is published.
        trust: Whom the reader believes.
    """
    found = _anchors(log, entries, size=size, read=read, trust=trust)
    return found, registration_bounds(entries, found.anchors)


def _anchors(
    log: AnchorableLog,
    entries: Sequence[Entry],
    *,
    size: int,
    read: Read | None,
    trust: AnchorTrust,
) -> AnchorFindings:
    chain = KeyChain(log.origin)
    for entry in entries:
        chain.follow(entry.sequence, entry.body)
    return find_anchors(log, size=size, key_at=chain.log_at, read=read, trust=trust)


def _entries(log: AnchorableLog, size: int) -> Iterator[Entry]:
    origin = log.origin
    for stored in log.records():
        if stored.sequence < size and read_outline(stored.envelope).kind in OUTSIDE_KINDS:
            yield read_entry(stored, origin)
