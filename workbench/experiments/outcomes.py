"""Validation values of full-scale runs: hidden until the verdict, or opened on the record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from workbench.errors import ConflictError, InvalidFileError, NotFoundError
from workbench.experiments.attempts import Attempt, RunHistory, histories
from workbench.layout import Layout
from workbench.registry.amended import Course, Known, course_of
from workbench.registry.entries import Exposure, Mode, Registration, Verdict
from workbench.registry.frontmatter import parse_proposal
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource
from workbench.training.run_folder import evaluations_path, read_evaluations

Access: TypeAlias = Literal["hidden", "decided", "exploratory"]
"""``hidden``: looking is an exposure; else everybody may, because the verdict is given, or because
nothing was promised."""


@dataclass(frozen=True, kw_only=True)
class Curtain:
    """What stands before the outcomes of an experiment; no value is read for it."""

    experiment: str
    mode: Mode
    access: Access
    runs: tuple[str, ...]
    """Runs that have validation values, in the order in which they started; never empty."""
    known: Known
    """What the log says was known of outcomes before."""
    metric: str
    """The primary one; empty where nothing is registered."""
    exposures: int
    """How often validation outcomes were opened before."""


@dataclass(frozen=True, kw_only=True)
class ValidationPoint:
    """One evaluation along the canonical curve of a run."""

    arm: str
    seed_index: int
    run: str
    attempt: int
    step: int
    values: dict[str, float]
    """By metric, bits per byte of validation text."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What was opened."""

    curtain: Curtain
    exposure: Entry | None
    """The entry that came before; None where none was needed."""
    points: tuple[ValidationPoint, ...]
    """By run, then by step."""


def values_are_open(source: LogSource, subject: str, mode: Mode) -> bool:
    """Return whether anybody may see validation values of full-scale runs by arm."""
    if mode == "exploratory":
        return True
    return next(iter(source.entries(kind=Verdict.kind, subject=subject)), None) is not None


def curtain(source: LogSource, layout: Layout, subject: str, *, mode: Mode) -> Curtain:
    """Return what looking at an experiment's validation values would mean.

    Raises:
        NotFoundError: no full-scale run of this mode has been evaluated yet.
    """
    found = histories(source, subject, mode)
    folder = layout.runs / subject / mode / "full"
    runs = tuple(run for run, history in found.items() if _is_evaluated(history, folder / run))
    if not runs:
        flag = "" if mode == "confirmatory" else " --exploratory"
        raise NotFoundError(
            f"no {mode} full-scale run of {subject} has a validation value yet: there is nothing "
            "to open",
            remedy=f"workbench run {subject[:4]}{flag}",
        )
    open_to_all = values_are_open(source, subject, mode)
    access: Access = "hidden"
    if open_to_all:
        access = "exploratory" if mode == "exploratory" else "decided"
    exposures = source.entries(kind=Exposure.kind, subject=subject)
    course = course_of(source, subject)
    return Curtain(
        experiment=subject,
        mode=mode,
        access=access,
        runs=runs,
        known=course.known(),
        metric=_primary_metric(course),
        exposures=sum(_opens_validation(entry) for entry in exposures),
    )


def require_why(shown: Curtain, why: str) -> None:
    """Do nothing if a reason was given where one is needed.

    Raises:
        InvalidFileError: outcomes are hidden and nobody said why they are to be opened.
    """
    if shown.access == "hidden" and not why.strip():
        number = shown.experiment[:4]
        raise InvalidFileError(
            f"the outcomes of {shown.experiment} are hidden until its verdict, and whoever opens "
            "them says why",
            remedy=f'workbench outcomes {number} --why "one sentence", or: workbench health '
            f"{number}",
        )


def opened_outcomes(source: LogSource, layout: Layout, subject: str, *, mode: Mode) -> Outcomes:
    """Return the validation values that anybody may see.

    Raises:
        NotFoundError: there is no value yet.
        ConflictError: they are hidden.
    """
    shown = curtain(source, layout, subject, mode=mode)
    if shown.access == "hidden":
        raise ConflictError(
            f"the outcomes of {subject} are hidden until its verdict",
            remedy=f'workbench outcomes {subject[:4]} --why "one sentence"',
        )
    points = _points(source, layout, subject, mode)
    return Outcomes(curtain=shown, exposure=None, points=points)


def open_outcomes(ledger: Ledger, layout: Layout, subject: str, *, by: str, why: str) -> Outcomes:
    """Log the exposure, then read the validation values of an experiment without a verdict.

    Args:
        ledger: The lab's ledger.
        layout: The lab, for evaluations of attempts that have not ended.
        subject: ``NNNN-slug``.
        by: Who looks.
        why: What for.

    Raises:
        NotFoundError: there is no value yet.
        InvalidFileError: no reason was given.
    """
    mode: Mode = "confirmatory"
    shown = curtain(ledger, layout, subject, mode=mode)
    if shown.access != "hidden":
        # Decided since the caller looked.
        return opened_outcomes(ledger, layout, subject, mode=mode)
    require_why(shown, why)
    body = Exposure(
        what="validation_outcomes", by=by.strip(), purpose=why.strip(), runs=list(shown.runs)
    )
    exposure = ledger.append(body, subject=subject, refs=_refs(course_of(ledger, subject)))
    points = _points(ledger, layout, subject, mode)
    return Outcomes(curtain=shown, exposure=exposure, points=points)


def _points(
    source: LogSource, layout: Layout, subject: str, mode: Mode
) -> tuple[ValidationPoint, ...]:
    folder = layout.runs / subject / mode / "full"
    return tuple(
        point
        for run, history in histories(source, subject, mode).items()
        for point in canonical_points(history, folder / run)
    )


def canonical_points(history: RunHistory, folder: Path) -> Iterator[ValidationPoint]:
    """Yield a run's evaluations along what survives of its attempts, by step."""
    for place, attempt in enumerate(history.attempts):
        began_later = [later.started.from_step for later in history.attempts[place + 1 :]]
        ended = attempt.ended
        last = min([*([ended.surviving_step] if ended else []), *began_later], default=None)
        for step, values in _evaluations(attempt, folder):
            if last is None or step <= last:
                yield ValidationPoint(
                    arm=attempt.started.arm,
                    seed_index=attempt.started.seed_index,
                    run=history.run,
                    attempt=attempt.started.attempt,
                    step=step,
                    values=values,
                )


def _evaluations(attempt: Attempt, folder: Path) -> Sequence[tuple[int, dict[str, float]]]:
    """Return what an attempt measured, from its file while the ledger does not have its end."""
    if attempt.ended is None:
        return read_evaluations(evaluations_path(folder, attempt.started.attempt))
    return [(point.step, point.values) for point in attempt.ended.evaluations]


def _is_evaluated(history: RunHistory, folder: Path) -> bool:
    """Return whether a run has values, without reading one."""
    for attempt in history.attempts:
        if attempt.ended is not None and attempt.ended.evaluations:
            return True
        file = evaluations_path(folder, attempt.started.attempt)
        if attempt.ended is None and file.is_file() and file.stat().st_size:
            return True
    return False


def _opens_validation(entry: Entry) -> bool:
    return isinstance(entry.body, Exposure) and entry.body.what == "validation_outcomes"


def _primary_metric(course: Course) -> str:
    in_force = course.in_force()
    if in_force is None or not isinstance(in_force.body, Registration):
        return ""
    document = in_force.body.proposal
    return parse_proposal(document.text, document.path).measures.primary.metric


def _refs(course: Course) -> list[str]:
    promised = [course.registration] if course.registration else []
    return [entry.leaf for entry in (*promised, *(a.entry for a in course.amendments))]
