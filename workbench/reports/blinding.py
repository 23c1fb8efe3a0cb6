"""What of the full-scale runs a chronicle shows before the verdict: nothing that compares the arms.

Both the validation metrics and the level of the training loss do. What an exposure opened is known,
and shown from then on: the attempts of the runs that it names, as far as they had ended.
"""

from dataclasses import replace

from workbench.registry.entries import Exposure
from workbench.reports.facts import Cited, ExperimentFacts
from workbench.reports.lineage import Attempt, RunLineage, run_lineages


def hides_outcomes(facts: ExperimentFacts) -> bool:
    """Return whether outcomes are hidden: a promise was made and there is no verdict on it yet."""
    return facts.confirmatory and facts.course.verdict is None


def openings(facts: ExperimentFacts) -> tuple[Cited[Exposure], ...]:
    """Return the exposures that opened validation outcomes, oldest first."""
    return tuple(e for e in facts.exposures if e.value.what == "validation_outcomes")


def shown_lineages(facts: ExperimentFacts) -> tuple[RunLineage, ...]:
    """Return the runs whose curves may be shown, each with the attempts of which that is true."""
    runs = run_lineages(facts)
    if not hides_outcomes(facts):
        return runs
    opened: dict[str, int] = {}
    for exposure in openings(facts):
        opened |= dict.fromkeys(exposure.value.runs, exposure.sources[-1].sequence)
    cut = [
        replace(run, attempts=tuple(a for a in run.attempts if _before(a, opened.get(run.run, 0))))
        for run in runs
    ]
    return tuple(run for run in cut if run.attempts)


def _before(attempt: Attempt, sequence: int) -> bool:
    return attempt.ended is not None and attempt.ended.sources[-1].sequence < sequence
