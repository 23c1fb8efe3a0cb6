"""Commands that look at full-scale runs: health, which hides outcomes, and outcomes."""

from dataclasses import asdict
from typing import Annotated

import typer

from workbench.cli.filing import Number
from workbench.cli.show import confirm, print_json, say
from workbench.errors import ConflictError

Explored = Annotated[
    bool, typer.Option("--exploratory", help="The exploratory runs, of which nothing is hidden.")
]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (health, outcomes):
        app.command(rich_help_panel="Read and verify")(command)


def health(
    number: Number,
    exploratory: Explored = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for another program.")
    ] = False,
) -> None:
    """Show how the full-scale runs are doing, also while they run, without an outcome."""
    from workbench.cli.full_runs import print_health
    from workbench.lab import Lab

    report = Lab.open().health(number, exploratory=exploratory)
    if as_json:
        print_json(asdict(report))
        return
    print_health(report)
    flag = " --exploratory" if exploratory else ""
    if any(run.condition in ("stopped", "lost", "killed", "failed") for run in report.runs):
        say(f"Next: workbench run {number}{flag} continues what stopped.")
    if not exploratory:
        say(f"Not shown here: what compares the arms (workbench outcomes {number}).")


def outcomes(
    number: Number,
    by: Annotated[
        str, typer.Option(help="Who looks; by default the actor of workbench.toml.")
    ] = "",
    why: Annotated[str, typer.Option(help="What for; needed before the verdict.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Open without asking.")] = False,
    exploratory: Explored = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; before the verdict with --yes.")
    ] = False,
) -> None:
    """Show validation values by arm, seed and step; before the verdict, on the record."""
    from workbench.cli.full_runs import exposure_lines, outcomes_json, print_points
    from workbench.experiments.outcomes import require_why
    from workbench.lab import Lab

    lab = Lab.open()
    curtain = lab.curtain(number, exploratory=exploratory)
    require_why(curtain, why)
    if curtain.access == "hidden":
        if not as_json:
            for line in exposure_lines(
                curtain, by=by.strip() or lab.settings.actor, why=why.strip()
            ):
                say(line)
        if not yes:
            _ask(number, as_json=as_json)
    found = lab.outcomes(number, by=by, why=why, exploratory=exploratory)
    if as_json:
        print_json(outcomes_json(found))
        return
    if found.exposure is not None:
        say(f"Recorded: exposure, entry {found.exposure.sequence}  {found.exposure.id}")
    print_points(found.points, primary=curtain.metric)


def _ask(number: str, *, as_json: bool) -> None:
    """Ask on a terminal.

    Raises:
        ConflictError: nobody can answer.
    """
    remedy = f'workbench outcomes {number} --why "one sentence" --yes'
    if as_json:
        raise ConflictError("outcomes are opened as JSON without a question", remedy=remedy)
    confirm("Open them?", remedy=remedy)
