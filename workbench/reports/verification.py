"""Everything that can be verified of a lab offline: the log's own checks, then each claim."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from workbench.registry.anchored import AnchorFindings, AnchorTrust
from workbench.registry.anchors import Read
from workbench.registry.bounds import RegistrationBounds
from workbench.registry.counts import entries_of
from workbench.registry.entries import Verdict
from workbench.registry.heads import SignedHead
from workbench.registry.log import Entry, HashSource, LogSource, RawLog
from workbench.registry.notes import VerifierKey
from workbench.registry.places import Folder, Place
from workbench.registry.published import CHECKPOINT, PublishedLog
from workbench.registry.verify import LogReport, Observer, verify_log
from workbench.reports.findings import AuditFinding, Statement
from workbench.reports.outside import OUTSIDE_KINDS, outside

Audit: TypeAlias = Callable[[LogSource], Sequence[AuditFinding]]
"""Checks the claims of a log: `workbench.reports.audit.audit_claims`. It is passed, since it takes
the libraries of the analysis, and a log without a verdict is verified without them."""


class VerifiableLog(LogSource, RawLog, HashSource, Protocol):
    """A log that can be read and whose stored bytes can be checked."""

    def head(self) -> SignedHead:
        """Return the newest signed head, its signature unchecked."""

    @property
    def vkey(self) -> str:
        """C2SP verifier key of the tree heads."""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The outcome of `workbench verify`."""

    log: LogReport
    claims: tuple[AuditFinding, ...]
    """Empty when the log itself does not verify: nothing can be said of its claims."""
    anchors: AnchorFindings
    """What lies outside the log, held against it; empty, too, when that does not verify."""
    bounds: tuple[RegistrationBounds, ...]
    """When each registration was made, as far as that can be shown."""
    statements: tuple[Statement, ...]
    """What each verdict says that this reader can read."""

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Subjects of the claims that could not be recomputed, because entries are hidden."""
        return tuple(dict.fromkeys(f.subject for f in self.claims if not f.recomputed))

    @property
    def passed(self) -> bool:
        """Whether every check of the log and of every claim passed."""
        claims = all(finding.passed for finding in self.claims)
        return self.log.passed and claims and not self.anchors.faults

    def lines(self) -> Iterator[str]:
        """Yield the report, one line a check, the verdict last."""
        failed = self.log.first_failure
        for check in self.log.checks:
            if failed is None or check.number <= failed.number:
                yield f"{_mark(check.passed)} {check.number:>2}  {check.name}: {check.detail}"
        if failed is not None and failed.number < len(self.log.checks):
            yield f"skip      checks {failed.number + 1} to {len(self.log.checks)} build on it"
        for subject in dict.fromkeys(finding.subject for finding in self.claims):
            yield from self._claim_lines(subject)
        yield from self.anchors.summary()
        for bound in self.bounds:
            yield from bound.lines()
        for warning in self.log.warnings:
            yield f"note      {warning}"
        if self.passed:
            unchecked = self.unchecked
            but = f"; not recomputed: the claim of {', '.join(unchecked)}" if unchecked else ""
            yield f"VERIFIED  {entries_of(self.log.size)} of {self.log.origin}{but}"
        else:
            yield f"FAILED    {self._first_failure()}"

    def _claim_lines(self, subject: str) -> Iterator[str]:
        yield f"claim     {subject}"
        for statement in self.statements:
            if statement.subject == subject:
                yield f"  says    {statement.line()} (entry {statement.sequence})"
        for finding in self.claims:
            if finding.subject == subject:
                detail = f": {finding.detail}" if finding.detail else ""
                mark = _mark(finding.passed) if finding.recomputed else "--  "
                yield f"{mark} c{finding.number}  {finding.check}{detail}"

    def _first_failure(self) -> str:
        check = self.log.first_failure
        if check is not None:
            return f"check {check.number}, {check.name}: {check.detail}"
        for finding in self.claims:
            if not finding.passed:
                named = f"check c{finding.number} of {finding.subject}, {finding.check}"
                return f"{named}: {finding.detail}"
        return f"an anchor contradicts the log: {self.anchors.faults[0]}"


def verify_lab(
    log: VerifiableLog,
    *,
    vkey: str,
    kept_head: str | None,
    audit: Audit,
    now: datetime | None = None,
    trust: AnchorTrust | None = None,
    read: Read | None = None,
) -> Verification:
    """Verify a log and recompute every claim that it records.

    Args:
        log: The store or the published files.
        vkey: C2SP verifier key that the reader trusts.
        kept_head: A signed head that the reader kept from before, verbatim.
        audit: Recomputes the claims; asked only where there are verdicts.
        now: The present moment, to tell which embargoes are past their end.
        trust: Whom the reader believes, for the anchors.
        read: Reads a file of the published log, in which anchors are kept.
    """
    entries: list[Entry] = []
    observer = Observer(kinds=OUTSIDE_KINDS, take=entries.append)
    report = verify_log(log, vkey=vkey, kept_head=kept_head, now=now, observer=observer)
    if not report.passed:
        nothing = AnchorFindings(anchors=(), faults=())
        return Verification(log=report, claims=(), anchors=nothing, bounds=(), statements=())
    anchors, bounds = outside(
        log, entries, size=report.size, read=read, trust=trust or AnchorTrust()
    )
    judged = bool(report.counts.get(Verdict.kind))
    return Verification(
        log=report,
        claims=tuple(audit(log)) if judged else (),
        anchors=anchors,
        bounds=bounds,
        statements=tuple(_statements(log)) if judged else (),
    )


def verify_published(
    place: Path | Place,
    *,
    audit: Audit,
    vkey: str | None = None,
    kept_head: str | None = None,
    now: datetime | None = None,
    trust: AnchorTrust | None = None,
) -> Verification:
    """Verify published files alone: no lab, no store and no keys are needed.

    Args:
        place: Holds the published log.
        audit: Recomputes the claims; asked only where there are verdicts.
        vkey: The log's verifier key from a place that its keeper does not control; without one,
            the key that lies beside the log is believed.
        kept_head: A signed head that the reader kept from before, verbatim.
        now: The present moment, to tell which embargoes are past their end.
        trust: Whom the reader believes, for the anchors. The git history of a folder, if it has
            one, is looked at in any case.

    Raises:
        NotFoundError: nothing was published there.
        StoreUnavailableError: the place does not answer.
    """
    place = Folder(place) if isinstance(place, Path) else place
    log = PublishedLog(place)
    log.head()
    trust = trust or AnchorTrust()
    if isinstance(place, Folder):
        trust = replace(trust, git_file=place.path / CHECKPOINT)
    found = verify_lab(
        log,
        vkey=vkey or log.vkey,
        kept_head=kept_head,
        audit=audit,
        now=now,
        trust=trust,
        read=log.read,
    )
    return found if vkey else _on_trust(found, log.vkey)


def _on_trust(found: Verification, vkey: str) -> Verification:
    """Return the report with what it rests on where no key came from elsewhere."""
    believed = (
        f"no --key was given: the key {VerifierKey.parse(vkey).key_id.hex()} beside the files was "
        "believed; whoever wrote the files chose it"
    )
    log = replace(found.log, warnings=(believed, *found.log.warnings))
    return replace(found, log=log)


def _statements(log: LogSource) -> Iterator[Statement]:
    for entry in log.entries(kind=Verdict.kind):
        body = entry.body
        if isinstance(body, Verdict):
            counts = {
                arm: sum(seed.value is not None for seed in seeds)
                for arm, seeds in body.values.items()
            }
            yield Statement(
                subject=entry.subject,
                sequence=entry.sequence,
                hypothesis=body.hypothesis,
                claim=body.claim,
                metric=body.metric,
                outcome=body.outcome,
                mode=body.mode,
                estimate=body.estimate,
                lower=body.lower,
                upper=body.upper,
                n=counts,
            )


def _mark(passed: bool) -> str:
    return "ok  " if passed else "FAIL"
