"""Methods that train."""

from collections.abc import Iterator
from contextlib import contextmanager

from workbench.experiments.installed import require_training_extra
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress, silent
from workbench.experiments.summaries import RunsReport, Stages, SweepReport
from workbench.lab.opened import LAB_FOLDERS, OpenedLab, building
from workbench.layout import slug
from workbench.registry import provenance
from workbench.registry.entries import Forecast
from workbench.registry.log import Entry
from workbench.settings import absolute_url


class Running(OpenedLab):
    """Everything that runs under a registration, or explores."""

    def sweep(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> SweepReport:
        """Run what is left of an experiment's sweep.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            RunFailedError: no trial completed.
        """
        with self._campaign(
            number, at="sweep", exploratory=exploratory, progress=progress
        ) as campaign:
            return campaign.sweep()

    def promote(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> Entry:
        """Re-run the best trials on fresh seeds, choose, forecast; return the promotion's entry.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            ConflictError: the sweep is not finished.
        """
        with self._campaign(
            number, at="promotion", exploratory=exploratory, progress=progress
        ) as campaign:
            entry = campaign.promote()
        from workbench.experiments.promoted_config import write_promoted

        write_promoted(self.layout, entry)
        return entry

    def forecasts(self, promotion: Entry) -> list[Forecast]:
        """Return the forecasts that were made with a promotion."""
        entries = self.source().entries(kind="forecast", subject=promotion.subject)
        return [
            entry.body
            for entry in entries
            if promotion.leaf in entry.refs and isinstance(entry.body, Forecast)
        ]

    def run(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> RunsReport:
        """Run what is left of both arms at full scale.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            ConflictError: nothing was promoted, or the registered budget is used up.
            RunFailedError: an attempt failed; repeating the command continues it.
        """
        with self._campaign(
            number, at="run", exploratory=exploratory, progress=progress
        ) as campaign:
            return campaign.run()

    def verdict(
        self, number: str, *, incomplete: bool = False, progress: Progress = silent
    ) -> Entry:
        """Read the sealed test split once, judge by the registered rule; return the verdict.

        Raises:
            NotRegisteredError: exploratory work never has a verdict.
            ConflictError: there is a verdict already, or runs are missing.
        """
        with self._campaign(number, at="verdict", exploratory=False, progress=progress) as campaign:
            try:
                return campaign.verdict(incomplete=incomplete)
            finally:
                # Also when it was given before: who gave it may not have lived to do this.
                campaign.publish_outcomes()

    @contextmanager
    def _campaign(
        self, number: str, *, at: str, exploratory: bool, progress: Progress
    ) -> Iterator[Stages]:
        plan = self._plan(number, exploratory=exploratory)
        # Refusals come first: the training stack takes seconds to import.
        require_training_extra()
        from workbench.experiments.campaign import Campaign
        from workbench.experiments.registered_corpus import registered_corpus
        from workbench.training.tracking import Tracker

        corpus = registered_corpus(
            plan, self.layout, ledger=self.ledger, at=at, progress=building(progress)
        )
        corpus.verify_open()
        tracker = Tracker(
            absolute_url(self.settings.mlflow_uri, self.layout.root),
            self.layout.state / "mlartifacts",
            f"{slug(self.settings.name)}-{plan.subject}",
        )
        with self.ledger() as ledger:
            yield Campaign(
                layout=self.layout,
                plan=plan,
                ledger=ledger,
                tracker=tracker,
                corpus=corpus,
                search_url=absolute_url(self.settings.optuna_url, self.layout.root),
                code=provenance.code_state(self.layout.root, outputs=LAB_FOLDERS),
                environment=provenance.environment(),
                host=provenance.host(),
                progress=progress,
            )

    def _plan(self, number: str, *, exploratory: bool) -> ExperimentPlan:
        from workbench.experiments.plan import draft_plan, registered_plan

        folder = self.layout.experiment(number)
        if exploratory:
            return draft_plan(self.layout, folder)
        return registered_plan(self.source(), folder.name)
