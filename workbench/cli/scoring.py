"""The command that tells how forecasts have done."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer

from workbench.cli.reading import AsJson
from workbench.cli.show import print_json, print_table, say

_LEVELS = (50, 80, 95)


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command(rich_help_panel="Read and verify")(scoreboard)


def scoreboard(as_json: AsJson = False) -> None:
    """Show how all forecasts have done, and whether proxies order candidates right."""
    from workbench.lab import Lab

    scores, rankings = Lab.open().scoreboard()
    if as_json:
        print_json(_plain(scores, rankings))
        return
    if not (scores.forecasts or scores.hidden):
        say("No forecast yet: workbench promote NNNN makes them, before anything runs in full.")
        return
    _print_counts(scores)
    if scores.boards:
        _print_coverage(scores.boards)
        _print_scores(scores.boards)
        _print_grades(scores.boards)
    _print_left_out(scores)
    for ranking in rankings:
        _print_ranking(ranking)


def _print_counts(scores: Any) -> None:
    from workbench.reports.scores import UNSCORED

    scored = scores.having("scored")
    experiments = len({(record.origin, record.experiment) for record in scored})
    text = f"{_many(len(scored), 'forecast')} scored, of {_many(experiments, 'experiment')}."
    without = {fate: len(scores.having(fate)) for fate in UNSCORED}
    told = [f"{number} {fate}" for fate, number in without.items() if number]
    say(
        f"{text} {'Without a result: ' + ', '.join(told) + '.' if told else ''}".rstrip(), bold=True
    )
    say("Those of one experiment are not independent, so each target is counted by itself.")


def _print_coverage(boards: Sequence[Any]) -> None:
    rows = [
        [_label(board, row), f"{row.n} of {row.n + row.num_unscored}", *_coverage(row)]
        for board in boards
        for row in board.standings
    ]
    say("\nShare of results inside the interval, in %, with 95 % Clopper-Pearson bounds")
    headings = ["forecast of", "scored", *(f"{level} %" for level in _LEVELS)]
    print_table(headings, rows)


def _coverage(row: Any) -> list[str]:
    found = [row.coverage.get(level) for level in _LEVELS]
    return ["-" if one is None else _held(one) for one in found]


def _held(found: Any) -> str:
    share, lower, upper = (round(100 * one) for one in (found.share, found.lower, found.upper))
    return f"{share} [{lower}-{upper}]"


def _print_scores(boards: Sequence[Any]) -> None:
    rows = [
        [
            _label(board, row),
            _signed(row.bias),
            _number(row.interval_score_80),
            _number(row.crps),
            _signed(row.skill.get("no_effect"), 2),
            _signed(row.skill.get("last_scale"), 2),
        ]
        for board in boards
        for row in board.standings
        if row.n
    ]
    if not rows:
        return
    metrics = sorted({metric for board in boards for metric in board.standings[0].metrics})
    say(f"\nMean errors in {', '.join(metrics)}; skill 1 is perfect, 0 no better than the baseline")
    headings = ["forecast of", "bias", "80 % score", "CRPS", "no_effect", "last_scale"]
    print_table(headings, rows)


def _label(board: Any, row: Any) -> str:
    if row.group == "all":
        return str(board.target)
    return "  " + str(row.group).removeprefix("family ").removeprefix("extrapolation ")


def _print_grades(boards: Sequence[Any]) -> None:
    say()
    for board in boards:
        say(f"{board.target}: {board.standings[0].grade}")


def _print_left_out(scores: Any) -> None:
    from workbench.reports.scores import LEFT_OUT

    for record in scores.having(*LEFT_OUT):
        what = f"{_short(record.experiment)} {record.forecast.value.target}"
        entry = record.forecast.sources[0].sequence
        say(f"Left out: {what}, entry {entry}: {record.fate}, {record.why}")
    for hidden in scores.hidden:
        say(f"Hidden: {_short(hidden.experiment)}, entry {hidden.source.sequence}: {hidden.why}")


def _print_ranking(ranking: Any) -> None:
    what = f"{ranking.recipe}, {ranking.metric}, {ranking.smaller} against {ranking.larger}"
    say(f"\n{ranking.kind.capitalize()}: {what}", bold=True)
    found = ranking.agreement
    experiments = _many(len(ranking.experiments), "experiment")
    if found is None:
        say(f"  {_many(len(ranking.values), 'candidate')} of {experiments}: {ranking.why}")
        return
    rows = [
        [name, _signed(one.tau, 2), _number(one.pairwise_accuracy, 2), _number(one.regret)]
        for name, one in (("found", found.found), ("noise ceiling", found.ceiling))
    ]
    print_table(["", "tau", "pairs in order", "regret"], rows)
    say(f"  {_many(found.m, 'candidate')} of {experiments}: {found.conclusion}")
    if math.isnan(found.ceiling.tau):
        say(f"  no ceiling: the differences at {ranking.larger} are within their noise")
    if found.left_out:
        say(f"  without a value at both: {', '.join(found.left_out)}")


def _plain(scores: Any, rankings: Sequence[Any]) -> dict[str, Any]:
    return {
        "boards": [
            {"target": board.target, "standings": [asdict(row) for row in board.standings]}
            for board in scores.boards
        ],
        "forecasts": [_plain_forecast(record) for record in scores.forecasts],
        "hidden": [
            {"experiment": h.experiment, "entry": h.source.sequence, "why": h.why}
            for h in scores.hidden
        ],
        "rankings": [
            {**asdict(ranking), "sources": [source.leaf for source in ranking.sources]}
            for ranking in rankings
        ],
    }


def _plain_forecast(record: Any) -> dict[str, Any]:
    body = record.forecast.value
    return {
        "experiment": record.experiment,
        "log": record.origin,
        "entry": record.forecast.sources[0].sequence,
        "leaf": record.forecast.leaf,
        "target": body.target,
        "metric": body.metric,
        "family": record.family,
        "extrapolation_ratio": body.extrapolation_ratio,
        "point": body.point,
        "fate": record.fate,
        "why": record.why,
        "observed": record.observed,
    }


def _short(experiment: str) -> str:
    return experiment.partition("-")[0]


def _number(value: float | None, decimals: int = 4) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{decimals}f}"


def _signed(value: float | None, decimals: int = 4) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:+.{decimals}f}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
