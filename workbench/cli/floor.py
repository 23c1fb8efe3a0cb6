"""How a noise floor is told in a terminal or as JSON."""

import textwrap
from collections.abc import Callable
from typing import Any

import typer

from workbench.analysis.power import spread_bounds
from workbench.analysis.rules import FEWEST_FLOOR_RUNS
from workbench.cli.show import print_json, print_table, say, seconds
from workbench.errors import IntegrityError, RunFailedError
from workbench.experiments.repeat_plan import RepeatCost
from workbench.registry.entries import NoiseFloor
from workbench.registry.log import Entry

_WIDTH = 79


def announcer(*, as_json: bool) -> Callable[[RepeatCost], None]:
    """Return what says how much will run, on stderr where stdout is for JSON."""

    def announce(cost: RepeatCost) -> None:
        done = f" ({cost.done} are done)" if cost.done else ""
        took = "" if cost.seconds is None else f", about {seconds(cost.seconds)} on one device"
        tokens = f"{cost.tokens / 1e6:.3g} M tokens"
        sentence = f"Will run {cost.planned} repeats of {cost.what}{done}: {tokens}{took}."
        for line in textwrap.wrap(sentence, _WIDTH):
            typer.echo(line, err=as_json)

    return announce


def print_floor(entry: Entry, *, is_new: bool, as_json: bool) -> None:
    """Print a noise floor's entry.

    Raises:
        RunFailedError: fewer than two repeats completed.
    """
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
    if body.num_runs >= FEWEST_FLOOR_RUNS and body.experiment:
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
    if body.spreads and body.experiment and body.num_runs < FEWEST_FLOOR_RUNS:
        more = ": the same command with --runs 10 adds to them" if body.origin == "run" else ""
        said.append(
            f"{body.num_runs} are too few for calibrated_t, which takes {FEWEST_FLOOR_RUNS}{more}."
        )
    if not body.experiment:
        said.append(
            "calibrated_t takes a floor of the experiment's control at full scale: workbench noise "
            "NNNN."
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
        "fits_calibrated_t": bool(body.experiment) and body.num_runs >= FEWEST_FLOOR_RUNS,
        "spreads": {
            name: {"sd": sd, "interval_90": spread_bounds(sd, freedom), "margin_at_least": 2 * sd}
            for name, sd in body.spreads.items()
        },
        "repeats": [run.model_dump() for run in body.repeats],
        "device_seconds": body.device_seconds,
    }
