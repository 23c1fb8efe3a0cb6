"""How a checked proposal is told in a terminal."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer

from workbench.cli.show import print_json, print_table, say, say_wrapped
from workbench.experiments.checking import Checked, Plan
from workbench.experiments.precedents import Precedent
from workbench.experiments.reachability import RuleReach

_WIDTH = 79


def print_overlaps(overlaps: Sequence[Precedent]) -> None:
    """Print what was asked before, how it ended and what is not the same."""
    for precedent in overlaps:
        say(precedent.headline(), bold=True)
        wrapped(precedent.title)
        if precedent.found:
            wrapped(f"found: {precedent.found}")
        if precedent.differs:
            wrapped(f"here: {'; '.join(precedent.differs)}")
        elif precedent.shared:
            wrapped("here: nothing differs that is compared; is it a repeat?")


def print_rule(rule: RuleReach, *, in_family: bool = False, primary: str = "") -> None:
    """Print which values give each outcome, and how likely it is.

    Args:
        rule: One claim's.
        in_family: Whether it is one of several claims.
        primary: The primary metric, which alone can be given a noise in the proposal.
    """
    named = f"{rule.hypothesis}: " if in_family else ""
    until = f" to {rule.seeds}" if rule.stopping == "anytime" else ""
    say(f"{named}{rule.claim} on {rule.metric}")
    wrapped(f"{rule.interval} {rule.stopping}{until} seeds an arm, alpha {rule.alpha:g}")
    headings = ["outcome", "if the bounds [L, U] of the improvement"]
    rows = [[outcome.outcome, outcome.given_by] for outcome in rule.outcomes]
    if rule.noise is not None:
        headings += [f"if truly {rule.effect:+g}", f"if {rule.other:g}"]
        for row, outcome in zip(rows, rule.outcomes, strict=True):
            row += [_percent(outcome.if_effect), _percent(outcome.if_other)]
    print_table(headings, rows)
    if rule.noise is None:
        remedy = "Add decision.noise to have them."
        if rule.metric != primary:
            remedy = "decision.noise is of the primary metric; a noise floor gives all of them."
        wrapped(f"Noise between seeds unknown: no chances. {remedy}")
        return
    wrapped(f"Noise between seeds (standard deviation) {rule.noise.sentence()}.")
    power = f"Power {rule.power:.2f}" if rule.power is not None else "Power unknown"
    more = f"; 0.80 takes {rule.seeds_for_power} seeds an arm" if rule.seeds_for_power else ""
    wrapped(
        f"{power} at a true improvement of {rule.effect:g}{_how(rule, in_family)}"
        f"{more if rule.is_low else ''}."
    )
    if rule.is_sequential and rule.mean_seeds is not None and rule.mean_seeds_other is not None:
        wrapped(
            f"Seeds an arm on average: {rule.mean_seeds:.1f}, or {rule.mean_seeds_other:.1f} if "
            f"truly {rule.other:g}{', until this claim is decided' if in_family else ''}."
        )


def _how(rule: RuleReach, in_family: bool) -> str:
    """Return how the power was found, where that is not Welch's t at the whole α."""
    parts = [f"simulated, {rule.simulated:,} experiments"] if rule.simulated else []
    if in_family:
        parts.append(f"at its share {rule.share:.3g} of alpha, the first step of Holm")
    return f" ({'; '.join(parts)})" if parts else ""


def print_plan(plan: Plan) -> None:
    """Print how much will run."""
    say(
        f"Will run {plan.trials} trials, {plan.proxy_runs} re-runs and {plan.full_runs} "
        f"full-scale runs:"
    )
    say(
        f"  {(plan.trial_tokens + plan.proxy_tokens) / 1e6:.3g} M proxy tokens, "
        f"{plan.full_tokens / 1e6:.3g} M full-scale tokens."
    )


def checked_json(checked: Checked) -> dict[str, Any]:
    """Return a check for another program."""
    return {
        "experiment": checked.experiment,
        "faults": [asdict(fault) for fault in checked.faults],
        "warnings": [asdict(warning) for warning in checked.warnings],
        "plan": asdict(checked.plan) if checked.plan else None,
        "rule": asdict(checked.rule) if checked.rule else None,
        "family": [asdict(rule) for rule in checked.family],
        "overlaps": [asdict(precedent) for precedent in checked.overlaps],
    }


def print_checked(checked: Checked, *, as_json: bool) -> None:
    """Print a check; refuse it where it has faults.

    Raises:
        InvalidFileError: carries every fault.
    """
    if as_json:
        print_json(checked_json(checked))
        if checked.faults:
            raise typer.Exit(3)
        return
    for warning in checked.warnings:
        for line in f"warning  {warning}".splitlines():
            say_wrapped(line)
    print_overlaps(checked.overlaps)
    if checked.rule is not None:
        for rule in (checked.rule, *checked.family):
            print_rule(rule, in_family=bool(checked.family), primary=checked.rule.metric)
    checked.require()
    if checked.plan is not None:
        print_plan(checked.plan)
        known = checked.rule is not None and checked.rule.noise is not None
        if checked.plan.detectable_sd is not None and not known:
            wrapped(
                "The effect you call worth acting on is shown with power 0.8 if the seeds of an "
                f"arm vary by at most {checked.plan.detectable_sd:.2g} (standard deviation)."
            )


def _percent(chance: float | None) -> str:
    return "" if chance is None else f"{chance:.0%}"


def wrapped(text: str) -> None:
    """Print a sentence, indented and broken at 80 columns."""
    for line in textwrap.wrap(
        text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False
    ):
        say(line)
