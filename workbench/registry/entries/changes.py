"""What may happen to a registration after it was made. Nothing of it is ever taken back."""

from typing import Literal, TypeAlias

from workbench.canonical import Json
from workbench.registry.entries.filing import DataState, Document, StatedPower
from workbench.registry.entries.record import Body, Record

Timing: TypeAlias = Literal["before_any_run", "outcomes_unseen", "outcomes_seen"]
"""What was known when a promise was changed, as the log shows it."""
ReasonClass: TypeAlias = Literal[
    "clarification", "error", "infeasible", "new_information", "external"
]


class FieldChange(Record):
    """One field of a registered document that an amendment changed."""

    document: Literal["proposal", "recipe", "full"]
    path: str
    """Dotted, like ``decision.alpha``; ``text`` for the prose."""
    old: Json = None
    """Absent where the field was added."""
    new: Json = None
    """Absent where the field was removed."""


class Amendment(Body):
    """A registration's changed content. Refers to the registration and to every earlier amendment.

    The time-locked seeds stay those of the registration's anchor.
    """

    kind = "amendment"
    signed = True
    experiment: str
    changes: list[FieldChange]
    reason_class: ReasonClass
    reason: str
    timing: Timing
    rests_on: list[str]
    """Identifiers of the entries that set the timing."""
    effect: str
    """What it means for the inference."""
    proposal: Document
    recipe: Document
    full: Document
    frozen: Json
    """As in `Registration`: the amended proposal's front matter as typed values."""
    control: dict[str, Json]
    data: DataState
    num_seeds: int
    power: StatedPower | None = None
    """What the amended rule is expected to say; None where it was not computed."""


class Withdrawal(Body):
    """The owner gives an experiment up. Refers to its registration; everything stays readable."""

    kind = "withdrawal"
    signed = True
    reason: str
    timing: Timing
    rests_on: list[str]
    """Identifiers of the entries that set the timing."""


class Approval(Body):
    """A named reviewer approves what the one entry that it refers to promises.

    The entry is a registration or an amendment of the same subject.
    """

    kind = "approval"
    reviewer: str
    """Short name, as in the registration's `ApprovalRule`."""
    note: str
    """C2SP signed note by the reviewer's key (record-format.md, "Approvals"), verbatim."""


class Embargo(Body):
    """Bodies of the later entries with this subject are withheld from publication.

    Entries of the kinds in `NEVER_WITHHELD` are published all the same.
    """

    kind = "embargo"
    signed = True
    until: str
    """RFC 3339 date: promised to be revealed by its end, in UTC."""
    reason: str


class Reveal(Body):
    """Ends an embargo. Refers to it; the bodies and salts are published from now on."""

    kind = "reveal"
    signed = True
    reason: str = ""
