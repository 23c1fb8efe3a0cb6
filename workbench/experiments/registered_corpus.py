"""The corpus of an experiment: the registered one, or nothing runs."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from workbench.data.build import build_corpus
from workbench.data.corpus import Corpus
from workbench.errors import ConflictError
from workbench.experiments.deviations import (
    record_changed_sources,
    record_other_data,
    refuse_other_data,
)
from workbench.experiments.plan import ExperimentPlan
from workbench.layout import Layout
from workbench.registry.entries import Registration
from workbench.registry.ledger import Ledger


def registered_corpus(
    plan: ExperimentPlan,
    layout: Layout,
    *,
    ledger: Callable[[], AbstractContextManager[Ledger]],
    at: str,
    progress: Callable[[str, float], None],
) -> Corpus:
    """Build the plan's corpus unless it is built; record and refuse another than the registered.

    Args:
        plan: What is to run. Exploring, any corpus of the recipe will do.
        layout: The lab.
        ledger: Opens the lab's ledger; called only when there is something to record.
        at: What starts or resumes.
        progress: Gets a stage and the share of it that is done.

    Raises:
        ConflictError: the sources changed since the corpus was built.
        IntegrityError: the manifest is not the registered one.
    """
    try:
        corpus = build_corpus(
            plan.recipe.corpus, root=layout.root, corpora=layout.corpora, progress=progress
        )
    except ConflictError as error:
        if plan.registration is not None:
            with ledger() as opened:
                record_changed_sources(opened, plan, error.message, at=at)
        raise
    if plan.registration and isinstance(plan.registration.body, Registration):
        registered, found = plan.registration.body.data, corpus.state()
        if registered.manifest != found.manifest:
            with ledger() as opened:
                record_other_data(opened, plan, found, at=at)
        refuse_other_data(registered, found)
    return corpus
