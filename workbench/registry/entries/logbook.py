"""What people decide and remark, and what the system finds to differ."""

from typing import Literal

from workbench.registry.entries.record import Body


class Decision(Body):
    """A choice by a person or by a rule, with what would reverse it."""

    kind = "decision"
    signed = True
    question: str
    options: list[str]
    chosen: str
    basis: Literal["rule", "judgement"]
    evidence: list[str]
    """Each an entry id or a sentence."""
    dissent: str = ""
    owner: str
    reversible: bool
    rollback: str = ""
    would_reverse: str


class Note(Body):
    """A free remark in the logbook."""

    kind = "note"
    text: str


class Deviation(Body):
    """Something differs from what was registered; detected by the system."""

    kind = "deviation"
    what: str
    """The key, file or fact."""
    registered: str
    found: str
    effect: str
    """Consequence for the inference."""
    category: Literal["", "code", "dependency", "hardware", "data", "config", "seeds", "file"] = ""
    """Empty in entries that are older than the field."""
    at: str = ""
    """What was starting or resuming when it was found, like ``run treatment/seed-0 attempt 2``."""
