"""The token stream of a run, and what it serves at any step without training."""

from workbench.data.corpus import Corpus
from workbench.data.serving import served
from workbench.data.serving.mixture import resolve
from workbench.data.serving.served import ServedSample, ServedWindows
from workbench.data.serving.stream import TokenStream
from workbench.data.serving.weights import DecaySchedule
from workbench.errors import NotFoundError
from workbench.training.config import RunConfig
from workbench.training.phases import mixture_changes


def run_stream(config: RunConfig, corpus: Corpus, seed: int) -> TokenStream:
    """Return the stream of a run before its first step.

    Raises:
        InvalidFileError: a mixture that does not fit the corpus.
    """
    # The stream counts the steps done before a mixture holds, the schedule the first step of it.
    mixtures = [(first - 1, resolve(shares, corpus)) for first, shares in mixture_changes(config)]
    available = config.availability
    drops = available is not None and available.exhausted == "drop"
    return TokenStream(
        corpus,
        batch=config.batch,
        seed=seed,
        mixtures=mixtures,
        weights=decay_schedule(config),
        dropped_after=available.caps(corpus.domains) if available and drops else None,
    )


def decay_schedule(config: RunConfig) -> DecaySchedule | None:
    """Return the decay of the run's document weights, None where all are drawn alike."""
    weights = config.document_weights
    if weights is None:
        return None
    return DecaySchedule(first=weights.first, last=weights.last, steps=config.steps)


def samples_at(config: RunConfig, corpus: Corpus, seed: int, step: int) -> tuple[ServedSample, ...]:
    """Return the sequences that a run's step trains on, with their documents' identities.

    Raises:
        NotFoundError: the step is not one of 1 to ``config.steps``.
        InvalidFileError: a mixture that does not fit the corpus.
        RunFailedError: every domain was dropped before the step.
        IntegrityError: the corpus's list of documents is not what was built.
    """
    if not 1 <= step <= config.steps:
        raise NotFoundError(
            f"step {step} is not one of the run's steps",
            remedy=f"give a step of 1 to {config.steps}",
        )
    samples = served.samples_at(run_stream(config, corpus, seed), corpus, step)
    corpus.verify_documents()
    return served.with_ids(samples, corpus.folder)


def served_windows(
    config: RunConfig, corpus: Corpus, seed: int, steps: int
) -> dict[str, ServedWindows]:
    """Return by domain how often the first so many steps of a run served each window.

    Raises:
        InvalidFileError: a mixture that does not fit the corpus.
        RunFailedError: every domain was dropped before that.
    """
    return served.served_windows(run_stream(config, corpus, seed), steps)
