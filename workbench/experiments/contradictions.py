"""Promises of a proposal that contradict each other, its recipe or its full scale.

Every function yields each fault once, with the line to edit and what to write there.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from workbench.errors import Fault
from workbench.experiments.draft import (
    EMBARGO,
    MANIPULATED,
    RULES,
    SCALES,
    ClaimDraft,
    FullDraft,
    HypothesisDraft,
    ProposalDraft,
    RecipeDraft,
)
from workbench.experiments.scaling import follows, power
from workbench.proxies.recipe import LEFT_OUT, dotted, value_at
from workbench.proxies.recipe_faults import override_faults
from workbench.registry.located import Path, key_name
from workbench.registry.proposal import ScalingRule
from workbench.registry.schema_faults import nearest
from workbench.training.config import RunConfig


def within_proposal(draft: ProposalDraft) -> Iterator[Fault]:
    """Yield what a proposal says against itself."""
    yield from _hypotheses(draft)
    for claim in draft.claims:
        yield from _direction(draft, claim)
        yield from _claim(draft, claim)
    yield from _sizes(draft)
    yield from _actions(draft)


def with_recipe(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    """Yield where a proposal and its recipe differ."""
    yield from _manipulated(draft, recipe)
    yield from _scales(draft, recipe)
    yield from _metrics(draft, recipe)
    yield from _divergence(draft, recipe)
    yield from _phases(draft, recipe)


def with_full(draft: ProposalDraft, recipe: RecipeDraft, full: FullDraft) -> Iterator[Fault]:
    """Yield where ``full.yaml`` differs from the proposal's promises or its recipe."""
    document = full.document
    known = [recipe.identity] if recipe.identity else []
    if full.extends is not None and known and full.extends not in known:
        yield document.fault(
            ("extends",),
            f"extends {full.extends!r}, but the proposal's recipe is {recipe.identity!r}",
            f'write extends: "{recipe.identity}", or name the other recipe in sweep.recipe',
        )
    # Also of a base with faults of its own: they hide the values, but not the keys.
    yield from override_faults(document, ("overrides",), recipe.base, searched=recipe.space)
    if recipe.base is not None:
        yield from _scaling_rules(draft, recipe.base, full)
        yield from _vocabulary(recipe, full)


def embargo(draft: ProposalDraft, today: date | None) -> Iterator[Fault]:
    """Yield what is wrong with the day on which the entries are to be revealed."""
    until = draft.embargo_until
    if until is None:
        return
    try:
        day = date.fromisoformat(until)
    except ValueError:
        message = f"embargo.until {until!r} is no day"
        yield draft.document.fault(EMBARGO, message, "write it as 2030-12-31")
        return
    if today is not None and day < today:
        message = f"embargo.until {until} is over already: nothing would be withheld"
        yield draft.document.fault(EMBARGO, message, "give a later day, or remove the embargo")


def _hypotheses(draft: ProposalDraft) -> Iterator[Fault]:
    ids = [h.id for h in draft.hypotheses if h.id is not None]
    for h in draft.hypotheses:
        first = next(other for other in draft.hypotheses if other.id == h.id)
        if h.id is not None and first is not h:
            message = f"hypothesis {h.id!r} is stated twice"
            yield draft.document.fault((*h.path, "id"), message, "number them H1, H2, …")
    for claim in draft.claims:
        if claim.hypothesis is not None and ids and claim.hypothesis not in ids:
            path = claim.hypothesis_path
            message = f"{key_name(path)} {claim.hypothesis!r} is not stated"
            yield draft.document.fault(path, message, nearest(claim.hypothesis, ids))


def _direction(draft: ProposalDraft, claim: ClaimDraft) -> Iterator[Fault]:
    metric = claim.metric or ""
    if claim.direction == "maximize" and metric.startswith("bpb_"):
        yield draft.document.fault(
            claim.direction_path,
            f"direction 'maximize' calls more bits per byte better, but {metric} measures loss",
            "write direction: minimize",
        )
        return
    decided = draft.decided(claim)
    better = {"minimize": "treatment_lower", "maximize": "treatment_higher"}
    wanted = better.get(claim.direction or "")
    one_sided = claim.kind in ("superior", "superior_by")
    if decided is None or wanted is None or not one_sided:
        return
    if decided.direction in better.values() and decided.direction != wanted:
        yield draft.document.fault(
            (*decided.path, "direction"),
            f"{decided.id} expects {decided.direction!r}, but {claim.kind} is supported only "
            f"when the treatment is better, which {claim.direction!r} makes {wanted!r}",
            f"write direction: {wanted}, or exchange the arms",
        )


def _claim(draft: ProposalDraft, claim: ClaimDraft) -> Iterator[Fault]:
    kind, margin = claim.kind, claim.margin
    if kind is None or margin is None:
        return
    decided = draft.decided(claim)
    worth = decided.minimum_effect if decided and decided.minimum_effect else None
    if not (math.isfinite(margin) and margin >= 0):
        written = draft.document.get(claim.path)
        message = f"claim {written!r} has no margin that is a number of at least 0"
        example = f"{kind}({worth or 0.01:g})"
        yield draft.document.fault(claim.path, message, f"write for example {example}")
    elif margin == 0 and kind == "equivalent":
        message = "equivalent(0) can never be supported: no interval lies within ±0"
        remedy = f"give the largest difference that does not matter, below {worth or 0.01:g}"
        yield draft.document.fault(claim.path, message, remedy)
    elif worth is not None and decided is not None:
        yield from _margin(draft, claim, margin, decided, worth)


def _margin(
    draft: ProposalDraft, claim: ClaimDraft, margin: float, decided: HypothesisDraft, worth: float
) -> Iterator[Fault]:
    """Compare the claim's δ with the smallest effect that the proposal calls worth acting on."""
    effect = f"{decided.id}.minimum_effect {worth:g} (line {_line(draft, decided)})"
    kind = claim.kind
    if margin <= worth:
        return
    if kind in ("superior", "superior_by"):
        yield draft.document.fault(
            claim.path,
            f"{claim.text} would refute an improvement between {worth:g} and {margin:g} that "
            f"{effect} calls worth acting on",
            f"write {kind}({worth:g}), or raise minimum_effect",
        )
    elif kind == "non_inferior":
        yield draft.document.fault(
            claim.path,
            f"{claim.text} would accept a loss that {effect} calls worth acting on",
            f"write non_inferior({worth:g}) or less",
        )
    elif kind == "equivalent":
        yield draft.document.fault(
            claim.path,
            f"{claim.text} would call a difference equal that {effect} calls worth acting on",
            f"write equivalent({worth:g}) or less",
        )


def _line(draft: ProposalDraft, hypothesis: HypothesisDraft) -> int:
    return draft.document.line((*hypothesis.path, "minimum_effect"))


def _sizes(draft: ProposalDraft) -> Iterator[Fault]:
    document = draft.document
    trials = draft.budget_trials
    if draft.top_k is not None and trials is not None and draft.top_k > trials:
        yield document.fault(
            ("sweep", "rerun", "top_k"),
            f"top_k {draft.top_k} is more than budget_trials {trials}: so many do not exist",
            f"write at most {trials}",
        )
    promotion, cap = draft.promotion_hours, draft.cap_hours
    if promotion is not None and cap is not None and promotion >= cap:
        yield document.fault(
            ("budget_cap_device_hours",),
            f"budget_cap_device_hours {cap:g} leaves nothing for the sweep beside "
            f"promotion.budget_device_hours {promotion:g}",
            f"write more than {promotion:g}",
        )


def _actions(draft: ProposalDraft) -> Iterator[Fault]:
    path: Path = ("decision", "actions")
    supported, refuted = (
        draft.document.get((*path, outcome)) for outcome in ("supported", "refuted")
    )
    same = isinstance(supported, str) and supported == refuted and "FILL IN" not in supported
    if same:
        yield draft.document.fault(
            (*path, "refuted"),
            "the same is done whether the hypothesis is supported or refuted: nothing is decided",
            "say what will be done differently",
        )


def _manipulated(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    if draft.manipulated is None or not recipe.space:
        return
    space_line = recipe.document.at(("space",))
    for i, key in enumerate(draft.manipulated):
        path = (*MANIPULATED, i)
        if key not in recipe.space:
            message = f"manipulated {key!r} is not in the recipe's space ({space_line})"
            yield draft.document.fault(path, message, nearest(key, recipe.space))
        elif key in draft.manipulated[:i]:
            yield draft.document.fault(path, f"manipulated {key!r} is listed twice", "remove one")
    missing = [key for key in recipe.space if key not in draft.manipulated]
    if missing:
        yield draft.document.fault(
            MANIPULATED,
            f"the recipe's space ({space_line}) also varies {', '.join(missing)}, which "
            "manipulated does not name",
            f"write manipulated: [{', '.join(recipe.space)}]",
        )


def _scales(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    if draft.scales is None or not recipe.scales:
        return
    order = {name: position for position, name in enumerate(recipe.scales)}
    unknown = [name for name in draft.scales if name not in order]
    for i, name in enumerate(draft.scales):
        path = (*SCALES, i)
        if name in unknown:
            message = f"scale {name!r} is not in the recipe ({recipe.document.at(('scales',))})"
            yield draft.document.fault(path, message, nearest(name, recipe.scales))
        elif name in draft.scales[:i]:
            yield draft.document.fault(path, f"scale {name!r} is listed twice", "remove one")
    positions = [order[name] for name in draft.scales if name in order]
    if not unknown and len(set(positions)) == len(positions) and positions != sorted(positions):
        rising = sorted(draft.scales, key=lambda name: order[name])
        message = f"scales {list(draft.scales)} do not rise"
        yield draft.document.fault(SCALES, message, f"write [{', '.join(rising)}]")


def _metrics(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    if not recipe.domains:
        return
    named: list[tuple[Path, str]] = [
        (claim.metric_path, claim.metric) for claim in draft.claims if claim.metric
    ]
    named += [(("measures", "secondary", i), m) for i, m in enumerate(draft.secondary)]
    named += [((*path, "metric"), metric) for path, metric in draft.guardrails]
    for path, metric in named:
        if metric not in recipe.metrics():
            message = f"metric {metric!r} is not measured on this recipe's corpus"
            yield draft.document.fault(path, message, nearest(metric, recipe.metrics()))
    repeated = [name for name, count in Counter(draft.secondary).items() if count > 1]
    for name in repeated:
        path = ("measures", "secondary")
        yield draft.document.fault(path, f"secondary {name!r} is listed twice", "remove one")


def _divergence(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    if draft.loss_above is None or recipe.base is None:
        return
    untrained = math.log(recipe.base.model.vocab_size)
    if draft.loss_above <= untrained:
        yield draft.document.fault(
            ("divergence", "loss_above"),
            f"loss_above {draft.loss_above:g} is not above {untrained:.2f}, the loss of an "
            f"untrained model (ln of {recipe.base.model.vocab_size} tokens): every run would count "
            "as diverged",
            f"write {math.ceil(untrained) + 4}",
        )


def _phases(draft: ProposalDraft, recipe: RecipeDraft) -> Iterator[Fault]:
    if recipe.base is None:
        return
    known = ["any", *(phase.name for phase in recipe.base.phases)]
    for path, phase in draft.phases:
        if phase not in known:
            message = f"phase {phase!r} is not in the recipe: this contingency can never be used"
            yield draft.document.fault((*path, "phase"), message, nearest(phase, known))


def _scaling_rules(draft: ProposalDraft, base: RunConfig, full: FullDraft) -> Iterator[Fault]:
    plain = base.model_dump(mode="json")
    known = {**LEFT_OUT, **dotted(plain)}
    differing = [k for k, v in full.overrides.items() if k in known and not _equal(v, known[k])]
    named = [key for _, key in draft.rule_keys]
    for key in differing:
        if key not in named:
            yield full.document.fault(
                ("overrides", key),
                f"override {key} {full.overrides[key]!r} (base {known[key]!r}) has no scaling rule",
                f"add to promotion.scaling_rules at {draft.document.at(RULES)}: "
                f"{{key: {key}, rule: registered, why: …}}",
            )
    for position, (path, key) in enumerate(draft.rule_keys):
        where = (*path, "key")
        if key in named[:position]:
            yield draft.document.fault(where, f"scaling rule {key!r} is given twice", "keep one")
        elif key not in known:
            message = f"scaling rule {key!r} is for no key of the run configuration"
            yield draft.document.fault(where, message, nearest(key, differing or list(known)))
        elif key not in differing:
            message = f"scaling rule {key!r} explains nothing: full.yaml does not change this key"
            remedy = f"remove the rule, or add {key} to the overrides in {full.document.where}"
            yield draft.document.fault(where, message, remedy)
    for path, rule in draft.rules:
        if rule.rule == "power" and rule.key in differing:
            yield from _power_rule(draft, plain, full, path, rule)


def _power_rule(
    draft: ProposalDraft, plain: dict[str, object], full: FullDraft, path: Path, rule: ScalingRule
) -> Iterator[Fault]:
    known = dotted(plain)
    if rule.of not in known or not _is_number(known[rule.of]):
        message = f"rule power follows {rule.of!r}, which is no number of the run configuration"
        numbers = [key for key, value in known.items() if _is_number(value)]
        yield draft.document.fault((*path, "of"), message, nearest(rule.of or "", numbers))
        return
    start, small = value_at(plain, rule.key), float(known[rule.of])
    large, written = full.overrides.get(rule.of, small), full.overrides[rule.key]
    numeric = all(map(_is_number, (start, large, written))) and small != 0
    right = power(start, large / small, rule.exponent or 0.0) if numeric else math.nan
    if not math.isfinite(right):
        message = f"rule power cannot give {rule.key} from {start!r} and {rule.of} {large!r}"
        yield draft.document.fault((*path, "rule"), message, "use rule: registered")
        return
    whole = isinstance(start, int)
    if not follows(written, right, whole=whole):
        wanted = round(right) if whole else float(f"{right:.4g}")
        yield full.document.fault(
            ("overrides", rule.key),
            f"override {rule.key} {written!r} is not what the scaling rule at "
            f"{draft.document.at(path)} gives: {start:g} × ({large:g}/{small:g})^"
            f"{rule.exponent:g} = {right:.6g}",
            f"write {wanted!r}, or change the rule",
        )


def _vocabulary(recipe: RecipeDraft, full: FullDraft) -> Iterator[Fault]:
    wanted = full.overrides.get("model.vocab_size")
    tokens = recipe.tokenizer_vocabulary
    if isinstance(wanted, int) and tokens is not None and wanted < tokens:
        message = f"override model.vocab_size {wanted} cannot hold the tokenizer's {tokens} tokens"
        path = ("overrides", "model.vocab_size")
        yield full.document.fault(path, message, f"write at least {tokens}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: object, right: object) -> bool:
    if _is_number(left) and _is_number(right):
        return left == right
    if isinstance(left, Sequence) and not isinstance(left, str) and isinstance(right, Sequence):
        return list(left) == list(right)
    return left == right
