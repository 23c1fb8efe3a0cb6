"""Check, register: from a proposal to a frozen and anchored promise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.errors import ConflictError, Fault, InvalidFileError
from workbench.experiments.checking import Checked, Plan, check
from workbench.experiments.embargoes import embargo_terms, impose, standing_embargoes
from workbench.experiments.identity import identity_faults
from workbench.experiments.locks import filing_lock
from workbench.experiments.registered import anchor_entry, registration_entry, seeds_of
from workbench.experiments.stated_power import stated_power
from workbench.experiments.unraced import Wanted, append_unraced
from workbench.layout import Layout
from workbench.proxies.recipe import Recipe
from workbench.registry.embargo import OpenEmbargo
from workbench.registry.entries import (
    Anchor,
    ApprovalRule,
    CodeState,
    DataState,
    Registration,
)
from workbench.registry.heads import SignedHead
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import Proposal
from workbench.registry.provenance import (
    NO_COMMIT,
    code_state,
    dirty_files,
    environment,
    host,
)

__all__ = [
    "Checked", "Plan", "Receipt", "check", "freeze", "refuse_registering", "register",
]  # fmt: skip

ARMS = ("control", "treatment")
OUTPUTS = ("registry", "reports")
"""Folders that the workbench writes: their changes do not make a tree dirty."""

MOST_NAMED = 12
"""Files listed of a dirty tree; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a registration gives back: keep the head, it proves the time order."""

    experiment: str
    registration: Entry
    anchor: Entry
    head: SignedHead
    """The signed tree head over both entries."""
    seeds: tuple[int, ...]
    """Time-locked, one a repeat, the same in both arms."""
    plan: Plan | None
    """What will run; None when an interrupted registration was completed."""
    warnings: tuple[Fault, ...]
    resumed: bool
    """Whether an earlier call had been interrupted between registration and anchor."""
    embargo: OpenEmbargo | None = None
    """What withholds the experiment from publication."""


def freeze(
    layout: Layout,
    number: str,
    *,
    corpus_state: DataState,
    code: CodeState,
    environment: Mapping[str, str],
) -> Registration:
    """Return the registration of an experiment's files as they are now.

    Raises:
        InvalidFileError: the files have faults; carries all of them.
        ConflictError: the corpus is not the recipe's.
    """
    return _frozen(check(layout, number), corpus_state, code, environment)


def register(
    layout: Layout,
    number: str,
    *,
    ledger: Ledger,
    corpus: DataState,
    embargo_until: str = "",
    embargo_reason: str = "",
    approvals: ApprovalRule | None = None,
) -> Receipt:
    """Freeze an experiment, append it to the ledger, anchor it and derive its seeds.

    An earlier call that was interrupted between registration and anchor is completed: the
    registration stands, and only the anchor is added.

    Args:
        layout: The lab, in a git work tree without uncommitted changes.
        number: ``NNNN``, ``N`` or ``NNNN-slug``.
        ledger: The lab's ledger.
        corpus: State of the recipe's built corpus.
        embargo_until: Day by whose end a hidden registration is revealed, ``YYYY-MM-DD``; empty
            for what the proposal says.
        embargo_reason: Published at once.
        approvals: What the lab requires before anything confirmatory runs; frozen.

    Raises:
        InvalidFileError: the files have faults, of which it carries all, or the embargo has.
        ConflictError: registered already, outside git, uncommitted changes, or another corpus.
        NotFoundError: there is no such experiment.
    """
    experiment = layout.experiment(number).name
    with filing_lock(layout):
        earlier = registration_entry(ledger, experiment)
        if earlier is not None:
            return _completed(ledger, earlier)
        checked = check(layout, number, source=ledger, today=ledger.now().date())
        checked.require()
        code = _committed_code(layout)
        body = _frozen(checked, corpus, code, environment(), approvals)
        terms = embargo_terms(embargo_until, embargo_reason, checked.proposal)
        impose(ledger, experiment, terms)

        def look() -> Wanted:
            # On another machine somebody may have registered it, or the recipe's name, meanwhile.
            _refuse_registered(registration_entry(ledger, experiment))
            replace(checked, faults=tuple(identity_faults(checked.documents, ledger))).require()
            return Wanted(body=body)

        entry = append_unraced(ledger, experiment, look)
        return _anchored(ledger, entry, plan=checked.plan, warnings=checked.warnings)


def refuse_registering(layout: Layout, experiment: str, source: LogSource) -> None:
    """Refuse what `register` would refuse whatever the corpus is, before that is built.

    Raises:
        ConflictError: registered already, outside git, or with uncommitted changes.
    """
    earlier = registration_entry(source, experiment)
    if earlier is None:
        _committed_code(layout)
    elif anchor_entry(source, earlier) is not None:
        raise _registered_already(earlier)


def _registered_already(registration: Entry) -> ConflictError:
    return ConflictError(
        f"{registration.subject} was registered at {registration.time} "
        f"(entry {registration.sequence})",
        remedy='workbench status; for another plan: workbench propose "a title"',
    )


def _completed(ledger: Ledger, registration: Entry) -> Receipt:
    if anchor_entry(ledger, registration) is not None:
        _refuse_registered(registration)
    return _anchored(ledger, registration, plan=None, warnings=(), resumed=True)


def _refuse_registered(registration: Entry | None) -> None:
    if registration is not None:
        raise _registered_already(registration)


def _anchored(
    ledger: Ledger,
    registration: Entry,
    *,
    plan: Plan | None,
    warnings: tuple[Fault, ...],
    resumed: bool = False,
) -> Receipt:
    """Put the head that covers the registration into the log, which locks the seeds."""
    covering = ledger.head()
    body = Anchor(method="embedded", head=covering.note, tree_size=covering.size)
    anchor = ledger.append(body, subject=registration.subject, refs=[registration.leaf])
    return Receipt(
        experiment=registration.subject,
        registration=registration,
        anchor=anchor,
        head=ledger.head(),
        seeds=seeds_of(registration, anchor),
        plan=plan,
        warnings=warnings,
        resumed=resumed,
        embargo=next(iter(standing_embargoes(ledger, registration.subject)), None),
    )


def _frozen(
    checked: Checked,
    corpus: DataState,
    code: CodeState,
    versions: Mapping[str, str],
    approvals: ApprovalRule | None = None,
) -> Registration:
    checked.require()
    proposal, recipe = checked.proposal, checked.recipe
    if proposal is None or recipe is None or checked.full is None:
        raise InvalidFileError(f"{checked.experiment} is incomplete")
    check_corpus(recipe, corpus)
    check_evaluation_set(checked.experiment, proposal, corpus)
    return Registration(
        experiment=checked.experiment,
        title=proposal.title,
        proposal=checked.documents["proposal"],
        recipe=checked.documents["recipe"],
        full=checked.documents["full"],
        frozen=proposal.model_dump(mode="json"),
        control=recipe.control(),
        code=code,
        environment=dict(versions),
        data=corpus,
        arms=list(ARMS),
        num_seeds=proposal.design.seeds,
        host=host(),
        approvals=approvals,
        power=stated_power(checked),
    )


def check_evaluation_set(experiment: str, proposal: Proposal, corpus: DataState) -> None:
    """Do nothing if the set that decides is the one that the proposal pins, or it pins none.

    Raises:
        ConflictError: the built corpus has another one.
    """
    primary = proposal.measures.primary
    found = corpus.evaluation_sets.get(primary.evaluation_set, "")
    if primary.evaluation_set_hash and primary.evaluation_set_hash != found:
        raise ConflictError(
            f"{experiment} must be decided on the {primary.evaluation_set} set "
            f"{primary.evaluation_set_hash}, but the corpus {corpus.corpus!r} has "
            f"{found or 'none'}",
            remedy="use the recipe and the package versions of the experiment that it is from, or "
            f'write measures.primary.evaluation_set_hash: "{found}"',
        )


def check_corpus(recipe: Recipe, corpus: DataState) -> None:
    """Do nothing if a built corpus is the recipe's and long enough.

    Raises:
        ConflictError: it is another one, or a domain of it is shorter than one sequence.
    """
    domains = sorted(recipe.corpus.sources)
    if corpus.corpus != recipe.corpus.name or sorted(corpus.natural_mixture) != domains:
        raise ConflictError(
            f"the corpus {corpus.corpus!r} of {sorted(corpus.natural_mixture)} is not the recipe's "
            f"{recipe.corpus.name!r} of {domains}",
            remedy="workbench data build RECIPE",
        )
    needed = recipe.base.batch.seq_len + 1
    short = {
        split_domain: tokens for split_domain, tokens in corpus.tokens.items() if tokens < needed
    }
    if short:
        raise ConflictError(
            f"the corpus {corpus.corpus!r} has fewer tokens than one sequence ({needed}) in "
            f"{', '.join(f'{name} ({tokens})' for name, tokens in sorted(short.items()))}",
            remedy="raise max_bytes or the split's share in the recipe, under a new version",
        )


def uncommitted(layout: Layout) -> bool:
    """Return whether something must be committed before anything is registered."""
    return code_state(layout.root, outputs=OUTPUTS).dirty


def _committed_code(layout: Layout) -> CodeState:
    code = code_state(layout.root, outputs=OUTPUTS)
    if code.commit == NO_COMMIT:
        raise ConflictError(
            f"{layout.root} is not in a git work tree with a commit, so nothing pins the code",
            remedy="git init && git add -A && git commit -m 'Begin the lab'",
        )
    if code.dirty:
        changed = dirty_files(layout.root, outputs=OUTPUTS)
        more = len(changed) - MOST_NAMED
        named = "".join(f"\n    {name}" for name in changed[:MOST_NAMED])
        rest = f"\n    and {more} more" if more > 0 else ""
        raise ConflictError(
            f"{len(changed)} uncommitted change{'' if len(changed) == 1 else 's'} in the work "
            f"tree:{named}{rest}",
            remedy="git add -A && git commit, then register (or explore with --exploratory)",
        )
    return code
