"""What runs under an experiment: its registration, read from the log and never from the files."""

from dataclasses import dataclass

from workbench.errors import ConflictError, IntegrityError, NotRegisteredError
from workbench.experiments.whole import refuse_hidden
from workbench.proxies.recipe import FullScale, Recipe
from workbench.proxies.recipe_file import parsed_full, parsed_recipe
from workbench.registry.amended import Course, course_of
from workbench.registry.entries import Anchor, Hidden, Registration, Withdrawal
from workbench.registry.frontmatter import parse_proposal
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import Proposal
from workbench.registry.seeds import time_locked_seed


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A registration as it is in force, with its anchor, seeds and files as typed values."""

    entry: Entry
    """Its body carries the newest amendment's content, its leaf is the registration's."""
    body: Registration
    amendments: tuple[Entry, ...]
    """Oldest first."""
    anchor: Entry
    seeds: tuple[int, ...]
    """One a repeat, the same in every arm; unsigned 64-bit."""
    proposal: Proposal
    recipe: Recipe
    full: FullScale


def registered(source: LogSource, experiment: str) -> Registered:
    """Return what is in force of an experiment's registration, and everything that runs under it.

    Args:
        source: The log.
        experiment: Folder name ``NNNN-slug``.

    Raises:
        NotRegisteredError: there is none, or a crash left it without its anchor.
        ConflictError: it was withdrawn, or a part of it is hidden from this reader.
    """
    course = course_of(source, experiment)
    entry = require_registration(course.in_force(), experiment)
    refuse_hidden(source, experiment)
    refuse_withdrawn(course, experiment)
    anchor = anchor_entry(source, entry)
    if anchor is None:
        raise NotRegisteredError(
            f"the registration of {experiment} was interrupted before its anchor",
            remedy=f"workbench register {experiment[:4]} (it goes on where it was)",
        )
    body = registration_body(entry)
    return Registered(
        entry=entry,
        body=body,
        amendments=tuple(amendment.entry for amendment in course.amendments),
        anchor=anchor,
        seeds=seeds_of(entry, anchor),
        proposal=parse_proposal(body.proposal.text, body.proposal.path),
        recipe=parsed_recipe(body.recipe.text, body.recipe.path),
        full=parsed_full(body.full.text, body.full.path),
    )


def require_registration(entry: Entry | None, experiment: str) -> Entry:
    """Return the registration's entry.

    Raises:
        NotRegisteredError: there is none.
    """
    if entry is None:
        raise NotRegisteredError(
            f"experiment {experiment} is not registered",
            remedy=f"workbench register {experiment[:4]}, or explore with --exploratory",
        )
    return entry


def refuse_withdrawn(course: Course, experiment: str) -> None:
    """Refuse everything confirmatory of an experiment that was given up.

    Raises:
        ConflictError: it was withdrawn; says when and why.
    """
    if course.withdrawal is None:
        return
    body = course.withdrawal.body
    why = f": {body.reason}" if isinstance(body, Withdrawal) else ""
    raise ConflictError(
        f"{experiment} was withdrawn on {course.withdrawal.time[:10]} "
        f"(entry {course.withdrawal.sequence}){why}",
        remedy='workbench propose "a title", or explore with --exploratory',
    )


def registration_entry(source: LogSource, experiment: str) -> Entry | None:
    """Return the entry that registered an experiment, as it was then, or None."""
    return next(iter(source.entries(kind=Registration.kind, subject=experiment)), None)


def anchor_entry(source: LogSource, registration: Entry) -> Entry | None:
    """Return the first anchor of a registration, which its seeds derive from, or None."""
    anchors = source.entries(kind=Anchor.kind, subject=registration.subject)
    return next((entry for entry in anchors if registration.leaf in entry.refs), None)


def registration_body(entry: Entry) -> Registration:
    """Return the body of a registration's entry.

    Raises:
        ConflictError: its body is hidden from this reader.
        IntegrityError: the entry is of another kind.
    """
    if isinstance(entry.body, Hidden):
        raise ConflictError(
            f"the body of entry {entry.sequence} ({entry.kind}) is hidden here: nothing can run "
            "under it",
            remedy="workbench chronicle says why it is hidden",
        )
    if not isinstance(entry.body, Registration):
        raise IntegrityError(f"entry {entry.sequence} ({entry.kind}) is no registration")
    return entry.body


def seeds_of(registration: Entry, anchor: Entry) -> tuple[int, ...]:
    """Return the time-locked seeds of a registration, by repeat.

    Raises:
        IntegrityError: an entry is not of its kind.
    """
    if not isinstance(anchor.body, Anchor):
        raise IntegrityError(f"entry {anchor.sequence} ({anchor.kind}) is no anchor")
    head = anchor.body.head
    num_seeds = registration_body(registration).num_seeds
    return tuple(time_locked_seed(head, registration.leaf, i) for i in range(num_seeds))
