"""Which bodies a log withholds, until when, and whether a missing body is accounted for.

A body is withheld while an embargo of its subject stands: from the embargo's entry on, for all
kinds but those of `NEVER_WITHHELD`, until a reveal of the same subject refers to the embargo.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from workbench.errors import InvalidFileError
from workbench.registry.entries import NEVER_WITHHELD, Embargo, Redaction, Reveal
from workbench.registry.log import Entry


@dataclass(frozen=True, kw_only=True)
class OpenEmbargo:
    """An embargo that nothing revealed yet."""

    subject: str
    sequence: int
    """Of its entry: bodies before it are published."""
    leaf: str
    until: str
    reason: str

    def is_expired(self, now: datetime) -> bool:
        """Return whether the promised day is over, in UTC. An unreadable day is over."""
        try:
            promised = date.fromisoformat(self.until)
        except ValueError:
            return True
        return now.astimezone(UTC).date() > promised


@dataclass(frozen=True, kw_only=True)
class Hole:
    """An entry of which this copy of the log has neither body nor salt."""

    sequence: int
    leaf: str
    kind: str
    subject: str


@dataclass(kw_only=True)
class Withholding:
    """What a log withholds and erased, followed along its entries in order."""

    _open: dict[str, OpenEmbargo] = field(default_factory=dict)
    """By leaf of the embargo."""
    _redacted: dict[str, str] = field(default_factory=dict)
    """Subject of the redaction by the leaf that it names."""

    def follow(self, entry: Entry) -> None:
        """Go on by one entry; only embargoes, reveals and redactions matter."""
        body = entry.body
        if isinstance(body, Embargo):
            self._open[entry.leaf] = OpenEmbargo(
                subject=entry.subject,
                sequence=entry.sequence,
                leaf=entry.leaf,
                until=body.until,
                reason=body.reason,
            )
        elif isinstance(body, Reveal):
            for leaf in entry.refs:
                found = self._open.get(leaf)
                if found is not None and found.subject == entry.subject:
                    del self._open[leaf]
        elif isinstance(body, Redaction):
            self._redacted.update(dict.fromkeys(entry.refs, entry.subject))

    @property
    def open(self) -> tuple[OpenEmbargo, ...]:
        """The embargoes that stand, oldest first."""
        return tuple(sorted(self._open.values(), key=lambda embargo: embargo.sequence))

    @property
    def subjects(self) -> Mapping[str, int]:
        """Position of the oldest standing embargo by subject."""
        return {found.subject: found.sequence for found in reversed(self.open)}

    def withholds(self, hole: Hole) -> bool:
        """Return whether a standing embargo withholds the body of this entry from publication."""
        return is_withheld(self.subjects, hole.kind, hole.subject, hole.sequence)

    def redacts(self, hole: Hole) -> bool:
        """Return whether a redaction names this entry and may do so."""
        named = self._redacted.get(hole.leaf)
        return named == hole.subject and hole.kind not in NEVER_WITHHELD

    def accounts_for(self, hole: Hole) -> bool:
        """Return whether the record itself says why this body is missing."""
        return self.redacts(hole) or self.withholds(hole)


def is_withheld(subjects: Mapping[str, int], kind: str, subject: str, sequence: int) -> bool:
    """Return whether a body is withheld, given the standing embargoes (`Withholding.subjects`)."""
    since = subjects.get(subject)
    return since is not None and since < sequence and kind not in NEVER_WITHHELD


def withholding_of(entries: Iterable[Entry]) -> Withholding:
    """Return what these entries, in order, withhold."""
    found = Withholding()
    for entry in entries:
        found.follow(entry)
    return found


def redaction_fault(subject: str, target: Entry) -> str:
    """Return why a redaction of this subject may not erase the entry; empty when it may."""
    name = f"entry {target.sequence} ({target.kind} {target.id})"
    if target.kind in NEVER_WITHHELD:
        return f"{name} is of a kind that is never erased: verification rests on its body"
    if target.subject != subject:
        return f"{name} is of {target.subject}, not of {subject}"
    return ""


def checked_until(text: str, today: date) -> str:
    """Return the day of an embargo's end, ``YYYY-MM-DD``.

    Raises:
        InvalidFileError: it is no such day, or not in the future.
    """
    try:
        until = date.fromisoformat(text)
    except ValueError:
        until = date.min
    if until.isoformat() != text:
        raise InvalidFileError(
            f"the end of the embargo {text!r} is not a day like {today.year + 1}-01-31",
            remedy=f"--embargo-until {today.year + 1}-01-31",
        )
    if until <= today:
        raise InvalidFileError(
            f"the embargo would end on {text}, which is not after today ({today}, UTC)",
            remedy="give a day to come, or register without an embargo",
        )
    return text
