"""Others' runs judged by a rule, told in a terminal or as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Literal

import typer

from workbench.cli.show import print_json, print_table, read_text, say
from workbench.experiments.outside_runs import (
    CAVEAT,
    LABEL,
    OutsideVerdict,
    outside_verdict,
    read_runs,
)

_DIRECTIONS: dict[str, Literal["minimize", "maximize"]] = {
    "minimize": "minimize",
    "maximize": "maximize",
}


def judge_csv(
    path: Path,
    rule: str,
    direction: str,
    metric: str,
    divergence: Literal["arm_void", "exclude"],
    data_arms: bool | None,
    *,
    as_json: bool,
) -> None:
    """Judge a CSV file of runs and print what the rule says, labelled as unregistered."""
    if not rule:
        raise typer.BadParameter(
            '--from-csv needs --rule "superior(0.02) welch_t fixed(5) alpha …"'
        )
    if direction not in _DIRECTIONS:
        raise typer.BadParameter(f"--direction {direction!r} is neither minimize nor maximize")
    verdict = outside_verdict(
        read_runs(read_text(path), path.name),
        rule,
        direction=_DIRECTIONS[direction],
        metric=metric,
        divergence=divergence,
        data_arms=data_arms,
    )
    if as_json:
        print_json(_plain(verdict))
    else:
        _print(verdict)


def _plain(verdict: OutsideVerdict) -> dict[str, object]:
    return {
        "registered": verdict.registered,
        "caveat": CAVEAT,
        "rule": verdict.rule.text,
        **asdict(verdict.judgement),
        "looks": [asdict(look) for look in verdict.looks],
        "seeds": verdict.seeds,
        "unused_seeds": verdict.unused,
        "explanation": asdict(verdict.explanation),
        "rows_sha256": verdict.sha256,
    }


def _print(verdict: OutsideVerdict) -> None:
    say(f"{verdict.judgement.outcome.upper()}, {LABEL}  {verdict.rule.text}", bold=True)
    rows = [
        [
            str(look.num_seeds),
            _number(look.judgement.estimate),
            _number(look.judgement.lower),
            _number(look.judgement.upper),
            f"{look.judgement.alpha:.4g}" if look.judgement.alpha else "",
            look.judgement.outcome,
        ]
        for look in verdict.looks
    ]
    print_table(["seeds", "improvement", "at least", "at most", "alpha", "outcome"], rows)
    for sentence in (
        verdict.explanation.claimed,
        verdict.explanation.seen,
        verdict.explanation.otherwise,
    ):
        say(sentence)
    following = verdict.looks[-1].next_seeds
    if following is not None:
        say(f"The rule is not at its end: it looks again at {following} seeds an arm.")
    if verdict.unused:
        say(f"{verdict.unused} further seeds an arm were not looked at.")
    say(f"{LABEL}: {CAVEAT}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.5g}"
