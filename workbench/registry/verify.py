"""The numbered checks of ``workbench verify``; ``docs/record-format.md`` uses the same numbers.

Each check works on bytes as they are stored and never re-serialises what it hashes. A check runs
only when all before it passed, because it builds on them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from workbench.errors import WorkbenchError
from workbench.registry.amended import change_faults
from workbench.registry.checks import (
    Evidence,
    body_faults,
    body_hash_faults,
    earlier_head_faults,
    envelope_faults,
    genesis_faults,
    head_faults,
    holding_faults,
    id_faults,
    kept_faults,
    leaf_faults,
    ref_faults,
    root_faults,
    signature_faults,
    size_faults,
)
from workbench.registry.conduct import anchor_faults, is_confirmatory, order_faults, seed_faults
from workbench.registry.entries import BODIES, Anchor, RunStarted
from workbench.registry.heads import parse_head
from workbench.registry.log import RawLog
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

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def first_failure(self) -> Check | None:
        """The check that failed, with the entry it names; later ones were not run."""
        return next((check for check in self.checks if not check.passed), None)


def verify_log(source: RawLog, *, vkey: str, kept_head: str | None) -> LogReport:
    """Verify a log from its bytes.

    Args:
        source: a ledger or a published log.
        vkey: C2SP verifier key of the log, from a place that the log's keeper does not control.
        kept_head: a signed head that the reader kept from before, verbatim; without one, a log cut
            back to an older head cannot be told from a young one.

    Raises:
        IntegrityError: the verifier key itself is malformed.
    """
    log = Evidence(source, VerifierKey.parse(vkey), kept_head)
    checks: list[Check] = []
    failed = 0
    for number, step in enumerate(STEPS, start=1):
        passed, detail = False, f"not run: check {failed} failed"
        if not failed:
            passed, detail = _outcome(log, step)
            failed = 0 if passed else number
        checks.append(
            Check(number=number, name=step.name, passed=passed, detail=detail, claim=step.claim)
        )
    head_holds = checks[0].passed
    return LogReport(
        origin=log.key.name,
        size=log.head.size if head_holds else 0,
        head=log.head.note if head_holds else "",
        checks=tuple(checks),
        warnings=tuple(_warnings(log)) if all(check.passed for check in checks) else (),
    )


def _outcome(log: Evidence, step: "_Step") -> tuple[bool, str]:
    try:
        faults = list(step.faults(log))
    except WorkbenchError as error:
        faults = [error.message]
    if not faults:
        return True, step.extent(log)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return False, f"{faults[0]}{more}"


def _warnings(log: Evidence) -> Iterator[str]:
    if log.kept is None:
        yield (
            "no kept head was given: that the log was cut back to an older head, or that others "
            "were shown another log, cannot be excluded"
        )
    for before, after in zip(log.entries, log.entries[1:], strict=False):
        if after.time < before.time:
            yield (
                f"entry {after.sequence} ({after.kind} {after.id}) says {after.time}, "
                f"the one before it {before.time}: the clock went back"
            )


def _kept_extent(log: Evidence) -> str:
    return "none was given" if log.kept is None else f"{parse_head(log.kept).size} entries kept"


def _signed_extent(log: Evidence) -> str:
    return f"{sum(BODIES[envelope.kind].signed for envelope in log.envelopes)} signed entries"


def _confirmatory_extent(log: Evidence) -> str:
    return f"{sum(is_confirmatory(entry) for entry in log.entries)} confirmatory entries"


def _kind_extent(kind: str) -> Callable[[Evidence], str]:
    return lambda log: f"{sum(entry.kind == kind for entry in log.entries)} of kind {kind}"


def _entries_extent(log: Evidence) -> str:
    return f"{log.head.size} entries"


@dataclass(frozen=True, kw_only=True)
class _Step:
    """How one check is made. The order of `STEPS` is the numbering."""

    name: str
    claim: str
    faults: Callable[[Evidence], Iterator[str]]
    extent: Callable[[Evidence], str] = _entries_extent
    """What was checked, so that a check of nothing is seen to be one."""


STEPS = (
    _Step(
        name="signed head",
        claim="The log's key signed the newest head.",
        faults=head_faults,
    ),
    _Step(
        name="all entries",
        claim="Every entry that the head covers is there.",
        faults=size_faults,
    ),
    _Step(
        name="leaf hashes",
        claim="No byte of an envelope differs from its recorded hash.",
        faults=leaf_faults,
    ),
    _Step(
        name="Merkle root",
        claim="The entries are exactly those that were signed, in order.",
        faults=root_faults,
    ),
    _Step(
        name="kept head",
        claim="Nothing that you saw before was changed or removed.",
        faults=kept_faults,
        extent=_kept_extent,
    ),
    _Step(
        name="earlier heads",
        claim="Every head that was kept with the log is of this same history.",
        faults=earlier_head_faults,
        extent=lambda log: f"{len(log.notes)} heads",
    ),
    _Step(
        name="indices and tiles",
        claim="What serves the entries agrees with them.",
        faults=holding_faults,
    ),
    _Step(
        name="envelopes",
        claim="Each envelope is canonical, complete and of this log.",
        faults=envelope_faults,
    ),
    _Step(
        name="body hashes",
        claim="Each body is the one that its envelope binds.",
        faults=body_hash_faults,
    ),
    _Step(
        name="bodies",
        claim="Each body is canonical and has the fields of its kind.",
        faults=body_faults,
    ),
    _Step(
        name="first entry",
        claim="The log names the keys that speak for it.",
        faults=genesis_faults,
    ),
    _Step(
        name="identifiers",
        claim="No identifier stands for two entries.",
        faults=id_faults,
    ),
    _Step(
        name="references",
        claim="Each entry rests on earlier entries only.",
        faults=ref_faults,
    ),
    _Step(
        name="author signatures",
        claim="The author signed what only an author may say.",
        faults=signature_faults,
        extent=_signed_extent,
    ),
    _Step(
        name="order of conduct",
        claim="What was done under a registration came after it.",
        faults=lambda log: chain(order_faults(log.entries), change_faults(log.entries)),
        extent=_confirmatory_extent,
    ),
    _Step(
        name="anchors",
        claim="The head from which seeds derive covers the registration.",
        faults=lambda log: anchor_faults(log.entries, log.roots, log.key),
        extent=_kind_extent(Anchor.kind),
    ),
    _Step(
        name="seeds",
        claim="No confirmatory run began before its registration was signed.",
        faults=lambda log: seed_faults(log.entries),
        extent=_kind_extent(RunStarted.kind),
    ),
)
