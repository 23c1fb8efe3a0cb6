"""What each check of a log looks for. Each takes the entries batch by batch, names its faults.

A check may rely on those before it only for entries that it has taken already: what can be said of
the whole log is said when it is closed.
"""

import secrets
from collections.abc import Iterator

from workbench.errors import IntegrityError
from workbench.registry.counts import count_of, entries_of
from workbench.registry.evidence import Batch, Evidence
from workbench.registry.heads import SignedHead, parse_head, verify_head

_ALL_HEADS = 1000
"""Up to so many heads, each signature is verified."""


class Examination:
    """One numbered check of one log."""

    def __init__(self, log: Evidence) -> None:
        """Take what is known of the log."""
        self.log = log

    def take(self, batch: Batch) -> Iterator[str]:  # noqa: ARG002
        """Yield what is wrong with these entries."""
        return iter(())

    def close(self) -> Iterator[str]:
        """Yield what is wrong with the whole log, after the last entry was taken."""
        return iter(())

    def extent(self) -> str:
        """Return what was checked, so that a check of nothing is seen to be one."""
        return entries_of(self.log.head.size)


class SignedHeadCheck(Examination):
    """The newest head verifies, and covers something."""

    def close(self) -> Iterator[str]:
        """Yield when it does not."""
        head, log = self.log.head, self.log
        try:
            verify_head(head.note, log.head_key(head.size))
        except IntegrityError as error:
            if not log.is_of_unknown_key(head.note):
                raise
            log.suspicion = error.message
        if head.size == 0:
            yield "the signed head covers no entry"

    def extent(self) -> str:
        """Return what the head covers, and whether its signature could be checked."""
        covered = entries_of(self.log.head.size)
        return f"{covered}, by a key that no entry names" if self.log.suspicion else covered


class SizeCheck(Examination):
    """Every entry is there."""

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._missing = -1
        self._seen = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Look for the first gap."""
        self._seen += len(batch.leaves)
        if self._missing < 0:
            numbered = enumerate(batch.columns.sequences, batch.start)
            self._missing = next((at for at, sequence in numbered if at != sequence), -1)
        return iter(())

    def close(self) -> Iterator[str]:
        """Yield the first entry that is missing."""
        missing = self._seen if self._missing < 0 else self._missing
        if missing < self.log.head.size:
            yield f"entry {missing} is missing: the signed head covers {self.log.head.size} entries"


class LeafCheck(Examination):
    """The bytes give the recorded leaf hashes."""

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the entries whose bytes do not."""
        if batch.leaves == batch.columns.leaves:
            return
        for at, pair in enumerate(zip(batch.leaves, batch.columns.leaves, strict=True)):
            if pair[0] != pair[1]:
                yield f"{batch.name(at)}: its bytes do not give its leaf hash"


class RootCheck(Examination):
    """The entries are those that were signed."""

    def close(self) -> Iterator[str]:
        """Yield when they are not."""
        head = self.log.head
        if self.log.tree.root_at(head.size) != head.root:
            yield f"the root of the {head.size} entries is not the one that was signed"


class KeptCheck(Examination):
    """The head that the reader kept is of a prefix of this log."""

    def close(self) -> Iterator[str]:
        """Yield when it is not."""
        if self.log.kept is None:
            return
        log, kept, now = self.log, parse_head(self.log.kept), self.log.head.size
        if kept.origin != log.key.name:
            yield f"the head that you kept is of log {kept.origin!r}, this is log {log.key.name!r}"
            return
        if kept.size > now:
            yield (
                f"you kept a head over {kept.size} entries, the log now has {now}: it was cut "
                f"back{self._doubt(self.log.kept)}"
            )
            return
        log.verified_head(kept.note)
        if self.log.tree.root_at(kept.size) != kept.root:
            yield f"the first {kept.size} entries are not those of the head that you kept"

    def _doubt(self, note: str) -> str:
        """Return what may be meant as well, where no key of the entries shown signed the head."""
        try:
            self.log.verified_head(note)
        except IntegrityError:
            return (
                ". No key that it names signed your head: that key came after what you are shown, "
                "or the head is none of this log's"
            )
        return ""

    def extent(self) -> str:
        """Return what the kept head covers."""
        if self.log.kept is None:
            return "none was given"
        return f"{entries_of(parse_head(self.log.kept).size)} kept"


class EarlierHeadsCheck(Examination):
    """Every head that the log kept is over its entries, and was signed.

    All of them are compared with the entries. Of more than a thousand, the signatures of a random
    sample are verified: what a head says is vouched for by the entries already.
    """

    def __init__(self, log: Evidence) -> None:
        super().__init__(log)
        self._notes = iter(log.source.notes())
        self._waiting: SignedHead | None = None
        self._size_before = -1
        self._count = self._verified = 0

    def take(self, batch: Batch) -> Iterator[str]:
        """Yield the heads over entries up to the batch's last that are not of this history."""
        end = batch.start + len(batch.leaves)
        head = self._next()
        if head is None or head.size > end:
            return
        frontier, leaves = self.log.tree.frontier(batch.start), iter(batch.leaves)
        while head is not None and head.size <= end:
            while frontier.size < head.size:
                frontier = frontier.appended(next(leaves))
            yield from self._faults(head)
            if head.size == frontier.size and head.root != frontier.root():
                yield f"the head of size {head.size} was signed over other entries"
            head = self._next()

    def close(self) -> Iterator[str]:
        """Yield the faults of the remaining heads."""
        # Heads beyond the newest one were signed meanwhile: a live ledger grows.
        while (head := self._next()) is not None:
            yield from self._faults(head)

    def extent(self) -> str:
        """Return how many heads there were."""
        sampled = "" if self._verified == self._count else f", {self._verified} signatures verified"
        return f"{count_of(self._count, 'head')}{sampled}"

    def _next(self) -> SignedHead | None:
        """Return the oldest head that was not compared yet."""
        if self._waiting is None:
            note = next(self._notes, None)
            self._waiting = None if note is None else parse_head(note)
        return self._waiting

    def _faults(self, head: SignedHead) -> Iterator[str]:
        self._waiting = None
        self._count += 1
        if self._count <= _ALL_HEADS or secrets.randbelow(self._count) < _ALL_HEADS:
            self._verified += 1
            self.log.verified_head(head.note)
        if head.size <= self._size_before:
            yield f"the head of size {head.size} is out of order"
        self._size_before = head.size


class HoldingsCheck(Examination):
    """What the log holds beside its entries agrees with them."""

    def close(self) -> Iterator[str]:
        """Yield what contradicts them."""
        keys = None if self.log.broken else self.log.chain
        yield from self.log.source.faults(self.log.tree, keys)
