"""Methods that measure: how much seeds differ, and what a weight's precision loses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.experiments.installed import require_training_extra
from workbench.experiments.progress import Progress, silent
from workbench.experiments.repeat_plan import (
    RepeatCost,
    RepeatPlan,
    full_plan,
    repeat_cost,
    scale_plan,
)
from workbench.lab.opened import LAB_FOLDERS, OpenedLab, building
from workbench.layout import slug
from workbench.registry import provenance
from workbench.registry.log import Entry
from workbench.settings import absolute_url


class Measuring(OpenedLab):
    """Noise floors of repeats that ran here or were made elsewhere; audits of precision."""

    def measure_noise(
        self,
        what: str,
        *,
        scale: str = "",
        runs: int,
        announce: Callable[[RepeatCost], None],
        progress: Progress = silent,
    ) -> tuple[Entry, bool]:
        """Repeat a control configuration on derived seeds; return the entry and if it is new.

        Args:
            what: A recipe file, or the number of an experiment for its full scale.
            scale: Of the recipe; empty for its largest.
            runs: Repeats in all, those that ended earlier among them.
            announce: Told before anything trains what is left to run.
            progress: Told how far it has come.

        Raises:
            NotFoundError: there is no such recipe, scale or experiment.
            InvalidFileError: a file has faults.
            ConflictError: another process repeats this configuration.
            IntegrityError: the corpus is not what was built, or not the registered one.
        """
        plan = self._repeat_plan(what, scale)
        require_training_extra()
        from workbench.experiments.repeated import repeat_corpus
        from workbench.experiments.repeats import Repeats
        from workbench.training.fit import fit
        from workbench.training.tracking import Tracker

        corpus = repeat_corpus(plan, self.layout, building(progress))
        tracker = Tracker(
            absolute_url(self.settings.mlflow_uri, self.layout.root),
            self.layout.state / "mlartifacts",
            f"{slug(self.settings.name)}-noise",
        )
        with self.ledger() as ledger:
            repeats = Repeats(
                plan=plan,
                ledger=ledger,
                tracker=tracker,
                corpus=corpus,
                runs=self.layout.runs,
                code=provenance.code_state(self.layout.root, outputs=LAB_FOLDERS),
                train=fit,
                progress=progress,
            )
            ended = [run for run in repeats.ended().values() if run.state != "failed"]
            announce(
                repeat_cost(
                    ledger,
                    plan,
                    planned=max(runs, len(ended)),
                    done=len(ended),
                    seconds_done=sum(run.device_seconds for run in ended),
                )
            )
            return repeats.measure(runs)

    def import_noise(
        self,
        what: str,
        file: Path,
        *,
        scale: str = "",
        metric: str = "",
        progress: Progress = silent,
    ) -> Entry:
        """Record repeats of a control configuration that were made elsewhere.

        Args:
            what: A recipe file, or the number of an experiment for its full scale.
            file: CSV with a column ``seed`` and one a metric.
            scale: Of the recipe; empty for its largest.
            metric: What a column ``value`` holds.
            progress: Told how far the corpus has come, whose domains name the metrics.

        Raises:
            NotFoundError: there is no such recipe, scale or experiment.
            InvalidFileError: a file has faults.
            ConflictError: this file was imported before.
        """
        plan = self._repeat_plan(what, scale)
        require_training_extra()
        from workbench.experiments.repeated import imported_floor, repeat_corpus

        corpus = repeat_corpus(plan, self.layout, building(progress))
        code = provenance.code_state(self.layout.root, outputs=LAB_FOLDERS)
        with self.ledger() as ledger:
            return imported_floor(plan, corpus, file, ledger=ledger, metric=metric, code=code)

    def audit_precision(
        self, what: str, *, scale: str = "", steps: int, progress: Progress = silent
    ) -> Any:
        """Train the first steps of a control configuration and count the updates that are lost.

        Nothing is recorded. Returns a `workbench.training.precision_audit.PrecisionAudit`, whose
        module takes torch, which every other command would wait for.

        Args:
            what: A recipe file, or the number of an experiment for its full scale.
            scale: Of the recipe; empty for its largest.
            steps: How many, at most those of the run.
            progress: Told how far it has come.

        Raises:
            NotFoundError: there is no such recipe, scale or experiment.
            InvalidFileError: a file has faults.
            RunFailedError: a loss or gradient is not finite.
        """
        plan = self._repeat_plan(what, scale)
        require_training_extra()
        from workbench.experiments.repeated import repeat_corpus
        from workbench.training.precision_audit import audit_precision

        corpus = repeat_corpus(plan, self.layout, building(progress))
        return audit_precision(
            plan.config,
            corpus,
            seed=0,
            steps=steps,
            progress=lambda done, total: progress("steps", done, total),
        )

    def _repeat_plan(self, what: str, scale: str) -> RepeatPlan:
        if what.endswith((".yaml", ".yml")) or "/" in what:
            return scale_plan(self.layout, what, scale)
        return full_plan(self.source(), self.layout, what)
