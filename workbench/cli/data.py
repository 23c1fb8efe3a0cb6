"""The commands of ``workbench data``: build a corpus and see what is in it."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.show import live_progress, one_line, print_json, say, say_wrapped

RecipeFile = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="Like proxies/NAME.yaml, or a file with only a corpus."),
]
SweepFile = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, like proxies/NAME.yaml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for another program.")]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    data = typer.Typer(help="Build corpora and see what is in them.", no_args_is_help=True)
    for command in (build, report, rejects):
        data.command()(command)
    app.add_typer(data, name="data", rich_help_panel="Run and decide")


def build(
    recipe: RecipeFile,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; the result is the same for any number.")
    ] = 1,
) -> None:
    """Build the corpus of a recipe stage by stage, and write the report on it."""
    from workbench.cli.corpora import print_corpus
    from workbench.lab import Lab

    with live_progress() as progress:
        built = Lab.open().build_data(recipe, workers=workers, progress=progress)
    print_corpus(built.facts)
    say(f"Report: {built.page}")
    say(f"Read some of what was left out: workbench data rejects {recipe} STAGE")


def report(
    recipe: RecipeFile,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder to write to.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report on a built corpus as HTML and JSON; --json prints it instead."""
    from workbench.lab import Lab
    from workbench.reports.dataset.facts import data_json

    if as_json:
        typer.echo(data_json(Lab.open().data_facts(recipe)), nl=False)
        return
    written = Lab.open().data_report(recipe, out=out)
    say(str(written.page))
    say(str(written.plain))


def rejects(
    recipe: RecipeFile,
    stage: Annotated[
        str, typer.Argument(metavar="STAGE", help="Like language or near_duplicates.")
    ],
    domain: Annotated[str, typer.Option(help="Only of this domain.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show some of what a stage left out, and why; the same ones each time."""
    from workbench.lab import Lab

    found = Lab.open().data_rejects(recipe, stage, domain=domain)
    if as_json:
        print_json(
            [
                {
                    "domain": rejected.domain,
                    "documents": rejected.documents,
                    "samples": [sample.model_dump() for sample in rejected.samples],
                }
                for rejected in found
            ]
        )
        return
    for rejected in found:
        of = f"{len(rejected.samples)} of {rejected.documents}"
        say(f"{rejected.domain}: {of} left out", bold=True)
        for sample in rejected.samples:
            say()
            say(f"  {one_line(sample.id)}")
            say_wrapped(f"    because  {one_line(sample.why)}")
            for line in sample.excerpt.splitlines():
                say(f"    | {one_line(line)}")
