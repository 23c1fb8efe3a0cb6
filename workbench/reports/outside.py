"""What lies outside a log, held against it: its anchors, and the bounds that they set."""

from typing import Protocol

from workbench.registry.anchored import AnchorFindings, AnchorTrust, find_anchors
from workbench.registry.anchors import Read
from workbench.registry.bounds import RegistrationBounds, registration_bounds
from workbench.registry.log import HashSource, LogSource
from workbench.registry.rotation import chain_of


class AnchorableLog(LogSource, HashSource, Protocol):
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
    return find_anchors(log, size=size, key_at=chain_of(log).log_at, read=read, trust=trust)


def outside(
    log: AnchorableLog, *, size: int, read: Read | None, trust: AnchorTrust
) -> tuple[AnchorFindings, tuple[RegistrationBounds, ...]]:
    """Return the anchors of a verified log and what they show of each registration."""
    found = anchors_of(log, size=size, read=read, trust=trust)
    return found, registration_bounds(log.entries(), found.anchors)
