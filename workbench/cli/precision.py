"""What a weight's precision loses: ``workbench audit-precision``."""

from dataclasses import asdict
from typing import Annotated

import typer

from workbench.cli.show import live_progress, print_json, print_table, say, say_wrapped


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command("audit-precision", rich_help_panel="Run and decide")(audit_precision)


def audit_precision(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|NNNN",
            help="proxies/NAME.yaml, or an experiment for its control at full scale.",
        ),
    ],
    scale: Annotated[str, typer.Option(help="Scale of the recipe; its largest unless given.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="First steps of the run to train.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count the updates that weights in bf16 or fp32 would lose, part by part."""
    from workbench.lab import Lab

    if scale and not (what.endswith((".yaml", ".yml")) or "/" in what):
        raise typer.BadParameter("--scale goes with a recipe: an experiment has one full scale")
    with live_progress() as progress:
        audit = Lab.open().audit_precision(what, scale=scale, steps=steps, progress=progress)
    if as_json:
        print_json(asdict(audit))
        return
    say(
        f"Steps 1 to {audit.steps}, learning rate {audit.first_lr:.3g} to {audit.last_lr:.3g}, "
        f"products in {audit.precision}."
    )
    rows = [
        [
            part.part,
            f"{part.num_weights:,}",
            f"{part.num_updates:,}",
            f"{part.lost_bf16:.1%}",
            f"{part.length_lost_bf16:.1%}",
            f"{part.lost_fp32:.2%}",
        ]
        for part in audit.parts
    ]
    print_table(["part", "weights", "updates", "lost in bf16", "their length", "in fp32"], rows)
    say_wrapped(
        "Lost: the stored weight is the same after the update, which is under half a unit in its "
        "last place. Runs keep fp32 weights; the columns for bf16 say what storing bf16 would cost."
    )
