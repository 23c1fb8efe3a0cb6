"""Give an experiment up, in the open: nothing of it runs any more, and all of it stays readable."""

from dataclasses import dataclass

from workbench.errors import ConflictError
from workbench.experiments.amendments import require_reason
from workbench.experiments.locks import at_rest
from workbench.experiments.registered import refuse_withdrawn, require_registration
from workbench.experiments.unraced import Wanted, append_unraced
from workbench.layout import Layout
from workbench.registry.amended import Course, Known, course_of
from workbench.registry.entries import Withdrawal
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource


@dataclass(frozen=True, kw_only=True)
class DraftWithdrawal:
    """What a withdrawal would say, for a person to look at before it is written."""

    experiment: str
    reason: str
    known: Known
    """What the log shows was known so far."""


def draft_withdrawal(
    layout: Layout, number: str, *, source: LogSource, reason: str
) -> DraftWithdrawal:
    """Return what a withdrawal would say now; writes nothing.

    Raises:
        NotRegisteredError: there is nothing to withdraw.
        ConflictError: it has its verdict, or was withdrawn before.
        InvalidFileError: there is no reason.
    """
    require_reason(reason, "a withdrawal")
    experiment = layout.experiment(number).name
    course = course_of(source, experiment)
    require_registration(course.registration, experiment)
    _refuse_closed(course, experiment)
    return DraftWithdrawal(experiment=experiment, reason=reason.strip(), known=course.known())


def withdraw(layout: Layout, number: str, *, ledger: Ledger, reason: str) -> Entry:
    """Append the withdrawal of a registered experiment.

    Args:
        layout: The lab.
        number: ``NNNN``, ``N`` or ``NNNN-slug``.
        ledger: The lab's ledger.
        reason: Why, in a sentence.

    Raises:
        NotRegisteredError: there is nothing to withdraw.
        ConflictError: it has its verdict, was withdrawn before, or is at work.
        InvalidFileError: there is no reason.
    """
    require_reason(reason, "a withdrawal")
    experiment = layout.experiment(number).name

    def look() -> Wanted:
        course = course_of(ledger, experiment)
        registration = require_registration(course.registration, experiment)
        _refuse_closed(course, experiment)
        known = course.known()
        body = Withdrawal(
            reason=reason.strip(),
            timing=known.timing,
            rests_on=[entry.id for entry in known.rests_on],
        )
        return Wanted(body=body, refs=[registration.leaf])

    with at_rest(layout, ledger, experiment):
        return append_unraced(ledger, experiment, look)


def _refuse_closed(course: Course, experiment: str) -> None:
    refuse_withdrawn(course, experiment)
    if course.verdict is not None:
        raise ConflictError(
            f"{experiment} has its verdict (entry {course.verdict.sequence}): what was judged "
            "stays judged",
            remedy=f'workbench note -e {experiment[:4]} "what you know now"',
        )
