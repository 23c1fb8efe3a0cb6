"""A chronicle: the logbook of one experiment that nobody had to write."""

from dataclasses import dataclass

from workbench.reports.blocks import Section
from workbench.reports.facts import ExperimentFacts
from workbench.reports.quantities import stamp
from workbench.reports.sections.changes import changes_section
from workbench.reports.sections.events import (
    decisions_section,
    deviations_section,
    incidents_section,
)
from workbench.reports.sections.hidden import hidden_section, promise_section, shows_work
from workbench.reports.sections.noise import noise_section
from workbench.reports.sections.outcome import (
    cost_section,
    forecast_section,
    negative_section,
)
from workbench.reports.sections.question import question_section, status_section
from workbench.reports.sections.record import (
    disclosures_section,
    limitations_section,
    record_section,
)
from workbench.reports.sections.runs import curves_section, lineage_section, timeline_section
from workbench.reports.sections.search import search_section
from workbench.reports.sections.verdict import verdict_section
from workbench.reports.status import state_of


@dataclass(frozen=True, kw_only=True)
class Chronicle:
    """Everything that a chronicle says, in the order in which it says it."""

    experiment: str
    title: str
    lab: str
    state: str
    exploratory: bool
    """Watermarked: nothing in it can support a verdict."""
    as_of: str
    sections: tuple[Section, ...]


def chronicle(facts: ExperimentFacts) -> Chronicle:
    """Return the chronicle of an experiment."""
    as_of = facts.as_of
    return Chronicle(
        experiment=facts.experiment,
        title=facts.title,
        lab=facts.lab,
        state=state_of(facts),
        exploratory=not facts.confirmatory,
        as_of=f"As of entry {as_of.sequence}, {stamp(as_of.time)}",
        sections=_hidden_sections(facts) if facts.promise_hidden else _sections(facts),
    )


def _hidden_sections(facts: ExperimentFacts) -> tuple[Section, ...]:
    """Return what everybody may know of an experiment whose promise is hidden.

    What was done under it and what it led to stay, as far as this reader has them.
    """
    hidden = hidden_section(facts)
    found = (promise_section(facts), *([hidden] if hidden else []))
    if not shows_work(facts):
        return (*found, record_section(facts))
    return (*found, *_work_sections(facts))


def _sections(facts: ExperimentFacts) -> tuple[Section, ...]:
    hidden, changes = hidden_section(facts), changes_section(facts)
    noise = noise_section(facts)
    return (
        status_section(facts),
        *([hidden] if hidden else []),
        question_section(facts),
        *([changes] if changes else []),
        *([noise] if noise else []),
        *_work_sections(facts),
    )


def _work_sections(facts: ExperimentFacts) -> tuple[Section, ...]:
    return (
        lineage_section(facts),
        timeline_section(facts),
        curves_section(facts),
        search_section(facts),
        decisions_section(facts),
        deviations_section(facts),
        incidents_section(facts),
        forecast_section(facts),
        verdict_section(facts),
        negative_section(facts),
        cost_section(facts),
        disclosures_section(facts),
        limitations_section(facts),
        record_section(facts),
    )
