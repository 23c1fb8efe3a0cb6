"""What a configuration does step by step: ``workbench schedule``."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.cli.show import print_json, print_table, say

_WIDTH, _HEIGHT = 68, 8
"""Of the plot, in characters."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command(rich_help_panel="Read and verify")(schedule)


def schedule(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NNNN",
            help="proxies/NAME.yaml, a full.yaml, or an experiment as it is in force.",
        ),
    ],
    scale: Annotated[
        str,
        typer.Option(help="Scale of the recipe; a file's largest, an experiment's full scale."),
    ] = "",
    arm: Annotated[
        str, typer.Option(help="Arm of a promoted experiment, at full scale.")
    ] = "control",
    every: Annotated[bool, typer.Option("--all", help="Every step, not only some.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="OUT", help="Also draw it into this file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for another program.")
    ] = False,
) -> None:
    """Print and plot learning rate, λ, mixture and frozen parts step by step."""
    from workbench.lab import Lab

    is_file = what.endswith((".yaml", ".yml")) or "/" in what
    if arm != "control" and (is_file or scale):
        raise typer.BadParameter("--arm goes with an experiment at full scale: NNNN --arm NAME")
    lab = Lab.open()
    found = lab.schedule(what, scale=scale, arm=arm)
    if svg is not None:
        lab.draw_schedule(found, svg)
    rows = found.rows(every=every)
    if as_json:
        print_json(_values(found, rows))
        return
    config = found.config
    say(found.what, bold=True)
    steps = "1 step" if config.steps == 1 else f"{config.steps:,} steps"
    say(f"{steps} of {config.tokens_per_step:,} tokens, peak learning rate {config.optimizer.lr:g}")
    _print_plot(found.sampled(_WIDTH))
    _print_rows(rows)
    if not every and len(rows) < config.steps:
        say(f"{len(rows)} of {config.steps:,} steps; --all prints every one.")
    for other in found.other_arms:
        say(f"The arm {other} has another: workbench schedule {what} --arm {other}")
    if svg is not None:
        say(f"drawn in {svg}")


def _values(found: Any, rows: Sequence[Any]) -> dict[str, Any]:
    config = found.config
    return {
        "what": found.what,
        "steps": config.steps,
        "tokens_per_step": config.tokens_per_step,
        "peak_lr": config.optimizer.lr,
        "other_arms": found.other_arms,
        "rows": [
            {
                "step": row.step,
                "phase": row.phase,
                "lr": row.lr,
                "balance_weight": row.balance_weight,
                "mixture": row.mixture if isinstance(row.mixture, str) else dict(row.mixture),
                "frozen": row.frozen,
            }
            for row in rows
        ],
    }


def _print_plot(rows: Sequence[Any]) -> None:
    """Draw the learning rate as bars of eighths, and below them where each phase begins."""
    peak = max(row.lr for row in rows)
    levels = [round(8 * _HEIGHT * row.lr / peak) if peak else 0 for row in rows]
    for line in reversed(range(_HEIGHT)):
        label = f"{peak:.3g}" if line == _HEIGHT - 1 else "0" if line == 0 else ""
        bar = "".join(_EIGHTHS[min(8, max(0, level - 8 * line))] for level in levels)
        say(f"{label:>9} ┤{bar}".rstrip())
    marks = ""
    for name, covered in groupby(rows, key=lambda row: row.phase):
        width = len(list(covered))
        marks += f"|{name}"[:width].ljust(width)
    say(f"{'':>10} {marks}".rstrip())


def _print_rows(rows: Sequence[Any]) -> None:
    """Print the rows; a cell that did not change since the row above is empty."""
    cells = [
        [f"{row.step:,}", row.phase, f"{row.lr:.4g}", f"{row.balance_weight:g}",
         mixture_in_words(row.mixture), ", ".join(row.frozen) or "none"]
        for row in rows
    ]  # fmt: skip
    told = [cells[0]]
    for before, now in pairwise(cells):
        is_new = now[1] != before[1]
        told.append(
            [
                cell if place in (0, 2) or is_new or cell != before[place] else ""
                for place, cell in enumerate(now)
            ]
        )
    print_table(["step", "phase", "lr", "λ", "mixture", "frozen"], told)


def mixture_in_words(mixture: Mapping[str, float] | str) -> str:
    """Return the shares of the domains on one line."""
    if isinstance(mixture, str):
        return mixture
    return " ".join(f"{domain} {share:.3g}" for domain, share in mixture.items())
