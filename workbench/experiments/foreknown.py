"""What the log itself holds of an experiment's outcomes before it is registered."""

from collections.abc import Iterator, Sequence

from workbench.errors import Fault
from workbench.experiments.doubts import NO_PILOTS
from workbench.experiments.draft import ProposalDraft
from workbench.registry.amended import OUTCOMES
from workbench.registry.entries import ProxyRun, Registration, RunEnded, SweepEnded, Trial
from workbench.registry.log import Entry, LogSource

_TOLD = OUTCOMES | {Trial.kind, SweepEnded.kind, ProxyRun.kind, RunEnded.kind}
"""Kinds that give whoever made them a value of the metric."""
_UNAWARE = ("none", "related_results")
"""Levels of foreknowledge that claim to know no outcome of this question."""


def explored(source: LogSource, subject: str) -> tuple[Entry, ...]:
    """Return the exploratory entries of an unregistered experiment that show its outcomes.

    Nothing once it is registered: what was stated then is for `verify` to hold against the log.
    """
    entries = list(source.entries(subject=subject))
    if any(entry.kind == Registration.kind for entry in entries):
        return ()
    return tuple(
        entry
        for entry in entries
        if entry.kind in _TOLD and getattr(entry.body, "mode", "") == "exploratory"
    )


def unstated(draft: ProposalDraft, known: Sequence[Entry]) -> Iterator[Fault]:
    """Yield where a proposal says that it knows nothing of what the log shows was tried."""
    if not known:
        return
    runs = sum(entry.kind == RunEnded.kind for entry in known)
    what = f"{len(known)} outcomes of this very experiment ({_span(known)}, exploratory"
    what += f", {runs} at full scale)" if runs else ")"
    if draft.foreknowledge in _UNAWARE:
        yield draft.document.fault(
            ("foreknowledge",),
            f"foreknowledge {draft.foreknowledge!r}, but this lab's log holds {what}",
            f"write {'these_outcomes' if runs else 'pilot_outcomes'}",
        )
    if (draft.pilots_seen or "").strip().rstrip(".").lower() in NO_PILOTS:
        yield draft.document.fault(
            ("pilots_seen",),
            f"pilots_seen {(draft.pilots_seen or '').strip()!r}, but this lab's log holds {what}",
            f"name them, for example: our own exploratory runs, {_span(known)}",
        )


def _span(entries: Sequence[Entry]) -> str:
    first, last = entries[0].sequence, entries[-1].sequence
    return f"entry {first}" if first == last else f"entries {first} to {last}"
