"""When each registration was made, as far as the record and its anchors can show it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.registry.amended import changed_paths
from workbench.registry.anchored import AnchoredHead, shown, words
from workbench.registry.counts import count_of, entries_of
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Registration,
    RunStarted,
    SweepStarted,
    Withdrawal,
)
from workbench.registry.log import Entry

_KNOWN = {
    "before_any_run": "before anything ran",
    "outcomes_unseen": "after runs, before outcomes were seen",
    "outcomes_seen": "after outcomes were seen",
}
KIND_ORDER = ("rfc3161", "witness", "git", "report")


@dataclass(frozen=True, kw_only=True)
class RegistrationBounds:
    """What the record and its anchors show of when one registration was made."""

    experiment: str
    sequence: int
    """Position of the registration in the log."""
    leaf: str
    recorded: str
    """RFC 3339, by the lab's own clock."""
    not_later: tuple[AnchoredHead, ...]
    """The earliest anchor of each kind that covers it, those whom the reader trusts preferred."""
    seed_head_size: int | None
    """Entries under the recorded head from which the seeds derive; None while there is none."""
    num_runs: int
    """Confirmatory run attempts; their seeds were checked to derive from that head."""
    not_provable: tuple[str, ...]
    explored_before: tuple[int, ...]
    """Entries of exploratory sweeps and runs of the same subject that came before it."""
    changes: tuple[str, ...]
    """Its amendments and its withdrawal, a sentence each."""

    def lines(self) -> Iterator[str]:
        """Yield the bounds, one line each, the registration first."""
        yield f"bound     {self.experiment}: registered as entry {self.sequence}"
        if self.explored_before:
            first, last = self.explored_before[0], self.explored_before[-1]
            span = f"entry {first}" if first == last else f"entries {first} to {last}"
            yield f"  explored before   {span}: the same was tried before it was registered"
        for change in self.changes:
            yield f"  changed           {change}"
        for anchor in self.not_later:
            yield f"  not later than    {_words(anchor)} ({anchor.remark})"
        if self.seed_head_size is not None and self.num_runs:
            yield (
                f"  before its runs   the seeds of {count_of(self.num_runs, 'run attempt')} derive "
                f"from the head over {entries_of(self.seed_head_size)}: none began before that was "
                "signed"
            )
        for reason in self.not_provable:
            yield f"  not provable      {reason}"


def registration_bounds(
    entries: Iterable[Entry], anchors: Sequence[AnchoredHead]
) -> tuple[RegistrationBounds, ...]:
    """Return the bounds of every registration, in the order of the log.

    Args:
        entries: all entries of a verified log, in order; bodies may be hidden.
        anchors: those that were held against the log.
    """
    found: dict[str, _Told] = {}
    explored: dict[str, list[int]] = {}
    for entry in entries:
        told = found.get(entry.subject)
        if entry.kind == Registration.kind:
            before = tuple(explored.get(entry.subject, ()))
            found.setdefault(entry.subject, _Told(registration=entry, explored=before))
        elif told is None:
            if isinstance(entry.body, RunStarted | SweepStarted):
                explored.setdefault(entry.subject, []).append(entry.sequence)
        elif entry.kind in (Amendment.kind, Withdrawal.kind):
            told.changes.append(_change(entry))
        elif isinstance(entry.body, Anchor) and told.head_size is None:
            told.head_size = entry.body.tree_size
        elif isinstance(entry.body, RunStarted) and entry.body.mode == "confirmatory":
            told.num_runs += 1
    return tuple(_bounds(told, anchors) for told in found.values())


def _words(anchor: AnchoredHead) -> str:
    if anchor.kind == "report":
        return f"the moment you kept {anchor.by}, which prints the head"
    if not anchor.moment:
        return f"a time that was not read, {words(anchor)}"
    return f"{shown(anchor.moment)}{'' if anchor.trusted else '?'}, {words(anchor)}"


@dataclass
class _Told:
    registration: Entry
    explored: tuple[int, ...]
    head_size: int | None = field(default=None)
    num_runs: int = field(default=0)
    changes: list[str] = field(default_factory=list)


def _change(entry: Entry) -> str:
    body = entry.body
    if not isinstance(body, Amendment | Withdrawal):
        return f"entry {entry.sequence}: an {entry.kind}, hidden here"
    done = f"{changed_paths(entry)} amended" if isinstance(body, Amendment) else "withdrawn"
    return f"entry {entry.sequence}, {_KNOWN[body.timing]}: {done}"


def _bounds(told: _Told, anchors: Sequence[AnchoredHead]) -> RegistrationBounds:
    registration = told.registration
    covering = [anchor for anchor in anchors if anchor.size > registration.sequence]
    earliest = [best for kind in KIND_ORDER for best in _earliest(kind, covering)]
    return RegistrationBounds(
        experiment=registration.subject,
        sequence=registration.sequence,
        leaf=registration.leaf,
        recorded=registration.time,
        not_later=tuple(earliest),
        seed_head_size=told.head_size,
        num_runs=told.num_runs,
        not_provable=tuple(_not_provable(told, earliest)),
        explored_before=told.explored,
        changes=tuple(told.changes),
    )


def _earliest(kind: str, covering: Sequence[AnchoredHead]) -> Iterator[AnchoredHead]:
    """Yield the earliest anchor that the reader trusts, or else the earliest."""
    of_kind = [anchor for anchor in covering if anchor.kind == kind]
    # An anchor without a moment comes after all that have one.
    dated = sorted(of_kind, key=lambda anchor: (not anchor.moment, anchor.moment, anchor.size))
    trusted = next((anchor for anchor in dated if anchor.trusted), None)
    if trusted is not None:
        yield trusted
    elif dated:
        yield dated[0]


def _not_provable(told: _Told, earliest: Sequence[AnchoredHead]) -> Iterator[str]:
    dated = [anchor for anchor in earliest if anchor.moment]
    if not any(anchor.trusted for anchor in dated):
        unchecked = ", ".join(dict.fromkeys(_NAMES[anchor.kind] for anchor in dated))
        but = f" ({unchecked}: as far as you trust who made it)" if unchecked else ""
        yield (
            f"when: {told.registration.time} is the lab's own clock; nobody whom you named "
            f"vouches for a time{but}"
        )
    if not told.num_runs:
        yield "that it came before its runs: none has begun"
    yield "that nothing like it was tried before, outside of this log"


_NAMES = {"git": "the git commit", "rfc3161": "the time stamp", "witness": "the cosignature"}
