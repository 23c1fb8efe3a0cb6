"""How much seeds differ: ``workbench noise``."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.analysis.power import spread_bounds
from workbench.analysis.rules import FEWEST_FLOOR_RUNS
from workbench.cli.show import live_progress, print_json, print_table, say, seconds
from workbench.errors import IntegrityError, RunFailedError
from workbench.experiments.repeat_plan import RepeatCost
from workbench.registry.entries import NoiseFloor
from workbench.registry.log import Entry

STOPPED = "Stopped. Repeats that ended are kept; the same command continues."
_WIDTH = 79


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
                    what, scale=scale, runs=runs, announce=_announcer(as_json), progress=progress
                )
            except KeyboardInterrupt:
                typer.echo(STOPPED, err=True)
                raise
    body = entry.body
    if not isinstance(body, NoiseFloor):
        raise IntegrityError(f"entry {entry.sequence} ({entry.kind}) is no noise floor")
    if as_json:
        print_json(_plain(entry, body, is_new=is_new))
    else:
        _print(entry, body, is_new=is_new)
    if not body.spreads:
        raise RunFailedError(
            f"{body.num_runs} of {len(body.repeats)} repeats completed: there is no spread",
            remedy="mend the cause, then repeat the command; or make more repeats with --runs",
        )


def _announcer(as_json: bool) -> Callable[[RepeatCost], None]:
    def announce(cost: RepeatCost) -> None:
        done = f" ({cost.done} are done)" if cost.done else ""
        took = "" if cost.seconds is None else f", about {seconds(cost.seconds)} on one device"
        tokens = f"{cost.tokens / 1e6:.3g} M tokens"
        sentence = f"Will run {cost.planned} repeats of {cost.what}{done}: {tokens}{took}."
        for line in textwrap.wrap(sentence, _WIDTH):
            typer.echo(line, err=as_json)

    return announce


def _print(entry: Entry, body: NoiseFloor, *, is_new: bool) -> None:
    where = f"{body.experiment[:4]} at full scale" if body.experiment else body.scale
    say(f"noise floor of {body.recipe}, {where}, {body.num_runs} repeats", bold=True)
    rows = []
    for name in sorted(body.spreads, key=lambda name: (name != "bpb_macro", name)):
        sd = body.spreads[name]
        low, high = spread_bounds(sd, body.num_runs - 1)
        rows.append([name, f"{sd:.3g}", f"{low:.3g} to {high:.3g}", f"{2 * sd:.3g}"])
    if rows:
        print_table(["metric", "standard deviation", "90 % interval", "δ at least"], rows)
    shares = ", ".join(f"{name} {share:.3g}" for name, share in body.mixture.items())
    said = [f"Of the mixture {shares} on {body.corpus}; it says nothing of another mixture."]
    said += _reservations(body)
    if body.spreads:
        said.append(
            "A δ or a minimum effect below twice the standard deviation asks about less than what "
            "a change of seed does."
        )
    known = "" if is_new else ", as it was: these repeats are on record"
    said.append(f"entry {entry.sequence}{known}")
    for sentence in said:
        for line in textwrap.wrap(sentence, _WIDTH):
            say(line)
    if body.num_runs >= FEWEST_FLOOR_RUNS:
        say("For interval calibrated_t, under decision:")
        say(f"  noise_floor: {entry.leaf}")


def _reservations(body: NoiseFloor) -> list[str]:
    """Return what stands against the floor, a sentence each."""
    said = []
    for state in ("diverged", "failed"):
        gone = [run for run in body.repeats if run.state == state]
        if gone:
            said.append(
                f"{len(gone)} of {len(body.repeats)} repeats {state} and are recorded, not in "
                f"the spread: {gone[0].reason or 'no reason given'}"
            )
    if body.spreads and body.num_runs < FEWEST_FLOOR_RUNS:
        more = ": the same command with --runs 10 adds to them" if body.origin == "run" else ""
        said.append(
            f"{body.num_runs} are too few for calibrated_t, which takes {FEWEST_FLOOR_RUNS}{more}."
        )
    commits = {run.commit for run in body.repeats if run.commit}
    if len(commits) > 1:
        said.append(f"The repeats ran with {len(commits)} commits of the code.")
    return said


def _plain(entry: Entry, body: NoiseFloor, *, is_new: bool) -> dict[str, Any]:
    freedom = body.num_runs - 1
    return {
        "entry": entry.sequence,
        "leaf": entry.leaf,
        "new": is_new,
        "recipe": body.recipe,
        "scale": body.scale,
        "experiment": body.experiment or None,
        "config_sha256": body.config_sha256,
        "corpus": body.corpus,
        "mixture": body.mixture,
        "origin": body.origin,
        "source": body.source,
        "num_runs": body.num_runs,
        "enough_for_calibrated_t": body.num_runs >= FEWEST_FLOOR_RUNS,
        "spreads": {
            name: {"sd": sd, "interval_90": spread_bounds(sd, freedom), "margin_at_least": 2 * sd}
            for name, sd in body.spreads.items()
        },
        "repeats": [run.model_dump() for run in body.repeats],
        "device_seconds": body.device_seconds,
    }
