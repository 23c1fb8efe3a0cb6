"""Several registered claims of one experiment: Holm's step-down over their verdicts.

Holm (1979): of m hypotheses of which R are rejected, each further one is tested at α / (m - R).
Here the same is said by bounds: all claims are judged at α/m, then at α/(m - R) with the R that
were shown, until nothing more is. Any interval and stopping can be used, since no p-value is
needed. False support and false refutation are held to α each, as for one claim. With several
looks, each look is a family at its share α/K, so the looks together are held to α as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from workbench.analysis.claims import Judgement, Outcome, evidence_of
from workbench.analysis.looks import Comparison, Look, decide_look
from workbench.analysis.permutation import smallest_p

Side: TypeAlias = Literal["supported", "refuted"]


def holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Return which hypotheses Holm's step-down rejects, in the order given.

    Raises:
        ValueError: a p-value outside [0, 1], NaN among them.
    """
    bad = [p for p in p_values if not 0 <= p <= 1]
    if bad:
        raise ValueError(f"{bad} are no p-values: a test without one belongs to no family")
    rejected = 0
    while rejected < len(p_values):
        level = alpha / (len(p_values) - rejected)
        passed = sum(p <= level for p in p_values)
        if passed == rejected:
            break
        rejected = passed
    return [p <= alpha / max(1, len(p_values) - rejected) for p in p_values] if p_values else []


def decide_family(
    members: Mapping[str, Comparison], num_seeds: int, *, most: int | None = None
) -> dict[str, Look]:
    """Return what each claim's rule says at one look, corrected for the whole family.

    A claim's bounds are at the level at which it was decided or is still tested, so that they agree
    with its outcome. A void member still counts in the size of the family.

    Raises:
        ValueError: a member that was not registered with ``holm``, or with another α or stopping
            than the rest, or as `decide_look`.
    """
    _check_family(members)
    steps = {side: _step(members, side, num_seeds, most) for side in ("supported", "refuted")}
    return {
        name: _decided(name, member, steps["supported"], steps["refuted"], num_seeds, most)
        for name, member in members.items()
    }


@dataclass(frozen=True, kw_only=True)
class _Step:
    """Where the step-down of one side ended: shares of α."""

    shown: Mapping[str, float]
    """By claim that was shown, the share at which it was: α / (m - R) with the R before it."""
    open: float
    """At which no further one is."""


def _step(members: Mapping[str, Comparison], side: Side, num_seeds: int, most: int | None) -> _Step:
    shown: dict[str, float] = {}
    while True:
        share = 1 / max(1, len(members) - len(shown))
        found = [
            name
            for name, member in members.items()
            if name not in shown
            and _shows(
                member, decide_look(member, num_seeds, most=most, share=share).judgement, side
            )
        ]
        if not found:
            return _Step(shown=shown, open=share)
        shown |= dict.fromkeys(found, share)


def _at(member: Comparison, share: float, num_seeds: int, most: int | None) -> Look:
    return decide_look(member, num_seeds, most=most, share=share)


def _shows(member: Comparison, judgement: Judgement, side: Side) -> bool:
    if judgement.outcome == "void":
        return False
    lower = float("-inf") if judgement.lower is None else judgement.lower
    upper = float("inf") if judgement.upper is None else judgement.upper
    evidence = evidence_of(member.rule.claim_kind, member.rule.margin, lower, upper)
    return evidence.supported if side == "supported" else evidence.refuted


def _decided(
    name: str,
    member: Comparison,
    support: _Step,
    refutation: _Step,
    num_seeds: int,
    most: int | None,
) -> Look:
    def at(share: float) -> Look:
        return _at(member, share, num_seeds, most)

    # Refutation takes precedence, as in a single claim.
    if name in refutation.shown:
        return _with_outcome(at(refutation.shown[name]), "refuted")
    if name in support.shown:
        return _with_outcome(at(support.shown[name]), "supported")
    return at(min(support.open, refutation.open))


def _with_outcome(look: Look, outcome: Outcome) -> Look:
    # At this level the other side may show as well; the side that decided has been chosen.
    return replace(look, judgement=replace(look.judgement, outcome=outcome))


def _check_family(members: Mapping[str, Comparison]) -> None:
    rules = [member.rule for member in members.values()]
    alone = [name for name, member in members.items() if member.rule.multiplicity != "holm"]
    if alone:
        raise ValueError(f"{alone} were not registered with multiplicity holm")
    if len({(rule.alpha, rule.stopping) for rule in rules}) > 1:
        raise ValueError("the claims of a family share one alpha and one stopping rule")
    for name, rule in zip(members, rules, strict=True):
        first = min(rule.stopping.looks, default=0)
        level = rule.look_alpha / len(rules)
        if rule.interval == "perm_exact" and smallest_p(first, first) > level * (1 + 1e-9):
            raise ValueError(
                f"{name}: perm_exact at {first} seeds an arm cannot reach alpha {level:.4g}, its "
                f"share in a family of {len(rules)}: its smallest p is "
                f"{smallest_p(first, first):.4g}"
            )
