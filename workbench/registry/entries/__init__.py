"""The kinds of ledger entry and the fields of their bodies.

A body is written once, validated here, and read back through the same model. Numbers that are not
integers travel as decimal strings (`workbench.canonical.decimal`), absent values are left out.
"""

from workbench.registry.entries.catalogue import (
    BODIES,
    NEVER_WITHHELD,
    parse_body,
)
from workbench.registry.entries.changes import (
    Amendment,
    Approval,
    Embargo,
    FieldChange,
    ReasonClass,
    Reveal,
    Timing,
    Withdrawal,
)
from workbench.registry.entries.filing import (
    Anchor,
    ApprovalRule,
    CodeState,
    DataState,
    Document,
    Genesis,
    Predecessor,
    Registration,
    StatedPower,
)
from workbench.registry.entries.logbook import (
    Decision,
    Deviation,
    Note,
)
from workbench.registry.entries.noise import (
    NoiseFloor,
    Repeat,
)
from workbench.registry.entries.outcomes import (
    ClaimResult,
    Exposure,
    ForecastScore,
    GuardrailResult,
    Look,
    SeedValue,
    Verdict,
)
from workbench.registry.entries.record import (
    Body,
    Hidden,
    Mode,
    Number,
    Outcome,
    Record,
    TrialState,
)
from workbench.registry.entries.runs import (
    CurvePoint,
    DomainUse,
    EvaluationPoint,
    Incident,
    RunEnded,
    RunStarted,
    ServedOverlap,
    SetOverlap,
)
from workbench.registry.entries.sweeps import (
    Candidate,
    Forecast,
    Interval,
    KeyChange,
    Promotion,
    ProxyRun,
    ScalePoint,
    SweepEnded,
    SweepStarted,
    Trial,
)
from workbench.registry.entries.upkeep import (
    KeyRotation,
    Redaction,
)

__all__ = [
    "BODIES",
    "NEVER_WITHHELD",
    "Amendment",
    "Anchor",
    "Approval",
    "ApprovalRule",
    "Body",
    "Candidate",
    "ClaimResult",
    "CodeState",
    "CurvePoint",
    "DataState",
    "Decision",
    "Deviation",
    "Document",
    "DomainUse",
    "Embargo",
    "EvaluationPoint",
    "Exposure",
    "FieldChange",
    "Forecast",
    "ForecastScore",
    "Genesis",
    "GuardrailResult",
    "Hidden",
    "Incident",
    "Interval",
    "KeyChange",
    "KeyRotation",
    "Look",
    "Mode",
    "NoiseFloor",
    "Note",
    "Number",
    "Outcome",
    "Predecessor",
    "Promotion",
    "ProxyRun",
    "ReasonClass",
    "Record",
    "Redaction",
    "Registration",
    "Repeat",
    "Reveal",
    "RunEnded",
    "RunStarted",
    "ScalePoint",
    "SeedValue",
    "ServedOverlap",
    "SetOverlap",
    "StatedPower",
    "SweepEnded",
    "SweepStarted",
    "Timing",
    "Trial",
    "TrialState",
    "Verdict",
    "Withdrawal",
    "parse_body",
]
