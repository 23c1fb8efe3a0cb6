"""Decision rules in words, as the question and the verdict tell them."""

from workbench.registry.entries import Verdict
from workbench.registry.proposal import Proposal
from workbench.reports.narrative import listed
from workbench.reports.quantities import THIN, count, number

INTERVALS = {
    "welch_t": "Welch’s t",
    "paired_t": "the t of the differences by seed",
    "calibrated_t": "the t with the spread of the noise floor",
    "perm_exact": "the exact permutation test",
}
_WHAT_IT_IS = {
    "welch_t": "the arms independent, their spreads free to differ",
    "paired_t": "the arms’ runs of one seed compared with each other",
    "calibrated_t": "the noise floor’s and both arms’ pooled; Welch’s bounds where the arms vary "
    "more than the floor allows",
    "perm_exact": "every split of the seeds enumerated, the bounds by inversion",
}


def level(alpha: float) -> str:
    """Return ``95 %`` for an error of 0.05, and ``98.3 %`` for a third of it.

    An error so small that its level would be rounded to 100 % is given itself: ``α = 1e-07``.
    """
    share = (1 - alpha) * 100
    places = next(p for p in range(4) if p == 3 or abs(share - round(share, p)) < 3 * alpha)
    if round(share, places) >= 100:
        return f"α\u00a0=\u00a0{alpha:.4g}"
    return f"{number(share, places)}{THIN}%"


def bound_error(verdict: Verdict) -> float:
    """Return the one-sided error of the verdict's bounds: its look's and family's share of α."""
    return verdict.results[0].alpha if verdict.results else verdict.alpha


def interval_in_words(proposal: Proposal) -> str:
    """Return what the bounds are and what they take for granted."""
    rule = proposal.decision
    if not rule.looks:
        return (
            f"{INTERVALS[rule.interval]} of an e-process, valid at all looks together; two "
            f"one-sided {level(rule.alpha)} bounds, α\u00a0=\u00a0{rule.alpha:g}"
        )
    single = len(rule.looks) == 1 and not rule.family
    at = f"{level(rule.alpha)} " if single else ""
    return (
        f"{INTERVALS[rule.interval]} ({_WHAT_IT_IS[rule.interval]}), two one-sided {at}bounds, "
        f"α\u00a0=\u00a0{rule.alpha:g} each"
    )


def stopping_in_words(proposal: Proposal) -> str:
    """Return when the rule looks, and when it stops."""
    rule, most = proposal.decision, count(proposal.design.seeds, "seed")
    if not rule.looks:
        return (
            "after each seed from the first at which it could show anything, until everything is "
            f"decided, at most {most} an arm"
        )
    if len(rule.looks) == 1:
        return f"after exactly {most} an arm"
    error = level(rule.alpha / len(rule.looks))
    return (
        f"looks at {listed([str(n) for n in rule.looks])} seeds an arm, each with "
        f"α/{len(rule.looks)} ({error} bounds), until everything is decided"
    )


def pairing_in_words(proposal: Proposal) -> str:
    """Return what is compared with what."""
    if proposal.design.pairing == "seed_index":
        return "by seed: what the arms’ runs of one seed have in common is taken out"
    if proposal.decision.interval == "paired_t":
        return "none registered; the interval takes the runs of one seed together all the same"
    return "none; the arms are compared as independent"


def family_in_words(proposal: Proposal) -> str:
    """Return how several claims are corrected for; empty where there is one."""
    num_claims = len(proposal.claims())
    if num_claims == 1:
        return ""
    return (
        f"{num_claims} claims decided together, corrected by Holm’s step-down: support and "
        "refutation each err with at most α in any of them"
    )
