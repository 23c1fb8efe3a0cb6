"""Propose, check, register: from a question to a frozen and anchored promise."""

import math
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.canonical import Json
from workbench.errors import ConflictError, Fault, InvalidFileError, NotFoundError
from workbench.experiments.checking import Checked, Plan, check
from workbench.experiments.embargoes import embargo_terms, impose, standing_embargoes
from workbench.experiments.identity import identity_faults
from workbench.experiments.locks import filing_lock
from workbench.experiments.registered import anchor_entry, registration_entry, seeds_of
from workbench.experiments.stated_power import stated_power
from workbench.experiments.unraced import Wanted, append_unraced
from workbench.layout import Layout, slug
from workbench.proxies.recipe import Recipe, dotted
from workbench.proxies.recipe_file import load_recipe
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
from workbench.registry.located import REORDERING, decode
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import Proposal
from workbench.registry.provenance import (
    NO_COMMIT,
    code_state,
    dirty_files,
    environment,
    host,
)
from workbench.scaffold.forms import Form, Override, full_text, proposal_text
from workbench.scaffold.lab import DEFAULT_RECIPE

__all__ = [
    "Checked", "Plan", "Receipt", "check", "freeze", "propose", "refuse_registering", "register",
]  # fmt: skip

ARMS = ("control", "treatment")
OUTPUTS = ("registry", "reports")
"""Folders that the workbench writes: their changes do not make a tree dirty."""

MAX_TITLE = 200
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


def propose(
    layout: Layout, title: str, *, owner: str, recipe: str | None = None, called: str = ""
) -> Path:
    """Write the next experiment's ``proposal.md`` and ``full.yaml`` and return their folder.

    Whatever the recipe already says is filled in. The folder appears whole or not at all, and two
    calls at once get two numbers.

    Args:
        layout: The lab.
        title: The question in one line.
        owner: Who answers for it.
        recipe: Path of a recipe, relative to the lab's root; the lab's default if None.
        called: What the folder is called after its number, which an embargo does not withhold; the
            title's first words if empty.

    Raises:
        InvalidFileError: the title or the name cannot be used, or the recipe has faults.
        NotFoundError: there is no such recipe.
    """
    text = _usable_title(title)
    name = slug(called or text)
    path, base = _recipe(layout, recipe or DEFAULT_RECIPE)
    layout.experiments.mkdir(parents=True, exist_ok=True)
    with filing_lock(layout):
        number = f"{_next_number(layout.experiments):04d}"
        form = _form(base, path, number=number, name=name, title=text, owner=owner)
        folder = layout.experiments / f"{number}-{name}"
        _write_whole(folder, {"proposal.md": proposal_text(form), "full.yaml": full_text(form)})
    return folder


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
            remedy="workbench data RECIPE",
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


def _usable_title(title: str) -> str:
    text = unicodedata.normalize("NFC", title.strip())
    strange = [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    if not text or len(text) > MAX_TITLE or strange or REORDERING.search(text):
        raise InvalidFileError(
            f"title {title[:MAX_TITLE]!r} is not one line of 1 to {MAX_TITLE} characters",
            remedy='workbench propose "a question in one line"',
        )
    return text


def _recipe(layout: Layout, path: str) -> tuple[str, Recipe]:
    file = layout.root / path
    inside = file.resolve().parent == layout.proxies.resolve()
    if not inside or not file.is_file():
        found = sorted(recipe.name for recipe in layout.proxies.glob("*.yaml"))
        known = ", ".join(f"{layout.proxies.name}/{name}" for name in found) or "none"
        raise NotFoundError(
            f"recipe {path!r} is not a file in {layout.proxies.name}/ (known: {known})",
            remedy=f'workbench propose "a title" --recipe {layout.proxies.name}/NAME.yaml',
        )
    where = f"{layout.proxies.name}/{file.name}"
    return where, load_recipe(decode(file.read_bytes(), where), where)


def _form(recipe: Recipe, path: str, *, number: str, name: str, title: str, owner: str) -> Form:
    control = dotted(recipe.control())
    values = ", ".join(f"{key} = {_short(value)}" for key, value in control.items())
    return Form(
        number=number,
        slug=name,
        title=title,
        owner=owner,
        kind=_kind(list(recipe.space)),
        recipe_path=path,
        recipe_identity=recipe.recipe,
        manipulated=list(recipe.space),
        control_arm=f"the recipe's base: {values}",
        scales=[scale.name for scale in recipe.scales],
        domains=list(recipe.corpus.sources),
        loss_above=math.ceil(math.log(recipe.base.model.vocab_size)) + 4,
        overrides=_overrides(recipe),
    )


def _overrides(recipe: Recipe) -> list[Override]:
    """Return a full scale of twice the base in width, depth and steps."""
    model, steps = recipe.base.model, recipe.base.steps
    lr = float(f"{recipe.base.optimizer.lr * 2**-0.5:.3g}")
    grown = [
        Override(
            key="model.d_model",
            value=2 * model.d_model,
            why="twice the width of the base: what the compute at hand allows",
        ),
        Override(
            key="model.num_layers",
            value=2 * model.num_layers,
            why="twice the depth, so that width and depth grow together",
        ),
        Override(key="steps", value=steps * 2, why="more tokens for the larger model"),
        Override(
            key="optimizer.lr",
            value=lr,
            of="model.d_model",
            exponent=-0.5,
            why="a wider model takes smaller steps; the ladder's scales follow the same rule",
        ),
    ]
    # A key that the sweep decides is not the full scale's to set, nor is one that would follow it.
    searched = recipe.space
    return [o for o in grown if o.key not in searched and o.of not in searched]


def _kind(manipulated: Sequence[str]) -> str:
    kinds = {
        "mixture": "data_mixture",
        "balance": "balance",
        "phase_fractions": "schedule",
        "phases": "schedule",
        "model": "architecture",
        "optimizer": "optimizer",
    }
    found = [kinds[key.partition(".")[0]] for key in manipulated if key.partition(".")[0] in kinds]
    return found[0] if found else "other"


def _short(value: Json) -> str:
    if isinstance(value, Mapping):
        return "/".join(f"{name} {_short(share)}" for name, share in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _next_number(experiments: Path) -> int:
    # Whatever begins with four digits has taken its number, also what a person named by hand.
    taken = [path.name[:4] for path in experiments.iterdir() if path.name[:4].isdecimal()]
    number = max(map(int, taken), default=0) + 1
    if number > 9999:
        raise ConflictError("experiment numbers end at 9999", remedy="workbench init another-lab")
    return number


def _write_whole(folder: Path, files: Mapping[str, str]) -> None:
    """Write a folder under a hidden name and give it its own in one step.

    The caller holds the lock, so that a hidden folder can only be what a killed process left.
    """
    for left in folder.parent.glob(".[0-9][0-9][0-9][0-9]-*"):
        shutil.rmtree(left)
    draft = folder.parent / f".{folder.name}"
    try:
        draft.mkdir()
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8", newline="\n")
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
