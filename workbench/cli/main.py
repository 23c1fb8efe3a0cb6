"""The command line: ``workbench COMMAND``. Refusals end with their class's exit code."""

import os
import sys

import typer

from workbench import __version__
from workbench.cli import (
    anchoring,
    changes,
    data,
    demo,
    filing,
    keeping,
    noise,
    precision,
    reading,
    reviewing,
    running,
    scheduling,
    scoring,
    watching,
)
from workbench.cli.show import shown
from workbench.errors import StoreUnavailableError, WorkbenchError

TRACEBACK = "WORKBENCH_TRACEBACK"
"""Environment variable that lets an unforeseen error through, for who mends it."""

app = typer.Typer(
    name="workbench",
    help="Preregister, sweep proxies, promote, run, and let the registered rule decide.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _group in (
    filing, changes, reviewing, data, running, noise, precision, watching, scheduling, reading,
    scoring, anchoring, keeping, demo,
):  # fmt: skip
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
        typer.secho(shown(f"refused: {error}"), err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        typer.secho(shown(f"refused: {_unavailable(error)}"), err=True)
        sys.exit(StoreUnavailableError.exit_code)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        typer.secho(shown(f"failed: {_unforeseen(error)}"), err=True)
        sys.exit(WorkbenchError.exit_code)


def _unavailable(error: OSError) -> StoreUnavailableError:
    place = f"{error.filename} cannot be used: " if error.filename else ""
    return StoreUnavailableError(
        f"{place}{error.strerror or error}",
        remedy="free it (permissions, disk space, another program) and repeat the command",
    )


def _unforeseen(error: Exception) -> WorkbenchError:
    detail = " ".join(str(error).split())[:500]
    return WorkbenchError(
        f"{type(error).__name__}: {detail}",
        remedy=f"workbench verify, then repeat the command; with {TRACEBACK}=1 it shows where it "
        "failed: please report that",
    )


if __name__ == "__main__":
    main()
