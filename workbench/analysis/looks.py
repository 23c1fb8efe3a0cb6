"""What a registered rule says at one look: stop with an outcome, go on, or the final word."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from workbench.analysis.claims import (
    Direction,
    Judgement,
    judge,
    known_estimate,
    outcome_of,
    void_judgement,
    void_reason,
)
from workbench.analysis.intervals import (
    Array,
    Bounds,
    anytime_bounds,
    calibrated_bounds,
    exact_bounds,
    paired_bounds,
    welch_bounds,
)
from workbench.analysis.rules import Rule

DivergenceRule: TypeAlias = Literal["arm_void", "exclude"]
State: TypeAlias = Literal["stop", "go_on", "final"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One seed's value of one arm."""

    seed_index: int
    value: float | None
    """None when the run diverged by the registered definition. A NaN is not None: it voids."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A rule with what has been measured for it so far."""

    rule: Rule
    direction: Direction
    """Of the metric: which way is better."""
    divergence: DivergenceRule
    """A diverged run voids the verdict, or is left out and reported."""
    control: tuple[Measured, ...]
    treatment: tuple[Measured, ...]
    seed_names: Mapping[str, Sequence[str]] | None = None
    """By arm, what its seeds are called, in order; their indexes where none are given."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look at the outcomes, and what follows from it."""

    number: int
    """From 1."""
    num_seeds: int
    """Seeds an arm that the rule was applied to."""
    state: State
    """``go_on`` to ``next_seeds``, ``stop`` before the last look, ``final`` at the last."""
    next_seeds: int | None
    judgement: Judgement


def decide_look(
    comparison: Comparison, num_seeds: int, *, most: int | None = None, share: float | None = None
) -> Look:
    """Return what the rule says when each arm has its first ``num_seeds`` seeds.

    The outcome is ``void`` when a seed is missing, a value is not finite, an arm has fewer than
    two values, nothing varies, or a run diverged under ``arm_void``. With ``exclude`` a diverged
    run is left out, with its pair where pairs are compared.

    Args:
        comparison: The rule and the values.
        num_seeds: One of the rule's looks; nothing is decided between them.
        most: Registered seeds an arm, which ends ``anytime``; others say it themselves.
        share: Of the rule's α, for a claim of a family: `decide_family` finds it.

    Raises:
        ValueError: no look of the rule, or values of seeds beyond it, or two of one seed, or a
            claim that was registered in a family and is asked about alone.
    """
    rule = comparison.rule
    if rule.multiplicity != "none" and share is None:
        raise ValueError(f"{rule.text} is a claim of a family: it is decided with the others")
    looks = rule.looks_up_to(most)
    if num_seeds not in looks:
        raise ValueError(
            f"{rule.stopping.text} does not look at {num_seeds} seeds, only at {list(looks)}"
        )
    _refuse_peeking(comparison, num_seeds)
    place = looks.index(num_seeds)
    level = rule.look_alpha * (1.0 if share is None else share)
    judgement = _judged(comparison, num_seeds, level)
    following = looks[place + 1] if place + 1 < len(looks) else None
    open_still = judgement.outcome == "inconclusive" and following is not None
    state: State = "go_on" if open_still else "stop"
    return Look(
        number=place + 1,
        num_seeds=num_seeds,
        state="final" if following is None else state,
        next_seeds=following if open_still else None,
        judgement=judgement,
    )


def judge_by(
    rule: Rule,
    control: Sequence[float],
    treatment: Sequence[float],
    *,
    direction: Direction,
    alpha: float,
) -> Judgement:
    """Return what the rule's claim and interval say of these values at this α.

    Paired intervals take the two arms seed by seed, in the same order. Where α cannot be reached
    with so few values (``perm_exact``, ``anytime``), there are no bounds and nothing is shown.

    Raises:
        ValueError: pairs of unequal length.
    """
    if rule.interval == "welch_t":
        return judge(
            control,
            treatment,
            direction=direction,
            claim_kind=rule.claim_kind,
            margin=rule.margin,
            alpha=alpha,
        )
    reason = void_reason(control, treatment)
    found = None if reason else bounds_by(rule, control, treatment, direction, alpha)
    if found is not None and math.isnan(found.lower[0]):
        reason = "no variation of the differences by seed: the pairs changed nothing"
    if reason or found is None:
        return void_judgement(
            control, treatment, direction, alpha=alpha, reason=reason, interval=rule.interval
        )
    lower, upper = float(found.lower[0]), float(found.upper[0])
    return Judgement(
        outcome=outcome_of(rule.claim_kind, rule.margin, lower, upper),
        estimate=known_estimate(control, treatment, direction),
        lower=_finite(lower),
        upper=_finite(upper),
        degrees_of_freedom=_finite(float(found.degrees_of_freedom[0])),
        n_control=len(control),
        n_treatment=len(treatment),
        interval="welch_t" if found.guarded[0] else rule.interval,
        alpha=alpha,
    )


def bounds_by(
    rule: Rule,
    control: Sequence[float],
    treatment: Sequence[float],
    direction: Direction,
    alpha: float,
) -> Bounds:
    """Return the bounds of the rule's interval for one experiment."""
    sign = -1.0 if direction == "minimize" else 1.0
    rows = (sign * np.array([control], dtype=float), sign * np.array([treatment], dtype=float))
    return rows_bounds(rule, *rows, alpha)


def rows_bounds(
    rule: Rule,
    control: Array,
    treatment: Array,
    alpha: float,
    *,
    floor_sd: Array | None = None,
) -> Bounds:
    """Return the bounds of the rule's interval, one experiment a row; larger is better.

    Args:
        rule: Which interval.
        control: Values by experiment and seed.
        treatment: The same of the treatment.
        alpha: Error of each bound.
        floor_sd: Noise floors by experiment, in place of the rule's own.

    Raises:
        ValueError: pairs of unequal length.
    """
    if rule.interval == "paired_t" and control.shape[1] != treatment.shape[1]:
        raise ValueError(f"pairs of {control.shape[1]} and {treatment.shape[1]} values")
    if rule.stopping.kind == "anytime":
        return anytime_bounds(control, treatment, alpha)
    if rule.interval == "paired_t":
        return paired_bounds(control, treatment, alpha)
    if rule.interval == "perm_exact":
        return exact_bounds(control, treatment, alpha)
    if rule.noise_floor is not None:
        return calibrated_bounds(
            control,
            treatment,
            alpha,
            floor_sd=np.asarray(rule.noise_floor.sd) if floor_sd is None else floor_sd,
            floor_freedom=rule.noise_floor.degrees_of_freedom,
        )
    return welch_bounds(control, treatment, alpha)


def _judged(comparison: Comparison, num_seeds: int, alpha: float) -> Judgement:
    control, treatment = _values(comparison)
    judgement = judge_by(
        comparison.rule, control, treatment, direction=comparison.direction, alpha=alpha
    )
    reasons = _void_reasons(comparison, num_seeds)
    if not reasons:
        return judgement
    # Bounds of an incomplete set of seeds would invite reading them as the result.
    return replace(
        judgement,
        outcome="void",
        lower=None,
        upper=None,
        degrees_of_freedom=None,
        reason="; ".join([*reasons, *([judgement.reason] if judgement.reason else [])]),
    )


def _void_reasons(comparison: Comparison, num_seeds: int) -> list[str]:
    reasons: list[str] = []
    for name, arm in (("control", comparison.control), ("treatment", comparison.treatment)):
        found = {one.seed_index for one in arm}
        names = _seed_names(comparison, name, num_seeds)
        absent = [called for i, called in enumerate(names) if i not in found]
        if absent:
            reasons.append(f"{name} is without its {_counted('seed', absent)}")
        if len(names) < num_seeds:
            reasons.append(f"{name} has {len(names)} of the {num_seeds} seeds of this look")
        if comparison.divergence == "arm_void":
            reasons += [
                f"seed {names[one.seed_index]} of {name} diverged, and the rule is arm_void"
                for one in arm
                if one.value is None
            ]
    return reasons


def _seed_names(comparison: Comparison, arm: str, num_seeds: int) -> Sequence[str]:
    """Return what the look's seeds are called; fewer where fewer have a name."""
    if comparison.seed_names is None:
        return [str(i) for i in range(num_seeds)]
    return comparison.seed_names[arm][:num_seeds]


def _counted(what: str, items: Sequence[str]) -> str:
    return f"{what if len(items) == 1 else what + 's'} {', '.join(items)}"


def _values(comparison: Comparison) -> tuple[list[float], list[float]]:
    """Return the values of both arms in the order of the seeds, diverged runs left out."""
    arms = [
        {one.seed_index: one.value for one in arm if one.value is not None}
        for arm in (comparison.control, comparison.treatment)
    ]
    if comparison.rule.interval == "paired_t":
        both = arms[0].keys() & arms[1].keys()
        arms = [{i: value for i, value in arm.items() if i in both} for arm in arms]
    control, treatment = ([arm[i] for i in sorted(arm)] for arm in arms)
    return control, treatment


def _refuse_peeking(comparison: Comparison, num_seeds: int) -> None:
    for name, arm in (("control", comparison.control), ("treatment", comparison.treatment)):
        indexes = [one.seed_index for one in arm]
        if len(set(indexes)) < len(indexes):
            raise ValueError(f"{name} has two values of one seed: {sorted(indexes)}")
        beyond = [i for i in sorted(indexes) if not 0 <= i < num_seeds]
        if beyond:
            raise ValueError(
                f"{name} has seeds {beyond}, which this look at {num_seeds} leaves out"
            )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
