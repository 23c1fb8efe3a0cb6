"""A verdict in three sentences: what was claimed, what was seen, what would have changed it."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.analysis.claims import Judgement
from workbench.analysis.rules import Rule

_CLAIMED = {
    "superior": "better than the control's by enough to matter, {margin}",
    "superior_by": "better than the control's by more than {margin}",
    "non_inferior": "not worse than the control's by {margin} or more",
    "equivalent": "within {margin} of the control's, either way",
}
_INTERVALS = {
    "welch_t": "Welch's t",
    "paired_t": "the t of pairs by seed",
    "calibrated_t": "t with the spread of the noise floor",
    "perm_exact": "the exact permutation test",
}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Three sentences for a reader who has only the verdict."""

    claimed: str
    seen: str
    otherwise: str
    """What would have changed the verdict."""

    def __str__(self) -> str:
        return f"{self.claimed} {self.seen} {self.otherwise}"


def explain(
    rule: Rule, judgement: Judgement, *, metric: str, breached: Sequence[str] = ()
) -> Explanation:
    """Return the verdict in sentences, from the rule and what was judged alone.

    Args:
        rule: The rule.
        judgement: What it said.
        metric: Name of the measure.
        breached: Guard-rails that did not hold, which turn ``supported`` into ``refuted``.
    """
    return Explanation(
        claimed=_claimed(rule, metric),
        seen=_seen(rule, judgement, breached),
        otherwise=_otherwise(rule, judgement, breached),
    )


def _claimed(rule: Rule, metric: str) -> str:
    claim = _CLAIMED[rule.claim_kind].format(margin=f"{rule.margin:g}")
    if rule.claim_kind == "superior" and rule.margin == 0:
        claim = "better than the control's at all"
    family = ", in a family corrected by Holm" if rule.multiplicity == "holm" else ""
    return (
        f"Claimed was that the treatment's {metric} is {claim} (rule: {rule.text}, alpha on each "
        f"side{family})."
    )


def _seen(rule: Rule, judgement: Judgement, breached: Sequence[str]) -> str:
    counts = f"{judgement.n_control} control and {judgement.n_treatment} treatment seeds"
    if judgement.estimate is None:
        return f"Seen was no improvement that could be told, from {counts}: {_outcome(judgement)}."
    improvement = f"Seen was an improvement of {judgement.estimate:+.4g} from {counts}"
    bounds = _bounds(rule, judgement)
    rails = f", with {' and '.join(breached)} breached" if breached else ""
    outcome = _outcome(judgement)
    if breached and judgement.outcome == "supported":
        outcome = "refuted by the breach"
    return f"{improvement}{bounds}{rails}: {outcome}."


def _outcome(judgement: Judgement) -> str:
    reason = f" ({judgement.reason})" if judgement.reason else ""
    return f"{judgement.outcome}{reason}"


def _bounds(rule: Rule, judgement: Judgement) -> str:
    if judgement.outcome == "void":
        return ""
    lower = "no lower bound" if judgement.lower is None else f"at least {judgement.lower:+.4g}"
    upper = "no upper bound" if judgement.upper is None else f"at most {judgement.upper:+.4g}"
    kind = "the anytime t" if rule.stopping.kind == "anytime" else _INTERVALS[judgement.interval]
    guarded = judgement.interval != rule.interval
    fallback = ", since the arms vary more than their noise floor" if guarded else ""
    level = "" if judgement.alpha is None else f" at alpha {judgement.alpha:.4g} each"
    return f", {lower} and {upper} by {kind}{level}{fallback}"


def _otherwise(rule: Rule, judgement: Judgement, breached: Sequence[str]) -> str:
    if judgement.outcome == "void":
        return "Only complete, finite and varying values of all registered seeds could be judged."
    if breached and judgement.outcome == "supported":
        return "Without the breach it would have been supported."
    if rule.multiplicity == "holm":
        # Each side was judged at a level of its own, and the recorded bounds are at one of them.
        return (
            "No single improvement can be given at which it would turn, because its level hangs "
            "on what the family's other claims show."
        )
    if judgement.estimate is None or judgement.lower is None or judgement.upper is None:
        return "More seeds would give bounds; with these no value could show anything."
    down, up = judgement.estimate - judgement.lower, judgement.upper - judgement.estimate
    conditions = _conditions(rule, down, up)
    others = [text for outcome, text in conditions.items() if outcome != judgement.outcome]
    # Each condition starts with "one", or says that there is none; the first one is introduced.
    told = "; ".join(others).replace("one ", "an improvement ", 1)
    return f"With this spread and these seeds, {told}."


def turning_points(rule: Rule, judgement: Judgement) -> list[float]:
    """Return the improvements at which the outcome would change, rising, with these bounds' widths.

    Empty where there are no bounds, and in a family, where each side has a level of its own, which
    hangs on what the other claims show.
    """
    if rule.multiplicity == "holm":
        return []
    if judgement.estimate is None or judgement.lower is None or judgement.upper is None:
        return []
    down, up = judgement.estimate - judgement.lower, judgement.upper - judgement.estimate
    margin = rule.margin
    if rule.claim_kind != "equivalent":
        return sorted(set(_one_sided(rule, down, up)))
    low, high = down - margin, margin - up
    within = [low, high] if low < high else []
    return sorted([-margin - up, *within, margin + down])


def _one_sided(rule: Rule, down: float, up: float) -> tuple[float, float]:
    """Return below which improvement the claim is refuted, and above which it is supported."""
    null = {"superior": 0.0, "superior_by": rule.margin}.get(rule.claim_kind, -rule.margin)
    refuted = (rule.margin if rule.claim_kind == "superior" else null) - up
    return refuted, max(null + down, refuted)


def _conditions(rule: Rule, down: float, up: float) -> dict[str, str]:
    """Return which improvements lead to each outcome when the bounds lie this far from it."""
    if rule.claim_kind == "equivalent":
        return _equivalent_conditions(rule.margin, down, up)
    refuted, supported = _one_sided(rule, down, up)
    conditions = {
        "refuted": f"one below {refuted:+.4g} would have refuted it",
        "supported": f"one above {supported:+.4g} would have supported it",
    }
    if refuted < supported:
        conditions["inconclusive"] = f"one from {refuted:+.4g} to {supported:+.4g} would be open"
    return conditions


def _equivalent_conditions(margin: float, down: float, up: float) -> dict[str, str]:
    low, high = down - margin, margin - up
    bottom, top = -margin - up, margin + down
    conditions = {
        "refuted": f"one below {bottom:+.4g} or above {top:+.4g} would have refuted it",
        "supported": f"one between {low:+.4g} and {high:+.4g} would have supported it",
        "inconclusive": f"one from {bottom:+.4g} to {low:+.4g} or from {high:+.4g} to {top:+.4g} "
        "would be open",
    }
    if low >= high:
        conditions["supported"] = "no improvement could have supported it: the bounds are too wide"
        conditions["inconclusive"] = f"one from {bottom:+.4g} to {top:+.4g} would be open"
    return conditions
