"""What a rule can show with other numbers of seeds, and how likely each verdict is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.analysis.claims import Outcome
from workbench.analysis.planning import Outlook, SeedPlan, ended_at, seed_plan, stopped_by
from workbench.analysis.rules import Stopping
from workbench.canonical import Json
from workbench.errors import Fault, InvalidFileError, NotFoundError
from workbench.experiments.draft import ProposalDraft, proposal_draft
from workbench.experiments.floor_faults import control_fingerprint
from workbench.experiments.noise import Noise
from workbench.experiments.planned_rules import POWER, PlannedRule
from workbench.experiments.registered import registration_body
from workbench.experiments.rule_faults import most_seeds
from workbench.experiments.rule_plan import RulePlan
from workbench.layout import Layout
from workbench.proxies.recipe_file import examined_full, examined_recipe
from workbench.registry.amended import course_of
from workbench.registry.entries import Registration
from workbench.registry.frontmatter import proposal_faults
from workbench.registry.located import decode
from workbench.registry.log import LogSource

COUNTS = (3, 4, 5, 6, 8, 10, 12, 16, 20)
"""Seeds an arm that the registered rule is compared with."""
_OF_THE_RULE = re.compile(
    r"decision\.(hypothesis|claim|interval|stopping|alpha|multiplicity|family|noise)|"
    r"design\.(seeds|pairing|manipulated)|measures\.primary|hypotheses\[\d+\]\.(id|minimum)"
)
"""Keys without which there is no rule; other faults of a proposal do not matter here."""

Truth = Literal["nothing", "minimum", "expected"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What the rule says if the truth is this."""

    truth: Truth
    """No difference, the hypothesis' minimum effect, or the improvement that is expected."""
    true: float
    """Improvement, in the metric's unit."""
    chances: Mapping[Outcome, float]
    mean_seeds: float
    """Seeds an arm when the rule stops."""
    stopped: Mapping[int, float]
    """Chance of stopping at each look, by its seeds an arm."""


@dataclass(frozen=True, kw_only=True)
class ClaimPower:
    """One claim's rule, with what it will say."""

    hypothesis: str
    claim: str
    metric: str
    interval: str
    stopping: str
    seeds: int
    """An arm, at most."""
    alpha: float
    """As registered, over all looks and claims."""
    share: float
    """The claim's own part, which all figures are for; in a family the first step of Holm."""
    effect: float
    """True improvement that the plans' power refers to, as in `check`."""
    noise: Noise | None
    """None where nothing is known of this metric: then nothing else is."""
    simulated: int | None
    """Experiments that the chances were counted in; None for a closed form."""
    scenarios: tuple[Scenario, ...]
    plans: tuple[SeedPlan, ...]
    """The rule as registered, then looks at fixed numbers of seeds."""
    seeds_for_power: int | None
    """As `RuleReach.seeds_for_power`."""
    most_seeds: int
    """Most seeds an arm that the interval allows."""


@dataclass(frozen=True, kw_only=True)
class PowerReport:
    """The power of everything that an experiment decides."""

    experiment: str
    basis: Literal["draft", "in_force"]
    """The files as they are, or what is registered with its amendments."""
    claims: tuple[ClaimPower, ...]


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """The documents of an experiment."""

    proposal: tuple[str, str]
    """Text and where it is from."""
    recipe: tuple[str, str] | None
    full: tuple[str, str] | None
    registration: Registration | None


def power_report(
    layout: Layout, number: str, *, source: LogSource | None, sd: float | None = None
) -> PowerReport:
    """Return what an experiment's rule can show, by what is in force or else by its files.

    Args:
        layout: The lab.
        number: ``NNNN``, ``N`` or ``NNNN-slug``.
        source: The log, for what is in force and for measured noise.
        sd: Spread between seeds to use for every metric, instead of what is known.

    Raises:
        NotFoundError: there is no such experiment, or no noise is known of its primary metric.
        InvalidFileError: the rule's parts are not sound; carries their faults.
        ConflictError: the registration is hidden from this reader.
    """
    folder = layout.experiment(number)
    texts = _texts(layout, folder.name, source)
    located, _, found = proposal_faults(*texts.proposal)
    draft = proposal_draft(located)
    rules = _rule_plan(draft, texts, source, folder.name)
    if not rules.planned or rules.own_faults:
        raise _unsound(folder.name, rules, found)
    claims = tuple(
        _claim_power(one, _noise(rules, one, texts.registration, sd)) for one in rules.planned
    )
    if claims[0].noise is None:
        short = folder.name[:4]
        raise NotFoundError(
            f"how much the seeds of an arm differ in {claims[0].metric} is not known, so "
            f"{folder.name} has no power yet",
            remedy=f"workbench power {short} --sd 0.01   (a guess), {_measure(short)}, or state "
            "decision.noise",
        )
    return PowerReport(
        experiment=folder.name,
        basis="in_force" if texts.registration else "draft",
        claims=claims,
    )


def _measure(number: str) -> str:
    return f"workbench noise {number}"


def _texts(layout: Layout, experiment: str, source: LogSource | None) -> _Texts:
    entry = course_of(source, experiment).in_force() if source is not None else None
    if entry is not None:
        body = registration_body(entry)
        documents = (body.proposal, body.recipe, body.full)
        proposal, recipe, full = ((document.text, document.path) for document in documents)
        return _Texts(proposal=proposal, recipe=recipe, full=full, registration=body)
    where = f"{layout.experiments.name}/{experiment}"
    drafted = _read(layout, f"{where}/proposal.md")
    if drafted is None:
        raise NotFoundError(
            f"{where}/proposal.md does not exist", remedy='workbench propose "a title"'
        )
    named = proposal_faults(*drafted)[0].get(("sweep", "recipe"))
    return _Texts(
        proposal=drafted,
        recipe=_read(layout, named) if _is_recipe(named) else None,
        full=_read(layout, f"{where}/full.yaml"),
        registration=None,
    )


def _is_recipe(named: Json) -> bool:
    # A path that leads elsewhere is refused by `check` and never read.
    return isinstance(named, str) and named.startswith("proxies/") and ".." not in named


def _read(layout: Layout, where: object) -> tuple[str, str] | None:
    try:
        return decode((layout.root / str(where)).read_bytes(), str(where)), str(where)
    except OSError:
        return None


def _rule_plan(
    draft: ProposalDraft, texts: _Texts, source: LogSource | None, subject: str
) -> RulePlan:
    recipe = full = corpus = None
    try:
        if texts.recipe is not None:
            located, recipe, _ = examined_recipe(*texts.recipe)
            corpus = located.get(("corpus", "name"))
        if texts.full is not None:
            _, full, _ = examined_full(*texts.full)
    except InvalidFileError:
        recipe = None  # no YAML: only what the proposal itself says is used
    return RulePlan.of(
        draft,
        source=source,
        corpus=corpus if isinstance(corpus, str) else None,
        control=control_fingerprint(recipe, full),
        subject=subject,
    )


def _unsound(experiment: str, rules: RulePlan, found: tuple[Fault, ...]) -> InvalidFileError:
    of_rule = [fault for fault in found if _OF_THE_RULE.match(fault.message)]
    faults = [*of_rule, *rules.own_faults]
    return InvalidFileError(
        f"the rule of {experiment} is not complete, so it has no power yet",
        faults,
        remedy=f"workbench check {experiment[:4]}   (shows everything that is left to do)",
    )


def _noise(
    rules: RulePlan, planned: PlannedRule, registration: Registration | None, sd: float | None
) -> Noise | None:
    if sd is not None:
        return Noise(sd=sd, origin="assumed", source="--sd")
    is_primary = planned.metric == rules.draft.metric
    stated = rules.noises.stated() if is_primary else None
    power = registration.power if registration and is_primary else None
    if stated is not None or power is None:
        return stated or rules.noises.measured(planned.claim)
    origin, _, words = power.noise_source.partition(": ")
    return Noise(
        sd=power.noise_sd,
        origin="assumed" if origin == "assumed" else "measured",
        source=f"{words}, as registered",
    )


def _claim_power(planned: PlannedRule, noise: Noise | None) -> ClaimPower:
    rule = planned.rule
    needed = planned.seeds_for_power(noise.sd) if noise else None
    return ClaimPower(
        hypothesis=planned.hypothesis,
        claim=rule.claim,
        metric=planned.metric,
        interval=rule.interval,
        stopping=rule.stopping.text,
        seeds=planned.seeds,
        alpha=planned.alpha,
        share=rule.alpha,
        effect=planned.effect,
        noise=noise,
        simulated=planned.outlook.num if noise else None,
        scenarios=_scenarios(planned, noise.sd) if noise else (),
        plans=_plans(planned, noise.sd, needed) if noise else (),
        seeds_for_power=needed,
        most_seeds=most_seeds(rule.interval),
    )


def _scenarios(planned: PlannedRule, sd: float) -> tuple[Scenario, ...]:
    truths: list[tuple[Truth, float]] = [("nothing", 0.0), ("minimum", planned.worth)]
    if planned.expected is not None:
        truths.append(("expected", planned.expected))
    found = []
    for truth, true in truths:
        prospect = planned.outlook.at(true, sd=sd)
        found.append(
            Scenario(
                truth=truth,
                true=true,
                chances=prospect.chances,
                mean_seeds=prospect.mean_seeds,
                stopped=prospect.stopped,
            )
        )
    return tuple(found)


def _plans(planned: PlannedRule, sd: float, needed: int | None) -> tuple[SeedPlan, ...]:
    rule = planned.rule
    outlooks = [planned.outlook]
    moved = ended_at(rule, needed) if needed not in (None, planned.seeds) else None
    if moved is not None:
        outlooks.append(Outlook.of(moved, most=needed))
    for n in sorted({*COUNTS, planned.seeds}):
        fixed = stopped_by(rule, Stopping(kind="fixed", looks=(n,)))
        if fixed is not None and fixed not in (rule, moved):
            outlooks.append(Outlook.of(fixed))
    return tuple(seed_plan(one, true=planned.effect, sd=sd, power=POWER) for one in outlooks)
