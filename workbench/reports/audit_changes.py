"""What amendments and a withdrawal mean for a verdict, computed again from the log alone."""

from collections.abc import Iterator

from workbench.canonical import freeze, sha256_hex
from workbench.errors import InvalidFileError
from workbench.proxies.document_changes import documents_of, field_changes
from workbench.registry.amended import amended, late_reasons
from workbench.registry.entries import Amendment, Registration, Verdict
from workbench.reports.documents import registered_recipe, written_proposal
from workbench.reports.facts import ExperimentFacts, registered_proposal


def frozen_faults(facts: ExperimentFacts) -> Iterator[str]:
    """Yield where the typed values of a registration or an amendment are not those of its text."""
    if facts.original is None:
        return
    yield from _typed_faults(facts.original.value, "")
    before: Registration | Amendment = facts.original.value
    for amendment in facts.course.amendments:
        body, name = amendment.entry.body, f" of amendment {amendment.entry.sequence}"
        whole = facts.course.registration and amended(facts.course.registration, amendment.entry)
        if not isinstance(body, Amendment) or whole is None:
            continue
        if isinstance(whole.body, Registration):
            yield from _typed_faults(whole.body, name)
        yield from _document_faults(body, before, name)
        before = body


def _typed_faults(body: Registration, name: str) -> Iterator[str]:
    try:
        written = written_proposal(body.proposal)
        typed = registered_proposal(body)
    except (ValueError, InvalidFileError) as error:
        yield f"the proposal’s text{name} cannot be read: {error}"
        return
    if freeze(written.model_dump(mode="json")) != freeze(typed.model_dump(mode="json")):
        yield f"the proposal’s text{name} and its frozen values differ"


def _document_faults(body: Amendment, before: Registration | Amendment, name: str) -> Iterator[str]:
    for document in documents_of(body).values():
        if sha256_hex(document.text.encode()) != document.sha256:
            yield f"the text of {document.path}{name} does not give its hash"
    try:
        found = field_changes(documents_of(before), documents_of(body))
        control = registered_recipe(body.recipe).control()
    except InvalidFileError as error:
        yield f"a document{name} cannot be read: {error.message}"
        return
    if found != body.changes:
        yield f"the changes{name} are not those of its documents"
    if freeze(control) != freeze(body.control):
        yield f"the control arm{name} is not that of its recipe"


def mode_faults(facts: ExperimentFacts, verdict: Verdict) -> Iterator[str]:
    """Yield where a verdict claims another standing than its amendments leave it."""
    course = facts.course
    if course.withdrawal is not None:
        yield f"a verdict of what was withdrawn (entry {course.withdrawal.sequence})"
    late = late_reasons(course)
    if verdict.mode == "confirmatory":
        yield from (f"confirmatory, although {reason}" for reason in late)
    elif not late:
        yield "exploratory, although nothing was amended after outcomes were seen"
    if late and verdict.outcome != "void":
        yield f"{verdict.outcome}, although {late[0]}"
    yield from (
        f"it does not say that {reason}" for reason in late if reason not in verdict.void_reasons
    )
