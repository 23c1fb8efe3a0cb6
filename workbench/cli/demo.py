"""The demonstration: the whole loop in a fresh lab, with the commands that a user would type."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import filing, reading, running
from workbench.cli.show import say, seconds
from workbench.errors import ConflictError, NotRegisteredError
from workbench.scaffold.demo import answered, with_lines

TITLE = "Does a mixture chosen by proxies beat natural proportions"
FULL = {"budget_trials: 16": "budget_trials: 12", "top_k: 3": "top_k: 2"}
QUICK = {
    "budget_trials: 16": "budget_trials: 6",
    "top_k: 3": "top_k: 1",
    "startup_trials: 4": "startup_trials: 3",
}
QUICK_RECIPE = {
    "max_bytes: 3000000": "max_bytes: 600000",
    "max_bytes: 600000": "max_bytes: 200000",
    "bytes_per_domain: 40000": "bytes_per_domain: 4000",
    "steps: 120": "steps: 16",
    "steps: 160": "steps: 20",
    "every: 40": "every: 4",
    "every: 60": "every: 20",
    "lr: 0.003": "lr: 0.0003",
    "# The proposal's power rule: lr falls with the square root of the width.": (
        "# The learning rate is searched: at every scale it is the candidate's."
    ),
    "optimizer.lr: 0.00245": "",
    "space:": ("space:\n  optimizer.lr:\n    kind: log_uniform\n    low: 3.0e-3\n    high: 1.0e-2"),
}
"""At toy sizes the differences drown in noise. So the control's learning rate is ten times too low
and the sweep searches it, too: every candidate is really better, and the loop has its verdict."""


def add_commands(app: typer.Typer) -> None:
    """Add this module's command to the application."""
    app.command(rich_help_panel="Start here")(demo)


def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of the demonstration's lab.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Toy sizes: a minute or two.")] = False,
) -> None:
    """Run the whole loop on real text in a fresh lab, then say where to look."""
    began = time.monotonic()
    lab = _fresh(folder)
    said: list[str] = []
    _step(said, f"workbench init {lab.name}", lambda: filing.init(lab, name="Demonstration"))
    with contextlib.chdir(lab):
        if not Path(".git").exists():
            # Inside another repository the demonstration must not commit to that one.
            subprocess.run(["git", "init", "--quiet"], check=True)
        _file(said, quick=quick)
        for command, action in _commands():
            _step(said, command, _or_told(action))
    _closing(lab, said, time.monotonic() - began)


def _file(said: list[str], *, quick: bool) -> None:
    if quick:
        # Before the proposal, which takes its full scale and its control's values from the recipe.
        _change(Path("proxies/mixture-lambda-phases.yaml"), QUICK_RECIPE)
        say(
            "(--quick: toy sizes, and a control whose learning rate is ten times too low,", dim=True
        )
        say("so that the sweep finds something better and the loop reaches a verdict)", dim=True)
    _step(said, f'workbench propose "{TITLE}"', lambda: filing.propose(TITLE))
    proposal = next(Path("experiments").glob("0001-*/proposal.md"))
    proposal.write_text(answered(proposal.read_text("utf-8")), "utf-8")
    _change(proposal, QUICK if quick else FULL)
    say("(the demonstration fills in the proposal and commits it)", dim=True)
    _commit("File the first proposal")
    _step(said, "workbench check 0001", lambda: filing.check("0001"))
    _step(said, "workbench run 0001", _refused)


def _commands() -> list[tuple[str, Callable[[], None]]]:
    return [
        ("workbench register 0001", lambda: filing.register("0001")),
        ("workbench sweep 0001", lambda: running.sweep("0001")),
        ("workbench promote 0001", lambda: running.promote("0001")),
        ("workbench run 0001", lambda: running.run("0001")),
        ("workbench verdict 0001", lambda: running.verdict("0001")),
        ("workbench publish", reading.publish),
        ("workbench chronicle 0001", lambda: reading.chronicle("0001")),
        ("workbench verify", reading.verify),
        ("workbench status", reading.status),
    ]


def _refused() -> None:
    """Show that the runner refuses what was not registered."""
    try:
        running.run("0001")
    except NotRegisteredError as error:
        say(f"refused: {error}")
        return
    raise ConflictError("the runner accepted an unregistered experiment; please report this")


def _or_told(action: Callable[[], None]) -> Callable[[], None]:
    """Let the demonstration go on to its chronicle when its own text is refused on the way.

    A promotion that chooses no candidate is a result; what builds on it is then refused.
    """

    def told() -> None:
        try:
            action()
        except ConflictError as error:
            say(f"refused: {error}")

    return told


def _step(said: list[str], command: str, action: Callable[[], None]) -> None:
    say(f"\n$ {command}", bold=True)
    began = time.monotonic()
    action()
    took = time.monotonic() - began
    if took > 2:
        say(f"({seconds(took)})", dim=True)
    said.append(command)


def _fresh(folder: Path | None) -> Path:
    if folder is not None:
        return folder
    names = ["demo-lab", *(f"demo-lab-{number}" for number in range(2, 1000))]
    return next(Path(name) for name in names if not Path(name).exists())


def _change(path: Path, lines: dict[str, str]) -> None:
    path.write_text(with_lines(path.read_text("utf-8"), lines), "utf-8")


def _commit(message: str) -> None:
    identity = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "workbench demo"), ("EMAIL", "demo@example.invalid"))
    }
    for command in (["git", "add", "--all"], ["git", "commit", "--quiet", "-m", message]):
        subprocess.run(command, check=True, env=os.environ | identity)


def _closing(lab: Path, said: list[str], took: float) -> None:
    pages = (lab / "reports").glob("0001-*/chronicle.html")
    page = next(pages, lab / "reports").resolve()
    say(f"\nThe whole loop took {seconds(took)}. Look at", bold=True)
    say(f"  {page}")
    say("    the chronicle: everything above, from the ledger alone", dim=True)
    store = (lab / ".workbench" / "mlflow.db").resolve()
    say(f"  mlflow ui --backend-store-uri sqlite:///{store}")
    say('    "Model training", then the experiment: a sweep with its trials as children', dim=True)
    say(f"The commands it ran, in {lab}:")
    for command in said:
        say(f"  {command}")
