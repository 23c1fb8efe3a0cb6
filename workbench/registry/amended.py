"""What is in force of a registration: its amendments, its withdrawal, and what was known when.

The log alone decides. What an entry says of its own timing is compared with it and never believed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from workbench.registry.entries import (
    Amendment,
    Exposure,
    Forecast,
    Hidden,
    Look,
    Promotion,
    ProxyRun,
    Registration,
    RunEnded,
    RunStarted,
    SweepEnded,
    SweepStarted,
    Timing,
    Trial,
    Verdict,
    Withdrawal,
)
from workbench.registry.log import Entry, LogSource

OUTCOMES = frozenset({Exposure.kind, Look.kind, Promotion.kind, Verdict.kind})
"""Kinds that show outcomes to whoever made them: a look, proxy results against the control, or the
result itself. In either mode: who explores the same question has seen its outcomes, too."""
WORK = frozenset(
    body.kind
    for body in (
        SweepStarted, Trial, SweepEnded, ProxyRun, Promotion, Forecast, RunStarted, RunEnded,
        Look, Verdict,
    )
)  # fmt: skip
"""Kinds that say in which mode they were done."""
_CHANGES = frozenset({Amendment.kind, Withdrawal.kind})
_SERIES = WORK - OUTCOMES - {RunStarted.kind, RunEnded.kind}
"""Kinds of which only the first matters here."""
FOLLOWED = WORK | OUTCOMES | {Registration.kind, Amendment.kind, Withdrawal.kind}
"""The kinds that a course takes into account; entries of others need not be shown to it."""

EFFECTS: dict[Timing, str] = {
    "before_any_run": "none on the inference: nothing had run, the verdict stays confirmatory; "
    "the amendment is listed with it",
    "outcomes_unseen": "the verdict stays confirmatory: nothing was promoted, opened or judged "
    "yet; the amendment is listed with it",
    "outcomes_seen": "the verdict will be exploratory and void: the change came after outcomes "
    "were seen; estimate and interval are still reported",
}
"""What an amendment of each timing means for the verdict; recorded in the amendment."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was known of an experiment's outcomes at a point of the log."""

    timing: Timing
    rests_on: tuple[Entry, ...]
    """The entries that say so: each that showed outcomes, else the first work, else the
    registration."""
    certain: bool
    """False when an entry that could change it is hidden from this reader."""


@dataclass(frozen=True, kw_only=True)
class AmendmentInForce:
    """An amendment with what the log shows was known when it was made."""

    entry: Entry
    known: Known

    @property
    def is_late(self) -> bool:
        """Whether it was made after outcomes were seen."""
        return self.known.timing == "outcomes_seen"


@dataclass
class Course:
    """One experiment's registration and what became of it, followed entry by entry."""

    registration: Entry | None = None
    amendments: list[AmendmentInForce] = field(default_factory=list)
    withdrawal: Entry | None = None
    known_at_withdrawal: Known | None = None
    verdict: Entry | None = None
    first_work: Entry | None = None
    outcomes: list[Entry] = field(default_factory=list)
    num_seeds_run: int = 0
    """One more than the largest seed index of a confirmatory run."""
    certain: bool = True
    _open_runs: set[str] = field(default_factory=set)

    def follow(self, entry: Entry) -> None:
        """Take the next entry of this experiment into account."""
        if self.first_work is not None and entry.kind in _SERIES:
            return
        if self.registration is None:
            # What was explored before is foreknowledge, which the proposal states.
            if entry.kind == Registration.kind:
                self.registration = entry
            return
        if entry.kind == Amendment.kind:
            self.amendments.append(AmendmentInForce(entry=entry, known=self.known()))
        elif entry.kind == Withdrawal.kind:
            self.known_at_withdrawal = self.known_at_withdrawal or self.known()
            self.withdrawal = self.withdrawal or entry
        self._work(entry)

    def _work(self, entry: Entry) -> None:
        if entry.kind in OUTCOMES:
            self.outcomes.append(entry)
        if entry.kind == Verdict.kind:
            self.verdict = self.verdict or entry
        if entry.kind in WORK and isinstance(entry.body, Hidden):
            self.certain = False
        if is_confirmatory_work(entry):
            self.first_work = self.first_work or entry
            self._runs(entry)

    def _runs(self, entry: Entry) -> None:
        if isinstance(entry.body, RunStarted):
            self.num_seeds_run = max(self.num_seeds_run, entry.body.seed_index + 1)
            self._open_runs.add(entry.leaf)
        elif isinstance(entry.body, RunEnded):
            self._open_runs.difference_update(entry.refs)

    def known(self) -> Known:
        """Return what an amendment or a withdrawal that comes next must say was known."""
        if self.outcomes:
            return Known(timing="outcomes_seen", rests_on=tuple(self.outcomes), certain=True)
        if self.first_work is not None:
            return Known(
                timing="outcomes_unseen", rests_on=(self.first_work,), certain=self.certain
            )
        rests_on = (self.registration,) if self.registration else ()
        return Known(timing="before_any_run", rests_on=rests_on, certain=self.certain)

    def ends_open_run(self, entry: Entry) -> bool:
        """Return whether the entry is the end of a run that began before."""
        return entry.kind == RunEnded.kind and not self._open_runs.isdisjoint(entry.refs)

    def late(self) -> list[AmendmentInForce]:
        """Return the amendments that were made after outcomes were seen, oldest first."""
        return [amendment for amendment in self.amendments if amendment.is_late]

    def in_force(self) -> Entry | None:
        """Return the registration with the newest amendment's content; its leaf stays its own.

        Where one of the two is hidden from this reader, so is the body.
        """
        if self.registration is None or not self.amendments:
            return self.registration
        return amended(self.registration, self.amendments[-1].entry)


def course_of(source: LogSource, experiment: str) -> Course:
    """Return what became of an experiment's registration up to now."""
    return followed(source.entries(subject=experiment))


def followed(entries: Iterable[Entry]) -> Course:
    """Return what became of a registration.

    Args:
        entries: All of one subject, in the order of the log.
    """
    course = Course()
    for entry in entries:
        course.follow(entry)
    return course


def effective(source: LogSource, experiment: str) -> Entry | None:
    """Return an experiment's registration with what its newest amendment put in force, or None."""
    return course_of(source, experiment).in_force()


def amended(registration: Entry, amendment: Entry) -> Entry:
    """Return the registration's entry with a body that carries the amendment's content."""
    before, change = registration.body, amendment.body
    if not isinstance(before, Registration) or not isinstance(change, Amendment):
        return replace(registration, body=Hidden())
    frozen = change.frozen
    title = frozen.get("title") if isinstance(frozen, dict) else None
    body = before.model_copy(
        update={
            "title": title if isinstance(title, str) else before.title,
            "proposal": change.proposal,
            "recipe": change.recipe,
            "full": change.full,
            "frozen": frozen,
            "control": change.control,
            "data": change.data,
            "num_seeds": change.num_seeds,
            "power": change.power,
        }
    )
    return replace(registration, body=body)


def is_confirmatory_work(entry: Entry) -> bool:
    """Return whether the entry claims to be part of what was registered."""
    return getattr(entry.body, "mode", "") == "confirmatory"


def late_reasons(course: Course) -> list[str]:
    """Return why late amendments make a verdict void, a sentence each; none if there are none."""
    reasons = []
    for amendment in course.late():
        entry, seen = amendment.entry, amendment.known.rests_on[0]
        what = changed_paths(entry)
        reasons.append(
            f"{what} amended (entry {entry.sequence}) after outcomes were seen "
            f"({seen.kind}, entry {seen.sequence})"
        )
    return reasons


def changed_paths(amendment: Entry, most: int = 3) -> str:
    """Return the first changed fields of an amendment in words, like ``a, b and 2 more``."""
    if not isinstance(amendment.body, Amendment):
        return "what is hidden from this reader was"
    paths = [f"{change.document} {change.path}" for change in amendment.body.changes]
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"{', '.join(paths[:most])}{more} {'was' if len(paths) == 1 else 'were'}"


class ChangeWatch:
    """Looks at a log's entries one by one for amendments and withdrawals that cannot be right."""

    def __init__(self) -> None:
        self._courses: dict[str, Course] = {}

    def faults(self, entry: Entry) -> Iterator[str]:
        """Yield what is wrong with the next entry, given all before it."""
        if entry.kind not in FOLLOWED:
            return
        course = self._courses.get(entry.subject)
        if course is None:
            course = self._courses[entry.subject] = Course()
        if course.withdrawal is not None or entry.kind in _CHANGES:
            for fault in _faults_of(entry, course):
                yield f"entry {entry.sequence} ({entry.kind} {entry.id}): {fault}"
        course.follow(entry)

    def num_seeds(self, registration: Entry) -> int:
        """Return how many repeats are in force of a registration at this point of the log."""
        in_force = self._courses.get(registration.subject, Course()).in_force()
        body = in_force.body if in_force else registration.body
        return body.num_seeds if isinstance(body, Registration) else 0


def _faults_of(entry: Entry, course: Course) -> Iterator[str]:
    if entry.kind in _CHANGES:
        yield from _place_faults(entry, course)
        yield from _timing_faults(entry, course)
        if isinstance(entry.body, Amendment):
            yield from _content_faults(entry.body, course)
    elif course.withdrawal and is_confirmatory_work(entry) and not course.ends_open_run(entry):
        yield (
            f"it claims to be confirmatory, but {entry.subject} was withdrawn before "
            f"(entry {course.withdrawal.sequence})"
        )


def _place_faults(entry: Entry, course: Course) -> Iterator[str]:
    wanted = [course.registration] if course.registration else []
    if entry.kind == Amendment.kind:
        wanted += [amendment.entry for amendment in course.amendments]
    if course.registration is None:
        yield f"{entry.subject} is not registered before it"
    for missing in (earlier for earlier in wanted if earlier.leaf not in entry.refs):
        yield f"it does not refer to the {missing.kind} before it, entry {missing.sequence}"
    if course.verdict is not None:
        yield f"{entry.subject} has its verdict before it (entry {course.verdict.sequence})"
    if course.withdrawal is not None:
        yield f"{entry.subject} was withdrawn before it (entry {course.withdrawal.sequence})"


def _timing_faults(entry: Entry, course: Course) -> Iterator[str]:
    body, known = entry.body, course.known()
    if not isinstance(body, Amendment | Withdrawal) or not known.certain:
        return
    shown = [other.id for other in known.rests_on]
    if body.timing != known.timing:
        why = ", ".join(f"{other.kind}, entry {other.sequence}" for other in known.rests_on)
        yield f"it says {body.timing}, the log shows {known.timing} ({why})"
    elif body.rests_on != shown:
        yield f"it rests its timing on {body.rests_on}, the log shows {shown}"


def _content_faults(body: Amendment, course: Course) -> Iterator[str]:
    if body.num_seeds < course.num_seeds_run:
        yield (
            f"it leaves {body.num_seeds} seed{'' if body.num_seeds == 1 else 's'} an arm, "
            f"seed {course.num_seeds_run - 1} had run before"
        )
    design = body.frozen.get("design") if isinstance(body.frozen, dict) else None
    promised = design.get("seeds") if isinstance(design, dict) else None
    if promised != body.num_seeds:
        yield f"it says {body.num_seeds} seeds, its proposal {promised}"
    if not body.changes:
        yield "it names no change"
