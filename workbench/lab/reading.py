"""Methods that read, verify and publish."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.errors import (
    IntegrityError,
)
from workbench.lab.opened import OpenedLab
from workbench.registry.anchored import AnchorTrust
from workbench.registry.publish import PublishedLog, PublishSummary
from workbench.registry.successor import Forerunner
from workbench.reports.forerunners import ForerunnerVerification
from workbench.reports.scores import Scoreboard
from workbench.reports.stages import ExperimentStatus, experiment_statuses
from workbench.reports.verification import VerifiableLog, Verification


class Reading(OpenedLab):
    """Status, chronicles, verification and publication."""

    def status(self) -> list[ExperimentStatus]:
        """Return where every experiment stands."""
        from workbench.reports.forerunners import joined_statuses

        filed = [folder.name for folder in self.layout.experiment_folders()]
        source, now = self.source(), self.clock()
        present = experiment_statuses(source, filed, now)
        before = [(f.named.origin, experiment_statuses(f.log, [], now)) for f in self._before()]
        if not before:
            return present
        recorded = frozenset(entry.subject for entry in source.entries())
        return joined_statuses(present, before, recorded)

    def verdict_sentences(self, number: str) -> list[str]:
        """Return an experiment's verdict in three sentences; none while there is none to tell."""
        from workbench.reports.facts import experiment_facts
        from workbench.reports.rulings import rulings_of, verdict_explained

        facts = experiment_facts(self.source(), self.layout.experiment(number).name)
        rulings = rulings_of(facts)
        told = verdict_explained(facts.verdict.value, rulings[0]) if facts.verdict else None
        return [told.claimed, told.seen, told.otherwise] if told else []

    def next_command(self, number: str) -> str:
        """Return what comes next of an experiment; empty where nothing does: it was withdrawn."""
        name = self.layout.experiment(number).name
        line = next(line for line in self.status() if line.experiment == name)
        return "" if line.stage == "withdrawn" else line.next_command

    def _before(self) -> list[Forerunner]:
        """Return the logs that this lab's log continues and whose files are here."""
        from workbench.registry.successor import forerunners

        found = forerunners(self.source(), self.layout.registry)
        return [forerunner for forerunner in found if forerunner.is_here]

    def verify_forerunners(self) -> tuple[ForerunnerVerification, ...]:
        """Verify the logs that this lab's log continues, each as its successor names it."""
        from workbench.reports.audit import audit_claims
        from workbench.reports.forerunners import verify_forerunners
        from workbench.reports.verification import verify_lab

        return verify_forerunners(
            self.source(),
            self.layout.registry,
            verify=lambda log, vkey, kept: verify_lab(
                log, vkey=vkey, kept_head=kept, audit=audit_claims
            ),
        )

    def chronicle(self, number: str = "", *, check: bool = False) -> list[Path]:
        """Write the chronicles of one or all experiments and return their paths.

        Raises:
            IntegrityError: with ``check``, a chronicle on disk is not what the ledger gives.
        """
        name = self.layout.experiment(number).name if number else ""
        if not check:
            return self._write_chronicles(name, self.layout.reports)
        with tempfile.TemporaryDirectory() as scratch:
            fresh = self._write_chronicles(name, Path(scratch))
            names = [path.relative_to(scratch) for path in fresh]
            stale = [
                str(name)
                for name, path in zip(names, fresh, strict=True)
                if not (self.layout.reports / name).is_file()
                or (self.layout.reports / name).read_bytes() != path.read_bytes()
            ]
        if stale:
            raise IntegrityError(
                f"not what the ledger gives: {', '.join(stale)}", remedy="workbench chronicle"
            )
        return [self.layout.reports / name for name in names]

    def _write_chronicles(self, experiment: str, reports: Path) -> list[Path]:
        from workbench.reports.site import write_chronicle, write_chronicles

        source, before = self.source(), [found.log for found in self._before()]
        if experiment:
            written = write_chronicle(source, experiment, reports, before=before)
            return [written.html, written.markdown]
        index, all_written = write_chronicles(source, reports, before=before)
        return [index, *(path for w in all_written for path in (w.html, w.markdown))]

    def scoreboard(self) -> tuple[Scoreboard, tuple[Any, ...]]:
        """Return how all forecasts have done, and how well smaller scales ordered candidates.

        The latter are `workbench.reports.rankings.Ranking`, whose module takes scipy.stats, which
        every other command would wait for.
        """
        from workbench.reports.rankings import rankings
        from workbench.reports.scores import lab_scoreboard
        from workbench.reports.site import all_facts

        found = all_facts([self.source(), *(before.log for before in self._before())]).values()
        return lab_scoreboard(found), rankings(found)

    def verify(
        self, *, kept_head: str | None = None, vkey: str = "", trust: AnchorTrust | None = None
    ) -> Verification:
        """Verify the ledger offline and recompute every verdict from it.

        Args:
            kept_head: A signed head that the reader kept from before, verbatim. Without one, the
                published head is taken where a store is verified.
            vkey: The log's verifier key from a place that the reader trusts; empty for the one that
                is here.
            trust: Whom the reader believes, for the anchors. The git history of the published head
                is looked at in any case.
        """
        from workbench.reports.audit import audit_claims
        from workbench.reports.verification import verify_lab

        log = self.source()
        kept = kept_head if kept_head is not None else self._kept_head(log)
        checkpoint = self.layout.registry / "checkpoint"
        return verify_lab(
            log,
            vkey=vkey or log.vkey,
            kept_head=kept,
            audit=audit_claims,
            now=self.clock(),
            trust=replace(trust or AnchorTrust(), git_file=checkpoint),
            read=PublishedLog(self.layout.registry).read if checkpoint.is_file() else None,
        )

    def _kept_head(self, log: VerifiableLog) -> str | None:
        """Return the published head when the store is verified: it was kept outside of it."""
        checkpoint = self.layout.registry / "checkpoint"
        if isinstance(log, PublishedLog) or not checkpoint.is_file():
            return None
        return checkpoint.read_bytes().decode("utf-8", "replace")

    def publish(self) -> PublishSummary:
        """Write the ledger's new entries into ``registry/`` as static files."""
        from workbench.registry.publish import publish

        return publish(self.source(), self.layout.registry)
