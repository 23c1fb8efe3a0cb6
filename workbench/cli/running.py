"""Commands that compute: data, sweep, promote, run, verdict."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from workbench.cli.filing import Number
from workbench.cli.show import live_progress, print_table, say, seconds

Exploratory = Annotated[
    bool,
    typer.Option(
        "--exploratory",
        help="Run the draft files without a registration; watermarked for ever.",
    ),
]
CONTINUES = "Stopped. What is finished is in the ledger; the same command continues."


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (data, sweep, promote, run, verdict):
        app.command(rich_help_panel="Run and decide")(command)


@contextmanager
def _continuable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(CONTINUES, err=True)
        raise


def data(
    recipe: Annotated[str, typer.Argument(help="A recipe file, like proxies/NAME.yaml.")],
) -> None:
    """Build the corpus of a recipe: deduplicate, split, tokenize, hash."""
    from workbench.lab import Lab

    with live_progress() as progress:
        state = Lab.open().build_data(recipe, progress=progress)
    say(f"{state.corpus}  {state.manifest}")
    say(f"  exact duplicates removed before the split: {state.duplicates_removed:,}")
    rows = []
    for key, documents in state.documents.items():
        split, _, domain = key.partition("_")
        share = f"{state.natural_mixture[domain]:.3f}" if split == "train" else ""
        rows.append([split, domain, f"{documents:,}", f"{state.tokens[key]:,}", share])
    print_table(["split", "domain", "documents", "tokens", "natural share"], rows)


def sweep(number: Number, exploratory: Exploratory = False) -> None:
    """Run the registered sweep of proxies, or what is left of it."""
    from workbench.lab import Lab

    lab = Lab.open()
    with live_progress() as progress, _continuable():
        report = lab.sweep(number, exploratory=exploratory, progress=progress)
    for sentence in report.recovered:
        say(sentence)
    if not exploratory:
        _say_deviations(lab.deviations(number, at="sweep"))
    counts = ", ".join(f"{count} {state}" for state, count in sorted(report.counts.items()))
    say(f"{report.declared} trials declared: {counts}")
    if report.control_value is not None:
        say(f"  control's own point    {report.metric} {report.control_value:.4f}")
    if report.best_value is not None:
        best = f"{report.best_value:.4f} ({report.best_trial})"
        say(f"  best of the sweep      {report.metric} {best}")
        say("  The best of many flatters itself; promotion re-runs the top on fresh seeds.")
    say(f"Next: workbench promote {number}{_flag(exploratory)}")


def promote(number: Number, exploratory: Exploratory = False) -> None:
    """Re-run the top of the sweep on fresh seeds, choose by the rule, forecast the full scale."""
    from workbench.cli.outcomes import print_promotion
    from workbench.lab import Lab

    lab = Lab.open()
    with live_progress() as progress, _continuable():
        entry = lab.promote(number, exploratory=exploratory, progress=progress)
    if not exploratory:
        _say_deviations(lab.deviations(number, at="promotion"))
    if print_promotion(entry, lab.forecasts(entry)):
        say(f"Next: workbench run {number}{_flag(exploratory)}")


def run(number: Number, exploratory: Exploratory = False) -> None:
    """Run both arms at full scale, look where the registered rule does, and stop where it says."""
    from workbench.cli.outcomes import print_looks
    from workbench.lab import Lab

    with live_progress() as progress, _continuable():
        report = Lab.open().run(number, exploratory=exploratory, progress=progress)
    for sentence in report.recovered:
        say(sentence)
    _say_deviations(report.deviations)
    rows = [
        [
            line.run,
            str(line.attempts),
            line.outcome,
            f"{line.last_step}/{line.planned_steps}",
            "" if line.value is None else f"{line.value:.4f}",
            seconds(line.device_seconds),
        ]
        for line in report.runs
    ]
    print_table(["run", "attempts", "outcome", "step", f"validation {report.metric}", "time"], rows)
    print_looks(report.looks)
    if not exploratory:
        say(f"Next: workbench verdict {number}")


def verdict(
    number: Annotated[
        str, typer.Argument(help="Experiment number; none with --from-csv.", show_default=False)
    ] = "",
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Judge with runs missing: void by the rule.")
    ] = False,
    from_csv: Annotated[
        Path | None,
        typer.Option(help="Others' runs (columns arm,seed,value) to judge; needs no lab."),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(help='For --from-csv, like "superior(0.02) welch_t fixed(5) alpha 0.05".'),
    ] = "",
    direction: Annotated[
        str, typer.Option(help="For --from-csv: minimize or maximize the value.")
    ] = "",
    metric: Annotated[str, typer.Option(help="For --from-csv: what the value is.")] = "value",
    exclude_diverged: Annotated[
        bool,
        typer.Option("--exclude-diverged", help="Leave out runs without a value; else: void."),
    ] = False,
    same_data: Annotated[
        bool | None,
        typer.Option(
            "--same-data/--other-data", help="Whether both arms saw the same data (calibrated_t)."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --from-csv: print JSON for another program.")
    ] = False,
) -> None:
    """Read the sealed test split once and let the registered rule decide."""
    if from_csv is not None:
        if number or incomplete:
            raise typer.BadParameter("--from-csv judges others' runs, not an experiment of a lab")
        from workbench.cli.outside import judge_csv

        divergence: Literal["exclude", "arm_void"] = "exclude" if exclude_diverged else "arm_void"
        data_arms = None if same_data is None else not same_data
        judge_csv(from_csv, rule, direction, metric, divergence, data_arms, as_json=as_json)
        return
    if not number:
        raise typer.BadParameter("name an experiment, or others' runs with --from-csv FILE")
    if rule or direction or as_json:
        raise typer.BadParameter(
            "--rule, --direction and --json go with --from-csv: an experiment's rule is registered"
        )
    from workbench.cli.outcomes import print_verdict
    from workbench.lab import Lab

    lab = Lab.open()
    with live_progress() as progress:
        entry = lab.verdict(number, incomplete=incomplete, progress=progress)
    _say_deviations(lab.deviations(number, at="verdict"))
    print_verdict(entry)
    say(f"Next: workbench chronicle {number}")


def _say_deviations(found: Sequence[str]) -> None:
    for sentence in found:
        say(f"deviation  {sentence}")


def _flag(exploratory: bool) -> str:
    return " --exploratory" if exploratory else ""
