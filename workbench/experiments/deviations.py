"""What differs from the registration when something starts under it."""

from collections.abc import Iterator, Mapping
from itertools import chain

from workbench.errors import IntegrityError
from workbench.experiments.plan import ExperimentPlan, changed_documents
from workbench.layout import Layout
from workbench.registry.entries import CodeState, DataState, Deviation, Registration
from workbench.registry.ledger import Ledger


def record_deviations(
    ledger: Ledger,
    plan: ExperimentPlan,
    layout: Layout,
    *,
    code: CodeState,
    environment: Mapping[str, str],
) -> list[Deviation]:
    """Append every deviation of the present state that was not yet recorded; return all of them."""
    if plan.registration is None or not isinstance(plan.registration.body, Registration):
        return []
    registered = plan.registration.body
    found = list(
        chain(
            _code(registered, code),
            _environment(registered, environment),
            _documents(registered, layout),
        )
    )
    known = [entry.body for entry in ledger.entries(kind="deviation", subject=plan.subject)]
    for deviation in found:
        if deviation not in known:
            ledger.append(deviation, subject=plan.subject, refs=plan.refs)
    return found


def refuse_other_data(registered: DataState, found: DataState) -> None:
    """Refuse a corpus that is not the registered one.

    Raises:
        IntegrityError: the manifests differ, so that results would not answer the question.
    """
    if registered.manifest != found.manifest:
        raise IntegrityError(
            f"corpus {found.corpus} has manifest {found.manifest}, registered was "
            f"{registered.manifest}",
            remedy="restore the registered sources (Python and package versions are in the "
            "registration), or register a new proposal for the new data",
        )


def _code(registered: Registration, code: CodeState) -> Iterator[Deviation]:
    if code.commit != registered.code.commit:
        yield Deviation(
            what="code.commit",
            registered=registered.code.commit,
            found=code.commit,
            effect="results come from other code than was registered",
        )
    if code.dirty:
        yield Deviation(
            what="code.dirty",
            registered="a clean work tree",
            found=f"uncommitted changes on {code.commit}",
            effect="the code that ran is in no commit",
        )
    if code.workbench != registered.code.workbench:
        yield Deviation(
            what="code.workbench",
            registered=registered.code.workbench,
            found=code.workbench,
            effect="another version of the workbench may compute other numbers",
        )


def _environment(registered: Registration, found: Mapping[str, str]) -> Iterator[Deviation]:
    before = registered.environment
    for key in sorted({*before, *found}):
        if before.get(key) != found.get(key):
            yield Deviation(
                what=f"environment.{key}",
                registered=before.get(key, "absent"),
                found=found.get(key, "absent"),
                effect="another version may compute other numbers",
            )


def _documents(registered: Registration, layout: Layout) -> Iterator[Deviation]:
    for document in changed_documents(layout, registered):
        yield Deviation(
            what=f"file {document.path}",
            registered=f"sha256:{document.sha256}",
            found="another content, or no file",
            effect="none on what runs: the registered text is used, the edit is not",
        )
