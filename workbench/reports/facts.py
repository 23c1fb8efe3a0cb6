"""Ledger entries of one experiment as plain values, each with the entry it came from."""

import base64
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Generic, TypeVar

from workbench.errors import InvalidFileError, NotFoundError
from workbench.registry.amended import Course, followed
from workbench.registry.embargo import OpenEmbargo, withholding_of
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Body,
    Decision,
    Deviation,
    Exposure,
    Forecast,
    Genesis,
    Hidden,
    Incident,
    Look,
    NoiseFloor,
    Note,
    Promotion,
    ProxyRun,
    Registration,
    RunEnded,
    RunStarted,
    SweepEnded,
    SweepStarted,
    Trial,
    Verdict,
    Withdrawal,
)
from workbench.registry.hidden import HiddenEntry, hidden_entries
from workbench.registry.log import Entry, LogSource
from workbench.registry.merkle import tree_root
from workbench.registry.proposal import Proposal
from workbench.reports import findings

Source = findings.Source
ValueT_co = TypeVar("ValueT_co", covariant=True)
KindT = TypeVar("KindT", bound=Body)


@dataclass(frozen=True, kw_only=True)
class Cited(Generic[ValueT_co]):
    """A value with the entries that it was read or computed from."""

    value: ValueT_co
    sources: tuple[Source, ...]
    """In the order of the ledger; never empty."""

    @property
    def leaf(self) -> str:
        """Leaf hash of the first source."""
        return self.sources[0].leaf

    @property
    def id(self) -> str:
        """Identifier of the first source."""
        return self.sources[0].id

    @property
    def kind(self) -> str:
        """Kind of the first source."""
        return self.sources[0].kind

    @property
    def time(self) -> str:
        """Time of the last source."""
        return self.sources[-1].time


@dataclass(frozen=True, kw_only=True)
class SweepFacts:
    """One sweep: its starts, its trials in the order they ended, and its end."""

    mode: str
    starts: tuple[Cited[SweepStarted], ...]
    trials: tuple[Cited[Trial], ...]
    ends: tuple[Cited[SweepEnded], ...]


@dataclass(frozen=True, kw_only=True)
class ExperimentFacts:
    """Everything that the ledger holds about one subject."""

    experiment: str
    lab: str
    """The lab's name as the first entry of the log gives it; the log's origin if it has none."""
    origin: str
    entries: tuple[Entry, ...]
    """In the order of the ledger; never empty."""
    tree_head: str
    """Origin, size and root of the log up to the last of these entries, as C2SP writes them."""
    registration: Cited[Registration] | None
    """As it is in force: with the newest amendment's content, and cited with it."""
    original: Cited[Registration] | None
    """As it was first made."""
    proposal: Proposal | None
    """The front matter in force."""
    course: Course
    """The registration's amendments and withdrawal, with what was known at each."""
    amendments: tuple[Cited[Amendment], ...]
    withdrawal: Cited[Withdrawal] | None
    anchors: tuple[Cited[Anchor], ...]
    sweep: SweepFacts | None
    """The confirmatory sweep."""
    exploratory: SweepFacts | None
    """What was tried outside the registration, watermarked."""
    proxy_runs: tuple[Cited[ProxyRun], ...]
    """These and what follows from them are confirmatory, or exploratory without registration."""
    promotion: Cited[Promotion] | None
    forecasts: tuple[Cited[Forecast], ...]
    starts: tuple[Cited[RunStarted], ...]
    ends: tuple[Cited[RunEnded], ...]
    decisions: tuple[Cited[Decision], ...]
    notes: tuple[Cited[Note], ...]
    deviations: tuple[Cited[Deviation], ...]
    incidents: tuple[Cited[Incident], ...]
    exposures: tuple[Cited[Exposure], ...]
    looks: tuple[Cited[Look], ...]
    """Those of the registered rule before the verdict; after a late amendment in either mode."""
    noise_floor: Cited[NoiseFloor] | None
    """The entry that the rule in force names, whatever its subject."""
    verdict: Cited[Verdict] | None
    hidden: tuple[HiddenEntry, ...]
    """Entries whose bodies an embargo withholds or a redaction erased, in order."""
    hidden_floor: HiddenEntry | None
    """The noise floor that the rule names, where this reader lacks its content."""
    embargo: OpenEmbargo | None
    """What stands between them and publication."""
    embargo_expired: bool
    """Whether the promised day was over when the log's last entry was written."""

    @property
    def as_of(self) -> Source:
        """The last entry that concerns the experiment."""
        return source_of(self.entries[-1])

    @property
    def title(self) -> str:
        """The registered title, or the subject's name while nothing is registered."""
        return self.registration.value.title if self.registration else self.experiment

    @property
    def confirmatory(self) -> bool:
        """Whether there is a registration that could support a verdict, hidden or not."""
        return self.registration is not None or self.promise_hidden

    @property
    def promise_hidden(self) -> bool:
        """Whether there is a registration and this reader has not what is in force of it."""
        return self.registration is None and self.course.registration is not None

    @property
    def uncounted(self) -> tuple[Source, ...]:
        """Hidden trials and runs: what they cost and how they ended is in no figure."""
        kinds = (Trial.kind, ProxyRun.kind, RunEnded.kind)
        return tuple(source_of(h.entry) for h in self.hidden if h.entry.kind in kinds)

    def hides(self, kind: str) -> bool:
        """Return whether an entry of this kind is hidden from this reader."""
        return any(found.entry.kind == kind for found in self.hidden)


def source_of(entry: Entry) -> Source:
    """Return where an entry stands."""
    return Source(
        sequence=entry.sequence,
        leaf=entry.leaf,
        id=entry.id,
        kind=entry.kind,
        time=entry.time,
        actor=entry.actor,
    )


def of_kind(entries: Iterable[Entry], kind: type[KindT]) -> tuple[Cited[KindT], ...]:
    """Return the bodies of one kind, each with its entry."""
    return tuple(
        Cited(value=entry.body, sources=(source_of(entry),))
        for entry in entries
        if isinstance(entry.body, kind)
    )


def experiment_facts(source: LogSource, experiment: str) -> ExperimentFacts:
    """Return what the ledger says about an experiment, or about an exploratory subject.

    Raises:
        NotFoundError: no entry has this subject.
        InvalidFileError: the registered front matter is not one that this version reads.
    """
    entries = tuple(source.entries(subject=experiment))
    if not entries:
        raise NotFoundError(
            f"the ledger has no entry about {experiment!r}",
            remedy=f"workbench register {experiment}",
        )
    course = followed(entries)
    first = (course.registration,) if course.registration else ()
    original = _last(of_kind(first, Registration))
    registration = in_force(course)
    mode = "confirmatory" if course.registration else "exploratory"
    told = [entry for entry in entries if getattr(entry.body, "mode", mode) == mode]
    genesis = _last(of_kind(source.entries(kind=Genesis.kind), Genesis))
    embargo = next(iter(withholding_of(entries).open), None)
    proposal = registered_proposal(registration.value) if registration else None
    floor = _floor_entry(source, proposal)
    return ExperimentFacts(
        experiment=experiment,
        lab=genesis.value.lab if genesis else source.origin,
        origin=source.origin,
        entries=entries,
        tree_head=tree_head(source, entries[-1].sequence + 1),
        registration=registration,
        original=original,
        proposal=proposal,
        course=course,
        amendments=of_kind(entries, Amendment),
        withdrawal=_last(of_kind(entries, Withdrawal)),
        anchors=of_kind(entries, Anchor),
        sweep=_sweep(entries, "confirmatory"),
        exploratory=_sweep(entries, "exploratory"),
        proxy_runs=of_kind(told, ProxyRun),
        promotion=_last(of_kind(told, Promotion)),
        forecasts=of_kind(told, Forecast),
        starts=of_kind(entries, RunStarted),
        ends=of_kind(entries, RunEnded),
        decisions=of_kind(entries, Decision),
        notes=of_kind(entries, Note),
        deviations=of_kind(entries, Deviation),
        incidents=of_kind(entries, Incident),
        exposures=of_kind(entries, Exposure),
        looks=_looks(entries, course, mode),
        noise_floor=_last(of_kind(floor, NoiseFloor)),
        # In whatever mode: one that nothing was registered for, or that says another mode than the
        # log gives, is shown and fails the audit.
        verdict=_last(of_kind(entries, Verdict)),
        hidden=hidden_entries(entries),
        hidden_floor=_hidden_floor(source, floor),
        embargo=embargo,
        embargo_expired=embargo is not None and embargo.is_expired(_newest(source)),
    )


def _looks(entries: Sequence[Entry], course: Course, mode: str) -> tuple[Cited[Look], ...]:
    late = min((amendment.entry.sequence for amendment in course.late()), default=None)
    return tuple(
        look
        for look in of_kind(entries, Look)
        if look.value.mode == mode or (late is not None and look.sources[0].sequence > late)
    )


def _floor_entry(source: LogSource, proposal: Proposal | None) -> tuple[Entry, ...]:
    """Return the entry whose leaf the rule names as its noise floor; nothing if there is none."""
    leaf = proposal.decision.noise_floor if proposal else ""
    floors = source.entries(kind=NoiseFloor.kind) if leaf else iter(())
    return tuple(islice((entry for entry in floors if entry.leaf == leaf), 1))


def _hidden_floor(source: LogSource, floor: tuple[Entry, ...]) -> HiddenEntry | None:
    leaves = {entry.leaf for entry in floor if isinstance(entry.body, Hidden)}
    if not leaves:
        return None
    among = hidden_entries(source.entries(subject=floor[0].subject))
    return next(found for found in among if found.entry.leaf in leaves)


def _newest(source: LogSource) -> datetime:
    """Return the time of a log's last entry: what a chronicle takes for now."""
    (last,) = deque(source.entries(), maxlen=1)
    return datetime.fromisoformat(last.time)


def in_force(course: Course) -> Cited[Registration] | None:
    """Return the registration with its newest amendment's content, citing both entries."""
    entry = course.in_force()
    if entry is None or not isinstance(entry.body, Registration):
        return None
    newest = course.amendments[-1:]
    sources = (source_of(entry), *(source_of(amendment.entry) for amendment in newest))
    return Cited(value=entry.body, sources=sources)


def tree_head(source: LogSource, size: int) -> str:
    """Return the text of the tree head (C2SP tlog-checkpoint) over the first entries of a log."""
    leaves = [bytes.fromhex(entry.leaf) for entry in islice(source.entries(), size)]
    root = base64.b64encode(tree_root(leaves)).decode()
    return f"{source.origin}\n{size}\n{root}\n"


def registered_proposal(registration: Registration) -> Proposal:
    """Return the typed front matter of a registration.

    Raises:
        InvalidFileError: it does not fit the model of a proposal.
    """
    try:
        # The frozen copy carries floats as decimal strings, which strict mode would refuse.
        return Proposal.model_validate(registration.frozen, strict=False)
    except ValueError as error:
        raise InvalidFileError(
            f"the registration of {registration.experiment!r} does not fit the proposal model: "
            f"{error}",
            remedy="workbench verify",
        ) from error


def merged_sources(cited: Sequence[Cited[object]]) -> tuple[Source, ...]:
    """Return the distinct sources of several values in the order of the ledger."""
    found = {source.sequence: source for item in cited for source in item.sources}
    return tuple(found[sequence] for sequence in sorted(found))


def _sweep(entries: Sequence[Entry], mode: str) -> SweepFacts | None:
    starts = tuple(c for c in of_kind(entries, SweepStarted) if c.value.mode == mode)
    trials = tuple(c for c in of_kind(entries, Trial) if c.value.mode == mode)
    ends = tuple(c for c in of_kind(entries, SweepEnded) if c.value.mode == mode)
    if not (starts or trials or ends):
        return None
    return SweepFacts(mode=mode, starts=starts, trials=trials, ends=ends)


def _last(found: tuple[Cited[KindT], ...]) -> Cited[KindT] | None:
    return found[-1] if found else None
