"""Register without publishing yet, and publish later: the two ends of an embargo."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.unraced import Wanted, append_unraced
from workbench.registry.counts import entries_of
from workbench.registry.embargo import (
    OpenEmbargo,
    checked_until,
    is_withheld,
    withholding_of,
)
from workbench.registry.entries import Embargo, Hidden, Redaction, Reveal
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import Proposal

STAYS_PUBLIC = (
    "the folder's name, who wrote each entry and when, and its kind, so also how many trials "
    "and incidents there were"
)
"""What an embargo cannot withhold."""


@dataclass(frozen=True, kw_only=True)
class EmbargoTerms:
    """What is promised of an embargo."""

    until: str
    """``YYYY-MM-DD``: revealed by its end, in UTC."""
    reason: str


def embargo_terms(until: str, reason: str, proposal: Proposal | None) -> EmbargoTerms | None:
    """Return the terms that the command or else the proposal asks for; None without an embargo.

    Raises:
        InvalidFileError: one of the two is missing, or command and proposal differ.
    """
    planned = proposal.embargo if proposal else None
    if not until and not reason:
        return EmbargoTerms(until=planned.until, reason=planned.reason) if planned else None
    if not until or not reason.strip():
        raise InvalidFileError(
            "an embargo has a day and a reason, both of which are published",
            remedy='give --embargo-until YYYY-MM-DD and --embargo-reason "under review"',
        )
    if planned and planned.until != until:
        raise InvalidFileError(
            f"--embargo-until {until} is not the day in the proposal, {planned.until}",
            remedy="leave the options out, or change the proposal's embargo",
        )
    return EmbargoTerms(until=until, reason=reason)


def standing_embargoes(source: LogSource, experiment: str) -> tuple[OpenEmbargo, ...]:
    """Return the embargoes of an experiment that nothing revealed yet, oldest first."""
    return withholding_of(source.entries(subject=experiment)).open


def impose(ledger: Ledger, experiment: str, terms: EmbargoTerms | None) -> OpenEmbargo | None:
    """Put the embargo into the log before what it withholds; return the one that stands, or None.

    An embargo that an interrupted call left standing is not put there twice.

    Raises:
        InvalidFileError: the day is malformed or not to come.
        ConflictError: an embargo until another day stands.
    """
    standing = standing_embargoes(ledger, experiment)
    if standing and terms is not None and standing[0].until != terms.until:
        raise ConflictError(
            f"an embargo of {experiment} until {standing[0].until} stands (entry "
            f"{standing[0].sequence})",
            remedy=f"give --embargo-until {standing[0].until}, or workbench reveal "
            f"{experiment[:4]}",
        )
    if standing or terms is None:
        return standing[0] if standing else None
    checked_until(terms.until, ledger.now().astimezone(UTC).date())
    ledger.append(Embargo(until=terms.until, reason=terms.reason), subject=experiment)
    return standing_embargoes(ledger, experiment)[0]


@dataclass(frozen=True, kw_only=True)
class DraftReveal:
    """What a reveal would make public, for a person to look at before it is written."""

    experiment: str
    embargo: OpenEmbargo
    """The one that ends, the first of them where several stand."""
    refs: tuple[str, ...]
    """Leaves of the embargoes that end."""
    num_entries: int
    """Whose bodies the next publication adds."""
    lost: tuple[int, ...]
    """Entries whose content was erased and can never be published."""


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """What a reveal makes public."""

    entry: Entry
    until: str
    """The day that was promised."""
    num_entries: int
    """Whose bodies the next publication adds."""
    lost: tuple[int, ...]
    """Entries whose content was erased and can never be published."""


def draft_reveal(source: LogSource, experiment: str) -> DraftReveal:
    """Return what ending the embargo of an experiment would publish; writes nothing.

    Raises:
        ConflictError: none stands, or this store has not the bodies that it would publish.
    """
    return _drafted(list(source.entries(subject=experiment)), experiment)


def reveal(ledger: Ledger, experiment: str, *, reason: str) -> Revealed:
    """End the embargo of an experiment, early or late.

    Raises:
        ConflictError: none stands, or this store has not the bodies that it would publish.
    """
    body = Reveal(reason=reason)
    # Of two reveals of one embargo, the second would refer to none that stands.
    entry = append_unraced(
        ledger,
        experiment,
        lambda: Wanted(body=body, refs=list(draft_reveal(ledger, experiment).refs)),
    )
    before = [e for e in ledger.entries(subject=experiment) if e.sequence < entry.sequence]
    draft = _drafted(before, experiment)
    return Revealed(
        entry=entry, until=draft.embargo.until, num_entries=draft.num_entries, lost=draft.lost
    )


def _drafted(entries: Sequence[Entry], experiment: str) -> DraftReveal:
    found = withholding_of(entries)
    if not found.open:
        raise ConflictError(
            f"no embargo of {experiment} stands", remedy="workbench publish, then workbench status"
        )
    withheld = [e for e in entries if is_withheld(found.subjects, e.kind, e.subject, e.sequence)]
    redacted = {ref for e in entries if e.kind == Redaction.kind for ref in e.refs}
    hidden = [e for e in withheld if isinstance(e.body, Hidden)]
    missed = [e for e in hidden if e.leaf not in redacted]
    if missed:
        raise ConflictError(
            f"the content of {entries_of(len(missed))} of {experiment} is not in this store, first "
            f"that of entry {missed[0].sequence}: once revealed, it would be missed",
            remedy="reveal where the store is that they were written to",
        )
    return DraftReveal(
        experiment=experiment,
        embargo=found.open[0],
        refs=tuple(e.leaf for e in found.open),
        num_entries=len(withheld) - len(hidden),
        lost=tuple(e.sequence for e in hidden),
    )
