"""The commands of ``workbench data``: build a corpus and see what is in it."""

from dataclasses import asdict
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
    for command in (build, report, rejects, mixture, at, export):
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
    if built.warning:
        say_wrapped(f"Note: {one_line(built.warning)}")
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
    if not any(rejected.samples for rejected in found):
        say(f"{stage} left nothing out")
    for rejected in (one for one in found if one.samples):
        of = f"{len(rejected.samples)} of {rejected.documents}"
        say(f"{rejected.domain}: {of} left out", bold=True)
        for sample in rejected.samples:
            say()
            say(f"  {one_line(sample.id) or 'not shown'}")
            say_wrapped(f"    because  {one_line(sample.why)}")
            for line in sample.excerpt.splitlines():
                say(f"    | {one_line(line)}")


def mixture(
    recipe: SweepFile,
    scale: Annotated[str, typer.Option(help="Of the recipe; its largest if empty.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show what each phase takes from each domain: stated and realised share, and epochs."""
    from workbench.cli.corpora import print_mixture
    from workbench.lab import Lab

    planned = Lab.open().data_mixture(recipe, scale=scale)
    plan = planned.found
    refusal = str(plan.refusal) if plan.refusal else ""
    if as_json:
        told = {"run": planned.what, "steps": planned.steps, "refusal": refusal}
        tables = {"rows": plan.rows, "total": plan.total}
        print_json(
            {**told, **{name: [asdict(row) for row in rows] for name, rows in tables.items()}}
        )
        return
    say(f"{planned.what}: {planned.steps} steps", bold=True)
    print_mixture(plan.rows, plan.total)
    if refusal:
        say(f"Such a run is refused: {refusal}")


def at(
    what: Annotated[
        str, typer.Argument(metavar="RECIPE|NNNN", help="A recipe file, or an experiment.")
    ],
    step: Annotated[int, typer.Argument(metavar="STEP", min=1, help="Optimizer step, from 1.")],
    seed: Annotated[int, typer.Option(min=0, help="Of a recipe's run.")] = 0,
    scale: Annotated[str, typer.Option(help="Of the recipe; its largest if empty.")] = "",
    arm: Annotated[str, typer.Option(help="Of the experiment, like treatment.")] = "",
    seed_number: Annotated[
        int, typer.Option(min=0, help="Of the arm, as in its run's name: treatment/seed-0.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """List the exact samples of a step, found without training."""
    from workbench.cli.corpora import print_samples
    from workbench.lab import Lab

    lab = Lab.open()
    if what.isdigit():
        if not arm:
            raise typer.BadParameter(f"name the arm: workbench data at {what} {step} --arm control")
        planned = lab.experiment_data_at(what, step, arm=arm, seed_number=seed_number)
    else:
        planned = lab.data_at(what, step, seed=seed, scale=scale)
    if as_json:
        print_json([asdict(sample) for sample in planned.found])
        return
    say(f"{planned.what}: step {step} of {planned.steps}", bold=True)
    print_samples(planned.found)


def export(
    recipe: RecipeFile,
    croissant: Annotated[
        Path, typer.Option("--croissant", metavar="FILE", help="JSON-LD file to write.")
    ],
) -> None:
    """Describe a built corpus for others in Croissant's JSON-LD."""
    from workbench.lab import Lab

    say(str(Lab.open().export_croissant(recipe, croissant)))
