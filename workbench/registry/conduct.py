"""Whether what a log records was done in the right order: registered, anchored, then run."""

from collections.abc import Iterator, Sequence

from workbench.errors import IntegrityError
from workbench.registry.amended import Course
from workbench.registry.entries import Anchor, Registration, RunEnded, RunStarted
from workbench.registry.heads import verify_head
from workbench.registry.log import Entry
from workbench.registry.notes import VerifierKey
from workbench.registry.seeds import time_locked_seed


def order_faults(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield where a confirmatory entry does not rest on an earlier registration of its subject.

    Also where an experiment is registered twice, which would be a choice among seeds, and where an
    attempt ends that did not begin.
    """
    earlier: dict[str, Entry] = {}
    registered: set[str] = set()
    for entry in entries:
        rests_on = [earlier[ref] for ref in entry.refs if ref in earlier]
        if isinstance(entry.body, Registration):
            if entry.subject in registered:
                yield f"{_name(entry)}: {entry.subject} was registered before"
            registered.add(entry.subject)
        elif isinstance(entry.body, RunEnded):
            if not any(_begins(start, entry) for start in rests_on):
                yield f"{_name(entry)}: it refers to no start of {entry.body.run} by this attempt"
        elif is_confirmatory(entry) and _registration_of(entry, rests_on) is None:
            yield f"{_name(entry)}: it refers to no earlier registration of {entry.subject}"
        earlier[entry.leaf] = entry


def anchor_faults(
    entries: Sequence[Entry], roots: Sequence[bytes], key: VerifierKey
) -> Iterator[str]:
    """Yield where an anchor's head is not this log's, or does not cover its registration.

    Args:
        entries: all entries in order.
        roots: root of each prefix, the empty one first.
        key: the log's verifier key.
    """
    by_leaf = {entry.leaf: entry for entry in entries}
    for entry in entries:
        if not isinstance(entry.body, Anchor):
            continue
        fault = _anchor_fault(entry, entry.body, roots, key)
        covered = _registration_of(entry, [by_leaf[ref] for ref in entry.refs])
        if not fault and covered is None:
            fault = f"it refers to no registration of {entry.subject}"
        if not fault and covered is not None and covered.sequence >= entry.body.tree_size:
            fault = f"its head does not cover the registration, entry {covered.sequence}"
        if fault:
            yield f"{_name(entry)}: {fault}"


def seed_faults(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield where a confirmatory run's seed is not the one that its registration's anchor gives.

    The first anchor of a registration counts: later ones would be a choice among seeds.
    """
    by_leaf = {entry.leaf: entry for entry in entries}
    anchors: dict[str, Anchor] = {}
    courses: dict[str, Course] = {}
    for entry in entries:
        courses.setdefault(entry.subject, Course()).follow(entry)
        rests_on = [by_leaf[ref] for ref in entry.refs]
        registration = _registration_of(entry, rests_on)
        if registration is None:
            continue
        if isinstance(entry.body, Anchor):
            anchors.setdefault(registration.leaf, entry.body)
        elif isinstance(entry.body, RunStarted) and entry.body.mode == "confirmatory":
            anchor = anchors.get(registration.leaf)
            in_force = courses[entry.subject].in_force() or registration
            fault = _seed_fault(entry.body, in_force, anchor)
            if fault:
                yield f"{_name(entry)}: {fault}"


def _anchor_fault(entry: Entry, body: Anchor, roots: Sequence[bytes], key: VerifierKey) -> str:
    try:
        head = verify_head(body.head, key)
    except IntegrityError as error:
        return f"its head does not verify: {error.message}"
    if head.size != body.tree_size or head.size > entry.sequence:
        return f"its head is of size {head.size}, it says {body.tree_size}"
    if roots[head.size] != head.root:
        return f"its head of size {head.size} was signed over other entries"
    return ""


def _seed_fault(run: RunStarted, registration: Entry, anchor: Anchor | None) -> str:
    registered = registration.body
    if not isinstance(registered, Registration) or anchor is None:
        return "its registration has no anchor before it"
    if run.arm not in registered.arms or not 0 <= run.seed_index < registered.num_seeds:
        return f"{run.arm} seed {run.seed_index} was not registered"
    expected = time_locked_seed(anchor.head, registration.leaf, run.seed_index)
    return "" if run.seed == str(expected) else f"its seed is {run.seed}, not {expected}"


def is_confirmatory(entry: Entry) -> bool:
    """Return whether the entry claims to have been done under a registration."""
    return getattr(entry.body, "mode", "") == "confirmatory"


def _registration_of(entry: Entry, rests_on: Sequence[Entry]) -> Entry | None:
    """Return the registration of the entry's own subject among those that it refers to."""
    same = [e for e in rests_on if e.kind == Registration.kind and e.subject == entry.subject]
    return same[0] if same else None


def _begins(start: Entry, end: Entry) -> bool:
    begun, ended = start.body, end.body
    return (
        isinstance(begun, RunStarted)
        and isinstance(ended, RunEnded)
        and (begun.run, begun.attempt, begun.mode) == (ended.run, ended.attempt, ended.mode)
        and start.subject == end.subject
    )


def _name(entry: Entry) -> str:
    return f"entry {entry.sequence} ({entry.kind} {entry.id})"
