"""Methods that look at full-scale runs: without outcomes, or with them on the record."""

from workbench.experiments.health import ExperimentHealth
from workbench.experiments.outcomes import Curtain, Outcomes
from workbench.lab.opened import OpenedLab
from workbench.registry.entries import Mode


class Watching(OpenedLab):
    """Health, which everybody may see, and outcomes, which whoever opens answers for."""

    def health(self, number: str, *, exploratory: bool = False) -> ExperimentHealth:
        """Return how the full-scale runs of an experiment are doing, without an outcome.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            NotFoundError: nothing was explored.
            IntegrityError: a telemetry file is damaged before its last line.
        """
        from workbench.experiments.health import experiment_health

        return experiment_health(
            self.source(),
            self.layout,
            self.layout.experiment(number).name,
            mode=_mode(exploratory),
            now=self.clock(),
        )

    def curtain(self, number: str, *, exploratory: bool = False) -> Curtain:
        """Return what opening the validation values would mean; none is read.

        Raises:
            NotFoundError: there is no value yet.
        """
        from workbench.experiments.outcomes import curtain

        subject = self.layout.experiment(number).name
        return curtain(self.source(), self.layout, subject, mode=_mode(exploratory))

    def outcomes(
        self, number: str, *, by: str = "", why: str = "", exploratory: bool = False
    ) -> Outcomes:
        """Return the validation values of full-scale runs; before the verdict this is an exposure.

        Args:
            number: The experiment.
            by: Who looks; by default the lab's actor.
            why: What for; needed before the verdict.
            exploratory: Of the exploratory runs, which nothing hides.

        Raises:
            NotFoundError: there is no value yet.
            InvalidFileError: a reason is needed and was not given.
        """
        from workbench.experiments.outcomes import open_outcomes, opened_outcomes

        subject, mode = self.layout.experiment(number).name, _mode(exploratory)
        if self.curtain(number, exploratory=exploratory).access != "hidden":
            return opened_outcomes(self.source(), self.layout, subject, mode=mode)
        with self.ledger() as ledger:
            who = by.strip() or self.settings.actor
            return open_outcomes(ledger, self.layout, subject, by=who, why=why)


def _mode(exploratory: bool) -> Mode:
    return "exploratory" if exploratory else "confirmatory"
