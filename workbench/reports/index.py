"""All chronicles of a lab, and how its forecasts have done so far."""

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.errors import NotFoundError
from workbench.layout import safe_name
from workbench.reports.accounting import bill
from workbench.reports.blocks import Section
from workbench.reports.calibration import calibration_section
from workbench.reports.facts import ExperimentFacts, Source
from workbench.reports.narrative import listed
from workbench.reports.quantities import (
    calendar_day,
    count,
    decimals_for,
    duration,
    signed,
    stamp,
    with_unit,
)
from workbench.reports.scores import lab_scoreboard
from workbench.reports.sections.hidden import state_texts
from workbench.reports.status import state_of


@dataclass(frozen=True, kw_only=True)
class IndexRow:
    """One experiment."""

    experiment: str
    file: str
    """Name of its chronicle, relative to the index."""
    title: str
    state: str
    effect: str
    """Estimate and bounds; empty where there are none."""
    cost: str
    """Device time; empty where nothing was spent."""
    began: str
    exploratory: bool
    hidden: str
    """Why there is nothing to tell but that it exists; empty where there is."""
    amended: str
    """That the registration was amended, and whether late; empty if it was not."""
    deviated: str
    """In what it deviated from its registration; empty if in nothing that has a category."""
    before: str
    """Origin of the earlier log that it is in; empty where it is in the newest."""
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Index:
    """The list of a lab's chronicles."""

    lab: str
    as_of: str
    rows: tuple[IndexRow, ...]
    calibration: Section
    pages: Mapping[str, str]
    """Where each entry's chronicle is, relative to the index, by the entry's leaf hash."""


def index_of(by_folder: Mapping[str, ExperimentFacts]) -> Index:
    """Return the index of some experiments.

    Args:
        by_folder: Facts by the folder of their chronicle; those of the newest log first.

    Raises:
        NotFoundError: there is none.
    """
    found = list(by_folder.values())
    if not found:
        raise NotFoundError(
            "the ledger has no experiment to chronicle", remedy='workbench propose "a title"'
        )
    newest = found[0].origin
    of_newest = (facts.as_of for facts in found if facts.origin == newest)
    last = max(of_newest, key=lambda source: source.sequence)
    return Index(
        lab=found[0].lab,
        as_of=f"As of entry {last.sequence}, {stamp(last.time)}",
        rows=tuple(
            _row(facts, folder, newest)
            for folder, facts in sorted(by_folder.items(), key=lambda item: _order(item[1]))
        ),
        calibration=calibration_section(lab_scoreboard(found)),
        pages={
            entry.leaf: _page(folder)
            for folder, facts in by_folder.items()
            for entry in facts.entries
        },
    )


def _page(folder: str) -> str:
    return f"{folder}/chronicle.html"


def folder_name(experiment: str) -> str:
    """Return the name of a subject's folder in ``reports/``.

    Raises:
        InvalidFileError: the subject cannot be a file name.
    """
    return safe_name(experiment.replace(":", "-").replace("@", "-v"))


def _order(facts: ExperimentFacts) -> tuple[bool, str]:
    return (not facts.confirmatory, facts.experiment)


def _row(facts: ExperimentFacts, folder: str, newest: str) -> IndexRow:
    verdict = facts.verdict.value if facts.verdict else None
    effect = ""
    if verdict and verdict.estimate is not None:
        places = decimals_for([verdict.estimate, verdict.lower, verdict.upper])
        effect = (
            f"{with_unit(signed(verdict.estimate, places), verdict.metric)} "
            f"[{signed(verdict.lower, places)}, {signed(verdict.upper, places)}]"
        )
    total = bill(facts)
    return IndexRow(
        experiment=facts.experiment,
        file=_page(folder),
        title=facts.title,
        state=state_of(facts),
        effect=effect,
        cost=duration(total.device_seconds) if total.costs else "",
        began=calendar_day(facts.entries[0].time),
        exploratory=not facts.confirmatory,
        hidden=" ".join(state_texts(facts)) if facts.promise_hidden else "",
        amended=_amended(facts),
        deviated=_deviated(facts),
        before=facts.origin if facts.origin != newest else "",
        sources=facts.verdict.sources if facts.verdict else (),
    )


def _amended(facts: ExperimentFacts) -> str:
    amendments, late = len(facts.course.amendments), len(facts.course.late())
    if not amendments:
        return ""
    return f"amended {count(amendments, 'time')}{', after outcomes were seen' if late else ''}"


def _deviated(facts: ExperimentFacts) -> str:
    found = {deviation.value.category for deviation in facts.deviations} - {""}
    return f"deviated in {listed(sorted(found))}" if found else ""
