"""Whether what a log records was done in the right order: registered, anchored, then run.

Of the entries, only those are remembered that a later one may have to refer to.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.errors import IntegrityError
from workbench.registry.amended import OUTCOMES, WORK, ChangeWatch, is_confirmatory_work
from workbench.registry.approvals import ApprovalCheck
from workbench.registry.checks import Examination
from workbench.registry.embargo import redaction_fault
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Approval,
    Embargo,
    Hidden,
    Redaction,
    Registration,
    Reveal,
    RunEnded,
    RunStarted,
    Withdrawal,
)
from workbench.registry.evidence import Batch, Evidence
from workbench.registry.log import Entry, read_entry
from workbench.registry.seeds import time_locked_seed

_CHANGES = frozenset(body.kind for body in (Registration, Amendment, Withdrawal))
_FOLLOWED = WORK | OUTCOMES | _CHANGES | {Approval.kind}
"""The kinds that say what became of a registration."""


class OrderCheck(Examination):
    """What was done under a registration came after it and names it, and so do later changes."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._watch = ChangeWatch()
        self._registered: dict[str, str] = {}
        """Leaf hash of the registration, by subject."""
        self._approvals = ApprovalCheck()
        self._starts: dict[str, tuple[str, RunStarted | Hidden]] = {}
        """Subject and body of each attempt, by leaf hash."""
        self._embargoes: dict[str, str] = {}
        """Subject of each standing embargo, by leaf hash."""
        self._redactions: list[Entry] = []
        self._confirmatory = 0
        self._steps: dict[str, Callable[[Entry], str]] = {
            Registration.kind: self._register,
            RunStarted.kind: self._start,
            RunEnded.kind: self._end,
            Amendment.kind: self._amend,
            Embargo.kind: self._withhold,
            Reveal.kind: self._reveal,
            Redaction.kind: self._redact,
        }

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield where an entry does not rest on what it must rest on."""
        for at in batch.of_kinds(_FOLLOWED | self._steps.keys()):
            yield from self._faults(batch.entry(at))

    def close(self) -> Iterator[str]:
        """Yield the redactions that erase what must stay."""
        for entry in self._redactions:
            fault = redaction_fault(entry.subject, self._referred(entry.refs[0]))
            if fault:
                yield f"{_name(entry)}: {fault}"

    def extent(self) -> str:
        """Return how much was done under registrations."""
        return f"{self._confirmatory} confirmatory entries"

    def _faults(self, entry: Entry) -> Iterator[str]:
        confirmatory = is_confirmatory_work(entry)
        self._confirmatory += confirmatory
        step = self._steps.get(entry.kind)
        fault = step(entry) if step else ""
        if not fault and confirmatory and entry.kind != RunEnded.kind:
            fault = self._unregistered(entry)
        if fault:
            yield f"{_name(entry)}: {fault}"
        yield from self._approvals.follow(entry)
        if entry.kind in _CHANGES or (
            entry.kind in _FOLLOWED and entry.subject in self._registered
        ):
            yield from self._watch.faults(entry)

    def _unregistered(self, entry: Entry) -> str:
        if self._registered.get(entry.subject) in entry.refs:
            return ""
        return f"it refers to no earlier registration of {entry.subject}"

    def _register(self, entry: Entry) -> str:
        if entry.subject in self._registered:
            return f"{entry.subject} was registered before"
        self._registered[entry.subject] = entry.leaf
        return ""

    def _start(self, entry: Entry) -> str:
        if isinstance(entry.body, RunStarted | Hidden):
            self._starts[entry.leaf] = (entry.subject, entry.body)
        return ""

    def _end(self, entry: Entry) -> str:
        if not isinstance(entry.body, RunEnded):
            return ""
        begun = [self._starts[ref] for ref in entry.refs if ref in self._starts]
        if any(_begins(subject, start, entry) for subject, start in begun):
            return ""
        return f"it refers to no start of {entry.body.run} by this attempt"

    def _amend(self, entry: Entry) -> str:
        if isinstance(entry.body, Amendment) and entry.body.experiment != entry.subject:
            return f"it says that it amends {entry.body.experiment}"
        return ""

    def _withhold(self, entry: Entry) -> str:
        self._embargoes[entry.leaf] = entry.subject
        return ""

    def _reveal(self, entry: Entry) -> str:
        ended = [ref for ref in entry.refs if self._embargoes.get(ref) == entry.subject]
        for leaf in ended:
            del self._embargoes[leaf]
        return "" if ended else f"it refers to no standing embargo of {entry.subject}"

    def _redact(self, entry: Entry) -> str:
        if len(entry.refs) != 1:
            return f"it refers to {len(entry.refs)} entries, not to the one that it erases"
        self._redactions.append(entry)
        return ""

    def _referred(self, leaf: str) -> Entry:
        """Return an earlier entry, read once more: redactions are too rare to keep all for them."""
        position = self.log.tree.position(bytes.fromhex(leaf))
        stored = next(self.log.source.records(since=position), None)
        if stored is None or stored.leaf.hex() != leaf:
            raise IntegrityError(f"entry {position} is not what it was when it was first read")
        return read_entry(stored, self.log.key.name)


class AnchorCheck(Examination):
    """The heads that anchors hold are this log's, and cover the registrations that they name."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._registered: dict[str, tuple[str, int]] = {}
        """Subject and position of each registration, by leaf hash."""
        self._count = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield where an anchor does not."""
        for at in batch.of_kinds((Registration.kind, Anchor.kind)):
            entry = batch.entry(at)
            if entry.kind == Registration.kind:
                self._registered[entry.leaf] = (entry.subject, entry.sequence)
                continue
            self._count += 1
            fault = self._fault(entry)
            if fault:
                yield f"{_name(entry)}: {fault}"

    def extent(self) -> str:
        """Return how many anchors there were."""
        return f"{self._count} of kind {Anchor.kind}"

    def _fault(self, entry: Entry) -> str:
        body = entry.body
        if not isinstance(body, Anchor):
            return ""
        try:
            head = self.log.verified_head(body.head)
        except IntegrityError as error:
            return f"its head does not verify: {error.message}"
        if head.size != body.tree_size or head.size > entry.sequence:
            return f"its head is of size {head.size}, it says {body.tree_size}"
        if self.log.tree.root_at(head.size) != head.root:
            return f"its head of size {head.size} was signed over other entries"
        named = [self._registered[ref] for ref in entry.refs if ref in self._registered]
        covered = [at for subject, at in named if subject == entry.subject]
        if not covered:
            return f"it refers to no registration of {entry.subject}"
        if covered[0] >= body.tree_size:
            return f"its head does not cover the registration, entry {covered[0]}"
        return ""


@dataclass(kw_only=True)
class _Seeds:
    """What decides which seeds a registration may use."""

    leaf: str
    arms: frozenset[str] | None
    """None where the registration's body is hidden."""
    num_seeds: int
    head: str = ""
    """Of the first anchor: later ones would be a choice among seeds."""


class SeedCheck(Examination):
    """Confirmatory runs use the seeds that their registration's anchor gives."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._registered: dict[str, _Seeds] = {}
        """By subject."""
        self._count = 0
        self._steps: dict[str, Callable[[Entry], str]] = {
            Registration.kind: self._register,
            Amendment.kind: self._amend,
            Anchor.kind: self._anchor,
            RunStarted.kind: self._run,
        }

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the runs that use other ones."""
        for at in batch.of_kinds(self._steps):
            entry = batch.entry(at)
            fault = self._steps[entry.kind](entry)
            if fault:
                yield f"{_name(entry)}: {fault}"

    def extent(self) -> str:
        """Return how many attempts there were."""
        return f"{self._count} of kind {RunStarted.kind}"

    def _register(self, entry: Entry) -> str:
        body = entry.body
        seeds = _Seeds(leaf=entry.leaf, arms=None, num_seeds=0)
        if isinstance(body, Registration):
            seeds.arms, seeds.num_seeds = frozenset(body.arms), body.num_seeds
        self._registered[entry.subject] = seeds
        return ""

    def _amend(self, entry: Entry) -> str:
        seeds = self._registered.get(entry.subject)
        if seeds is not None and isinstance(entry.body, Amendment):
            seeds.num_seeds = entry.body.num_seeds
        return ""

    def _anchor(self, entry: Entry) -> str:
        seeds = self._registered.get(entry.subject)
        if seeds is not None and seeds.leaf in entry.refs and isinstance(entry.body, Anchor):
            seeds.head = seeds.head or entry.body.head
        return ""

    def _run(self, entry: Entry) -> str:
        self._count += 1
        body, seeds = entry.body, self._registered.get(entry.subject)
        if not isinstance(body, RunStarted) or body.mode != "confirmatory" or seeds is None:
            return ""
        if not seeds.head:
            return "its registration has no anchor before it"
        # Of a hidden registration, only the seeds themselves can be checked.
        known = seeds.arms is None or body.arm in seeds.arms
        if not known or not 0 <= body.seed_index < (seeds.num_seeds or body.seed_index + 1):
            return f"{body.arm} seed {body.seed_index} was not registered"
        expected = time_locked_seed(seeds.head, seeds.leaf, body.seed_index)
        return "" if body.seed == str(expected) else f"its seed is {body.seed}, not {expected}"


def _begins(subject: str, start: RunStarted | Hidden, end: Entry) -> bool:
    ended = end.body
    if not isinstance(ended, RunEnded) or subject != end.subject:
        return False
    return isinstance(start, Hidden) or (
        (start.run, start.attempt, start.mode) == (ended.run, ended.attempt, ended.mode)
    )


def _name(entry: Entry) -> str:
    return f"entry {entry.sequence} ({entry.kind} {entry.id})"
