"""Everything that is wrong with an experiment's files, at once, before it is registered."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path as FilePath
from typing import TypeVar

from workbench.canonical import Json
from workbench.errors import Fault, InvalidFileError
from workbench.experiments import contradictions, doubts, sizes
from workbench.experiments.draft import (
    FullDraft,
    ProposalDraft,
    RecipeDraft,
    full_draft,
    proposal_draft,
    recipe_draft,
)
from workbench.experiments.floor_faults import control_fingerprint
from workbench.experiments.foreknown import explored, unstated
from workbench.experiments.identity import identity_faults, registered_changes
from workbench.experiments.planned_rules import POWER
from workbench.experiments.precedents import Precedent, precedents, question_of
from workbench.experiments.reachability import RuleReach
from workbench.experiments.rule_plan import RulePlan
from workbench.layout import Layout
from workbench.proxies.recipe import FullScale, Recipe
from workbench.proxies.recipe_file import examined_full, examined_recipe
from workbench.registry.entries import Document
from workbench.registry.frontmatter import counted, proposal_faults
from workbench.registry.located import Located, decode, in_file_order, key_name
from workbench.registry.log import LogSource
from workbench.registry.proposal import Proposal
from workbench.registry.schema_faults import nearest

Model = TypeVar("Model")
Examine = Callable[[str, str], tuple[Located, Model | None, tuple[Fault, ...]]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much will run if this is registered as it stands."""

    trials: int
    proxy_runs: int
    """Candidates and control × fresh seeds × scales."""
    full_runs: int
    """Both arms × seeds."""
    trial_tokens: int
    """Training tokens of all trials, none pruned."""
    proxy_tokens: int
    full_tokens: int
    detectable_sd: float | None
    """Largest seed-to-seed standard deviation of the metric at which the claim is shown with power
    0.8 if the true effect is what the proposal calls worth acting on (for superior_by: what it
    expects). None where that effect is not beyond the margin."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found, and the typed files where they are sound."""

    experiment: str
    faults: tuple[Fault, ...]
    """In the order of the files and lines; empty when the experiment can be registered."""
    warnings: tuple[Fault, ...]
    documents: Mapping[str, Document]
    """The files' text as it was checked, under ``proposal``, ``recipe`` and ``full``."""
    proposal: Proposal | None
    recipe: Recipe | None
    full: FullScale | None
    plan: Plan | None
    """None while there are faults."""
    rule: RuleReach | None
    """What the registered rule can say of the first claim; None while its parts are not sound."""
    family: tuple[RuleReach, ...]
    """The same of the further claims."""
    overlaps: tuple[Precedent, ...]
    """Registered experiments that asked something alike, the closest first."""

    def require(self) -> None:
        """Do nothing if there is no fault.

        Raises:
            InvalidFileError: carries every fault.
        """
        if self.faults:
            raise InvalidFileError(
                f"{self.experiment} has {counted(len(self.faults))}",
                self.faults,
                remedy=f"edit the lines below, then workbench check {self.experiment[:4]}",
            )


@dataclass(frozen=True, kw_only=True)
class _File:
    """One file of an experiment, as far as it could be read."""

    where: str
    faults: tuple[Fault, ...]
    document: Document | None = None
    located: Located | None = None
    model: object | None = None


def check(
    layout: Layout, number: str, *, source: LogSource | None = None, today: date | None = None
) -> Checked:
    """Return every fault and warning of an experiment's files.

    Args:
        layout: The lab.
        number: ``NNNN``, ``N`` or ``NNNN-slug``.
        source: The log, to refuse a ``name@version`` that was registered with other content, to
            measure the noise between seeds and to look up what was asked before.
        today: The date in UTC, to refuse an embargo that is over before it begins.

    Raises:
        NotFoundError: there is no such experiment.
    """
    folder = layout.experiment(number)
    proposal = _examined(layout, folder / "proposal.md", proposal_faults)
    full = _examined(layout, folder / "full.yaml", examined_full)
    draft = proposal_draft(proposal.located) if proposal.located else None
    recipe = _recipe_file(layout, draft)
    files = {"proposal": proposal, "full": full, "recipe": recipe}
    between, warnings = _between(draft, recipe, full)
    documents = {name: file.document for name, file in files.items() if file.document}
    if source is not None:
        between += identity_faults(documents, source)
        warnings += registered_changes(folder.name, documents, source)
        if draft is not None:
            between += unstated(draft, explored(source, folder.name))
    rules = _rules(draft, recipe, full, source, folder.name)
    if draft is not None:
        between += contradictions.embargo(draft, today)
    if rules is not None:
        between += rules.faults(_ceiling(recipe))
        typed = _typed(proposal, Proposal)
        if typed is not None and not between:
            between += rules.left_over(typed)
        warnings += rules.doubts()
    found = [fault for file in files.values() for fault in file.faults]
    faults = in_file_order(_without_echoes(found, between))
    return Checked(
        experiment=folder.name,
        faults=faults,
        warnings=in_file_order(warnings),
        documents=documents,
        proposal=_typed(proposal, Proposal),
        recipe=_typed(recipe, Recipe),
        full=_typed(full, FullScale),
        plan=None
        if faults
        else _plan(draft, _typed(recipe, Recipe), _typed(full, FullScale), rules),
        rule=rules.reaches[0] if rules and rules.reaches else None,
        family=rules.reaches[1:] if rules else (),
        overlaps=_overlaps(source, draft, recipe, full, folder.name),
    )


def _rules(
    draft: ProposalDraft | None,
    recipe: _File,
    full: _File,
    source: LogSource | None,
    subject: str,
) -> RulePlan | None:
    if draft is None:
        return None
    corpus = recipe.located.get(("corpus", "name")) if recipe.located else None
    return RulePlan.of(
        draft,
        source=source,
        corpus=corpus if isinstance(corpus, str) else None,
        control=control_fingerprint(_typed(recipe, Recipe), _typed(full, FullScale)),
        subject=subject,
    )


def _ceiling(recipe: _File) -> float | None:
    return recipe_draft(recipe.located).ceiling() if recipe.located else None


def _overlaps(
    source: LogSource | None,
    draft: ProposalDraft | None,
    recipe_file: _File,
    full_file: _File,
    subject: str,
) -> tuple[Precedent, ...]:
    if source is None or draft is None:
        return ()
    recipe = recipe_draft(recipe_file.located) if recipe_file.located else None
    full = full_draft(full_file.located) if full_file.located else None
    value: Json = draft.document.value
    question = question_of(
        value,
        recipe=(recipe.identity or "") if recipe else "",
        width=_width(recipe, full),
    )
    return precedents(source, question, but=subject)


def _width(recipe: RecipeDraft | None, full: FullDraft | None) -> int | None:
    if recipe is None or full is None or recipe.base is None:
        return None
    config = full.config(recipe.base)
    return config.model.d_model if config else None


def _examined(layout: Layout, path: FilePath, examine: Examine[Model]) -> _File:
    where = path.relative_to(layout.root).as_posix()
    try:
        text = decode(path.read_bytes(), where)
        located, model, faults = examine(text, where)
    except FileNotFoundError:
        return _File(where=where, faults=(_missing_file(layout, where),))
    except OSError as error:
        fault = Fault(where=where, message=f"cannot be read: {error.strerror}")
        return _File(where=where, faults=(fault,))
    except InvalidFileError as error:
        return _File(where=where, faults=error.faults)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    document = Document(path=where, sha256=sha256, text=text)
    return _File(where=where, faults=faults, document=document, located=located, model=model)


def _missing_file(layout: Layout, where: str) -> Fault:
    if where.startswith(f"{layout.proxies.name}/"):
        recipes = [
            path.relative_to(layout.root).as_posix() for path in layout.proxies.glob("*.yaml")
        ]
        return Fault(where=where, message="does not exist", remedy=nearest(where, sorted(recipes)))
    return Fault(
        where=where,
        message="does not exist",
        remedy=f"git checkout -- {where}, or copy it from a new experiment's folder",
    )


def _recipe_file(layout: Layout, draft: ProposalDraft | None) -> _File:
    """Read the recipe that the proposal names; the name is one file below ``proxies/``."""
    named = draft.document.get(("sweep", "recipe")) if draft else None
    nowhere = _File(where="", faults=())
    if draft is None or not isinstance(named, str):
        return nowhere
    folder, _, name = named.partition("/")
    if folder != layout.proxies.name or not name.endswith(".yaml") or "/" in name or "\\" in name:
        return nowhere  # the schema refuses the name itself
    file = _examined(layout, layout.proxies / name, examined_recipe)
    if file.document is None and not (layout.proxies / name).exists():
        path = ("sweep", "recipe")
        message = f"sweep.recipe {named!r} does not exist"
        fault = draft.document.fault(path, message, file.faults[0].remedy)
        return _File(where=file.where, faults=(fault,))
    return file


def _between(
    draft: ProposalDraft | None, recipe_file: _File, full_file: _File
) -> tuple[list[Fault], list[Fault]]:
    """Return the faults and the warnings that show only when the files are compared."""
    if draft is None:
        return [], []
    faults = [*contradictions.within_proposal(draft), *sizes.of_proposal(draft)]
    warnings = list(doubts.about_proposal(draft))
    recipe = recipe_draft(recipe_file.located) if recipe_file.located else None
    full = full_draft(full_file.located) if full_file.located else None
    if recipe is not None:
        faults += [*contradictions.with_recipe(draft, recipe), *sizes.of_recipe(recipe)]
        if full is not None:
            faults += [*contradictions.with_full(draft, recipe, full), *sizes.of_full(full)]
    sound = _typed(recipe_file, Recipe)
    if sound is not None and full is not None and not faults:
        faults += sizes.of_compute(draft, sound, full)
    if sound is not None:
        warnings += doubts.about_sweep(draft, sound)
        if full is not None:
            warnings += doubts.about_full(draft, sound, full)
    return faults, warnings


def _without_echoes(found: list[Fault], between: list[Fault]) -> list[Fault]:
    """Drop what a model says of the whole document where a comparison names the line."""
    whole = f"{key_name(())}: "
    kept = [fault for fault in found if not (between and fault.message.startswith(whole))]
    return [*kept, *between]


def _typed(file: _File, model: type[Model]) -> Model | None:
    return file.model if isinstance(file.model, model) else None


def _plan(
    draft: ProposalDraft | None,
    recipe: Recipe | None,
    full: FullScale | None,
    rules: RulePlan | None,
) -> Plan | None:
    if draft is None or recipe is None or full is None or draft.scales is None:
        return None
    trials, seeds = draft.budget_trials or 0, draft.seeds or 0
    repeats = ((draft.top_k or 0) + 1) * (draft.fresh_seeds or 0)
    first = recipe.at_scale(recipe.scales[0].name)
    ladder = [recipe.at_scale(name) for name in draft.scales]
    large = full.config(recipe)
    first_rule = rules.planned[0] if rules and rules.planned else None
    return Plan(
        trials=trials,
        proxy_runs=repeats * len(ladder),
        full_runs=2 * seeds,
        trial_tokens=trials * first.steps * first.tokens_per_step,
        proxy_tokens=repeats * sum(config.steps * config.tokens_per_step for config in ladder),
        full_tokens=2 * seeds * large.steps * large.tokens_per_step,
        detectable_sd=first_rule.outlook.largest_sd(first_rule.effect, power=POWER)
        if first_rule
        else None,
    )
