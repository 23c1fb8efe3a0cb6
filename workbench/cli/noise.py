"""How much seeds differ: ``workbench noise``."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.show import live_progress

STOPPED = "Stopped. Repeats that ended are kept; the same command continues."


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command(rich_help_panel="Run and decide")(noise)


def noise(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|NNNN",
            help="proxies/NAME.yaml, or an experiment for its control at full scale.",
        ),
    ],
    scale: Annotated[str, typer.Option(help="Scale of the recipe; its largest unless given.")] = "",
    runs: Annotated[int, typer.Option(min=2, help="Repeats in all, each on its own seed.")] = 10,
    imported: Annotated[
        Path | None,
        typer.Option(
            "--import", help="CSV of repeats made elsewhere: column seed and one a metric."
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="With --import: what a column named value holds.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repeat a control configuration on other seeds and record how much they differ."""
    from workbench.cli.floor import announcer, print_floor
    from workbench.lab import Lab

    is_recipe = what.endswith((".yaml", ".yml")) or "/" in what
    if scale and not is_recipe:
        raise typer.BadParameter("--scale goes with a recipe: an experiment has one full scale")
    if metric and imported is None:
        raise typer.BadParameter("--metric goes with --import: a run is measured by all metrics")
    lab = Lab.open()
    with live_progress() as progress:
        if imported is not None:
            entry = lab.import_noise(what, imported, scale=scale, metric=metric, progress=progress)
            is_new = True
        else:
            try:
                entry, is_new = lab.measure_noise(
                    what,
                    scale=scale,
                    runs=runs,
                    announce=announcer(as_json=as_json),
                    progress=progress,
                )
            except KeyboardInterrupt:
                typer.echo(STOPPED, err=True)
                raise
    print_floor(entry, is_new=is_new, as_json=as_json)
