"""Overlap of the evaluation sets with what a completed run was served, for its last entry."""

from workbench.data.corpus import Corpus
from workbench.data.serving.served_overlap import served_overlap
from workbench.errors import IntegrityError
from workbench.registry.entries import RunStarted, ServedOverlap
from workbench.training.config import RunConfig
from workbench.training.results import RunResult
from workbench.training.sampling import served_windows


def measured_overlap(
    corpus: Corpus, config: RunConfig, started: RunStarted, result: RunResult
) -> tuple[ServedOverlap | None, str]:
    """Return the overlap, or none and why it could not be measured.

    The run is trained and stays completed either way.
    """
    windows = served_windows(config, corpus, int(started.seed), result.mixture.steps)
    try:
        return served_overlap(corpus, windows), ""
    except IntegrityError as error:
        return None, f"overlap with the evaluation sets was not measured: {error.message}"
