"""Methods that show schedules."""

from pathlib import Path

from workbench.experiments.scheduling import (
    CONTROL,
    Schedule,
    experiment_schedule,
    file_schedule,
)
from workbench.lab.opened import OpenedLab


class Scheduling(OpenedLab):
    """What a configuration does at each of its steps."""

    def schedule(self, what: str, *, scale: str = "", arm: str = CONTROL) -> Schedule:
        """Return the schedule of a file or of an experiment.

        Args:
            what: A recipe, a ``full.yaml``, or the number of an experiment.
            scale: Of the recipe. Empty is the largest of a file's, and an experiment's full scale.
            arm: Of an experiment at full scale; another than the control needs its promotion.

        Raises:
            NotFoundError: there is no such file, scale, experiment or arm.
            InvalidFileError: a file has faults.
            NotRegisteredError: the experiment waits for approvals.
            ConflictError: the experiment was withdrawn, or is hidden from this reader.
        """
        if what.endswith((".yaml", ".yml")) or "/" in what:
            return file_schedule(self.layout, what, scale)
        return experiment_schedule(self.source(), self.layout, what, scale=scale, arm=arm)

    def draw_schedule(self, schedule: Schedule, path: Path) -> None:
        """Write a schedule's figure as an SVG file.

        Raises:
            OSError: it cannot be written.
        """
        from workbench.reports.figures.schedule import DrawnPhase, schedule_figure
        from workbench.reports.render import figure_file

        starts = {row.step: row for row in schedule.rows()}
        phases = [
            DrawnPhase(
                name=span.name,
                first=span.first,
                last=span.last,
                frozen=starts[span.first].frozen,
                balance_weight=starts[span.first].balance_weight,
                mixture=starts[span.first].mixture,
            )
            for span in schedule.phases()
        ]
        # The ends of the phases are among the rows, so that no corner and no jump is missed.
        points = {row.step: row.lr for row in (*schedule.sampled(700), *starts.values())}
        figure = schedule_figure(schedule.what, sorted(points.items()), phases)
        path.write_text(figure_file(figure), "utf-8")
