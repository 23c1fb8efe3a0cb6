"""After the verdict, MLflow gets the validation metrics that were held back from it."""

import contextlib
from datetime import datetime

from workbench.errors import NotFoundError, StoreUnavailableError
from workbench.experiments.attempts import histories
from workbench.experiments.outcomes import canonical_points, values_are_open
from workbench.layout import Layout
from workbench.registry.log import LogSource
from workbench.training.blinding import publish_evaluations
from workbench.training.tracking import Tracker


def publish_validation(source: LogSource, layout: Layout, tracker: Tracker, subject: str) -> None:
    """Write the canonical validation curve of each confirmatory run to MLflow, once decided.

    A run or a store that is away does not hold up the verdict, whose record is the ledger; the next
    `workbench verdict` tries again.
    """
    if not values_are_open(source, subject, "confirmatory"):
        return
    folder = layout.runs / subject / "confirmatory" / "full"
    for run, history in histories(source, subject, "confirmatory").items():
        last = history.attempts[-1]
        if last.end_entry is None:
            continue
        points = [(p.step, p.values) for p in canonical_points(history, folder / run)]
        with contextlib.suppress(NotFoundError, StoreUnavailableError):
            publish_evaluations(
                tracker,
                last.started.mlflow_run,
                points,
                time=datetime.fromisoformat(last.end_entry.time).timestamp(),
            )
