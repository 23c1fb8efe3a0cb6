"""The numbered checks of ``workbench verify``; ``docs/record-format.md`` uses the same numbers.

The entries are read once, in batches. Each check works on bytes as they are stored and never
re-serialises what it hashes. A check that fails ends those after it, because they build on it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from workbench.errors import WorkbenchError
from workbench.registry.checks import (
    EarlierHeadsCheck,
    Examination,
    HoldingsCheck,
    KeptCheck,
    LeafCheck,
    RootCheck,
    SignedHeadCheck,
    SizeCheck,
)
from workbench.registry.conduct import AnchorCheck, OrderCheck, SeedCheck
from workbench.registry.entry_checks import (
    BodyCheck,
    BodyHashCheck,
    EnvelopeCheck,
    GenesisCheck,
    IdCheck,
    RefCheck,
    SignatureCheck,
)
from workbench.registry.evidence import Batch, Evidence
from workbench.registry.log import Entry, RawLog
from workbench.registry.notes import VerifierKey


@dataclass(frozen=True, kw_only=True)
class Check:
    """One numbered check and how it went."""

    number: int
    name: str
    passed: bool
    detail: str
    """The first fault with its entry, or what was checked."""
    claim: str
    """What holds when the check passes."""


@dataclass(frozen=True, kw_only=True)
class LogReport:
    """Whether a log is what was signed, and whether what it records was done in the right order."""

    origin: str
    size: int
    """Entries covered by the newest head; 0 when the head cannot be read."""
    head: str
    """The newest signed head, verbatim: keep it, and pass it as the kept head next time."""
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    counts: dict[str, int]
    """Entries of each kind; empty when a check failed."""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def first_failure(self) -> Check | None:
        """The check that failed, with the entry it names; later ones were not run."""
        return next((check for check in self.checks if not check.passed), None)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One numbered check. The order of `STEPS` is the numbering."""

    name: str
    claim: str
    examination: type[Examination]


STEPS = (
    Step(
        name="signed head",
        claim="The log's key signed the newest head.",
        examination=SignedHeadCheck,
    ),
    Step(
        name="all entries",
        claim="Every entry that the head covers is there.",
        examination=SizeCheck,
    ),
    Step(
        name="leaf hashes",
        claim="No byte of an envelope differs from its recorded hash.",
        examination=LeafCheck,
    ),
    Step(
        name="Merkle root",
        claim="The entries are exactly those that were signed, in order.",
        examination=RootCheck,
    ),
    Step(
        name="kept head",
        claim="Nothing that you saw before was changed or removed.",
        examination=KeptCheck,
    ),
    Step(
        name="earlier heads",
        claim="Every head that was kept with the log is of this same history.",
        examination=EarlierHeadsCheck,
    ),
    Step(
        name="indices and tiles",
        claim="What serves the entries agrees with them.",
        examination=HoldingsCheck,
    ),
    Step(
        name="envelopes",
        claim="Each envelope is canonical, complete and of this log.",
        examination=EnvelopeCheck,
    ),
    Step(
        name="body hashes",
        claim="Each body is the one that its envelope binds.",
        examination=BodyHashCheck,
    ),
    Step(
        name="bodies",
        claim="Each body is canonical and fits its kind, or the log says why it is hidden.",
        examination=BodyCheck,
    ),
    Step(
        name="first entry",
        claim="The log names the keys that speak for it.",
        examination=GenesisCheck,
    ),
    Step(
        name="identifiers",
        claim="No identifier stands for two entries.",
        examination=IdCheck,
    ),
    Step(
        name="references",
        claim="Each entry rests on earlier entries only.",
        examination=RefCheck,
    ),
    Step(
        name="author signatures",
        claim="The author signed what only an author may say, and both keys every change of keys.",
        examination=SignatureCheck,
    ),
    Step(
        name="order of conduct",
        claim="What was done under a registration, or changes it, came after it and names it.",
        examination=OrderCheck,
    ),
    Step(
        name="anchors",
        claim="The head from which seeds derive covers the registration.",
        examination=AnchorCheck,
    ),
    Step(
        name="seeds",
        claim="No confirmatory run began before its registration was signed.",
        examination=SeedCheck,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Observer:
    """Takes entries while they are verified, so that they need not be read again."""

    kinds: frozenset[str]
    """Of the entries that are wanted."""
    take: Callable[[Entry], None]
    """Gets each, in order. What it got is worth something only when the report has passed."""


def verify_log(
    source: RawLog,
    *,
    vkey: str,
    kept_head: str | None,
    now: datetime | None = None,
    observer: Observer | None = None,
) -> LogReport:
    """Verify a log from its bytes.

    Args:
        source: a ledger or a published log.
        vkey: C2SP verifier key of the log, from a place that the log's keeper does not control. Of
            a log whose key was replaced, the newest key or an older one.
        kept_head: a signed head that the reader kept from before, verbatim; without one, a log cut
            back to an older head cannot be told from a young one.
        now: the present moment, to tell which embargoes are past their end; None leaves that out.
        observer: takes entries on the way.

    Raises:
        IntegrityError: the verifier key itself is malformed.
    """
    log = Evidence(source, VerifierKey.parse(vkey), kept_head)
    examined = _Examined(log, observer)
    examined.read()
    checks = tuple(examined.checks())
    head_holds, passed = checks[0].passed and not log.suspicion, all(c.passed for c in checks)
    return LogReport(
        origin=log.key.name,
        size=log.head.size if head_holds else 0,
        head=log.head.note if head_holds else "",
        checks=checks,
        warnings=tuple(_warnings(log, now)) if passed else (),
        counts=dict(examined.counts) if passed else {},
    )


class _Examined:
    """The checks of one log while they run, and what each found."""

    def __init__(self, log: Evidence, observer: Observer | None) -> None:
        self._log = log
        self._observer = observer
        self.counts: Counter[str] = Counter()
        self._running: list[Examination] = []
        self._first = [""] * len(STEPS)
        """The first fault of each check."""
        self._more = [0] * len(STEPS)
        self._failed = len(STEPS)
        """The first check that failed; those after it no longer run."""

    def read(self) -> None:
        """Read the log once and take every check as far as it goes."""
        try:
            _ = self._log.head
        except WorkbenchError as error:
            self._note(0, [error.message])
            return
        self._running = [step.examination(self._log) for step in STEPS]
        try:
            for batch in self._log.batches():
                self._run(lambda each: each.take(batch))  # noqa: B023
                if self._failed == len(STEPS):
                    self._observe(batch)
        except WorkbenchError as error:
            # What cannot be read is missing.
            self._note(_SIZE, [error.message])
        self._run(lambda each: each.close())
        if self._log.suspicion and self._failed == len(STEPS):
            self._note(0, [self._log.suspicion])

    def checks(self) -> Iterator[Check]:
        """Yield each check and how it went."""
        for at, step in enumerate(STEPS):
            if at > self._failed:
                detail = f"not run: check {self._failed + 1} failed"
            elif at == self._failed:
                more = f" (and {self._more[at]} more)" if self._more[at] else ""
                detail = f"{self._first[at]}{more}"
            else:
                detail = self._running[at].extent()
            yield Check(
                number=at + 1,
                name=step.name,
                passed=at < self._failed,
                detail=detail,
                claim=step.claim,
            )

    def _observe(self, batch: Batch) -> None:
        self.counts.update(batch.fields.kinds)
        if self._observer is not None:
            for at in batch.of_kinds(self._observer.kinds):
                self._observer.take(batch.entry(at))

    def _run(self, part: Callable[[Examination], Iterator[str]]) -> None:
        for at, examination in enumerate(self._running):
            if at > self._failed:
                return
            try:
                faults = list(part(examination))
            except WorkbenchError as error:
                faults = [error.message]
            self._note(at, faults)

    def _note(self, at: int, faults: list[str]) -> None:
        if not faults:
            return
        if self._first[at]:
            self._more[at] += len(faults)
        else:
            self._first[at], self._more[at] = faults[0], len(faults) - 1
        self._failed = min(self._failed, at)


_SIZE = next(at for at, step in enumerate(STEPS) if step.examination is SizeCheck)


def _warnings(log: Evidence, now: datetime | None) -> Iterator[str]:
    if log.kept is None:
        yield (
            "no kept head was given: that the log was cut back to an older head, or that others "
            "were shown another log, cannot be excluded; keep the file checkpoint of what you "
            "verified and give it with --head next time"
        )
    if str(log.key) != str(log.chain.log):
        since = log.chain.history("log")[-1][0]
        yield (
            f"the key that you trust was replaced at entry {since} by {log.chain.log}: ask the "
            "log's owner, by another way, whether it was them"
        )
    yield from log.warnings
    for embargo in log.withholding.open:
        late = now is not None and embargo.is_expired(now)
        state = "was promised to end by" if late else "is under embargo until"
        yield (
            f"{embargo.subject} {state} {embargo.until} (entry {embargo.sequence})"
            f"{', and was not revealed' if late else ''}: {embargo.reason}"
        )
