"""Every kind of entry."""

from workbench.canonical import Json
from workbench.errors import InvalidFileError
from workbench.registry.entries.changes import (
    Amendment,
    Approval,
    Embargo,
    Reveal,
    Withdrawal,
)
from workbench.registry.entries.filing import (
    Anchor,
    Genesis,
    Registration,
)
from workbench.registry.entries.logbook import (
    Decision,
    Deviation,
    Note,
)
from workbench.registry.entries.noise import (
    NoiseFloor,
)
from workbench.registry.entries.outcomes import (
    Exposure,
    Look,
    Verdict,
)
from workbench.registry.entries.record import (
    Body,
)
from workbench.registry.entries.runs import (
    Incident,
    RunEnded,
    RunStarted,
)
from workbench.registry.entries.sweeps import (
    Forecast,
    Promotion,
    ProxyRun,
    SweepEnded,
    SweepStarted,
    Trial,
)
from workbench.registry.entries.upkeep import (
    KeyRotation,
    Redaction,
)

BODIES: dict[str, type[Body]] = {
    body.kind: body
    for body in (
        Genesis,
        Registration,
        Anchor,
        Amendment,
        Withdrawal,
        Approval,
        Embargo,
        Reveal,
        SweepStarted,
        Trial,
        SweepEnded,
        ProxyRun,
        Promotion,
        Forecast,
        RunStarted,
        RunEnded,
        Decision,
        Note,
        Deviation,
        Incident,
        Exposure,
        Look,
        Verdict,
        NoiseFloor,
        Redaction,
        KeyRotation,
    )
}
NEVER_WITHHELD = frozenset(
    body.kind
    for body in (Genesis, Anchor, Approval, Embargo, Reveal, Withdrawal, Redaction, KeyRotation)
)
"""The kinds whose bodies a verifier always needs, also while their subject is under embargo."""


def parse_body(kind: str, value: Json) -> Body:
    """Return the typed body of an entry.

    Raises:
        InvalidFileError: the kind is unknown or the value does not fit it.
    """
    model = BODIES.get(kind)
    if model is None:
        raise InvalidFileError(f"entry kind {kind!r} is unknown (known: {', '.join(BODIES)})")
    try:
        return model.model_validate(value)
    except ValueError as error:
        raise InvalidFileError(f"the body of a {kind} entry is malformed: {error}") from error
