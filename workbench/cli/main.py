"""The command line: ``workbench COMMAND``. Refusals end with their class's exit code."""

import os
import sys

import typer

from workbench import __version__
from workbench.cli import demo, filing, reading, running
from workbench.errors import WorkbenchError

app = typer.Typer(
    name="workbench",
    help="Preregister, sweep proxies, promote, run, and let the registered rule decide.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _group in (filing, running, reading, demo):
    _group.add_commands(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Preregister, sweep proxies, promote, run, and let the registered rule decide."""
    del version


def main() -> None:
    """Run the command line and turn a refusal into a message and an exit code."""
    # Read by torch's OpenMP when it loads. On shared cores the default made a training step eight
    # times slower (docs/decisions/0006).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        app()
    except WorkbenchError as error:
        typer.secho(f"refused: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
