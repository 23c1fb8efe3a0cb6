"""Commands that compute: sweep, promote, run, verdict."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from workbench.cli import outside_options as others
from workbench.cli.filing import Number
from workbench.cli.show import live_progress, say, say_wrapped

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
    for command in (sweep, promote, run, verdict):
        app.command(rich_help_panel="Run and decide")(command)


@contextmanager
def _continuable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(CONTINUES, err=True)
        raise


def sweep(number: Number, exploratory: Exploratory = False) -> None:
    """Run the registered sweep of proxies, or what is left of it."""
    from workbench.lab import Lab
    from workbench.reports.drawn import drawn_in_words

    lab = Lab.open()
    with live_progress() as progress, _continuable():
        report = lab.sweep(number, exploratory=exploratory, progress=progress)
    for sentence in report.recovered:
        say(sentence)
    if not exploratory:
        _say_deviations(lab.deviations(number, at="sweep"))
    say(f"{report.declared} trials declared: {counted_trials(report.counts, report.num_again)}")
    if report.control_value is not None:
        say(f"  control's own point    {report.metric} {report.control_value:.4f}")
    if report.best_value is not None:
        best = f"{report.best_value:.4f} ({report.best_trial})"
        say(f"  best of the sweep      {report.metric} {best}")
        say("  The best of many flatters itself; promotion re-runs the top on fresh seeds.")
    told = drawn_in_words(report.drawn)
    if told:
        say_wrapped(f"  completed trials drew  {told}")
    say(f"Next: workbench promote {number}{_flag(exploratory)}")


def counted_trials(counts: Mapping[str, int], num_again: int) -> str:
    """Return the trials by state; those that were run again come on top of the declared ones."""
    if not num_again:
        return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    lost = counts.get("lost", 0)
    if lost < num_again:
        return f"{counted_trials(counts, 0)} ({num_again} of them run again)"
    rest = {**counts, "lost": lost - num_again}
    told = counted_trials({state: count for state, count in rest.items() if count}, 0)
    return ", ".join([*([told] if told else []), f"{num_again} lost and run again"])


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
    from workbench.cli.full_runs import print_runs
    from workbench.cli.outcomes import print_looks
    from workbench.lab import Lab

    with live_progress() as progress, _continuable():
        lab = Lab.open()
        report = lab.run(number, exploratory=exploratory, progress=progress)
    for sentence in report.recovered:
        say(sentence)
    _say_deviations(report.deviations)
    print_runs(report, lab.settings.peak_tflops)
    print_looks(report.looks)
    if not exploratory:
        say(f"Next: workbench verdict {number}")


def verdict(
    number: Annotated[
        str, typer.Argument(help="Experiment number; none for others' runs.", show_default=False)
    ] = "",
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Judge with runs missing: void by the rule.")
    ] = False,
    from_csv: others.FromCsv = None,
    from_mlflow: others.FromMlflow = "",
    experiment: others.ExperimentName = "",
    arm_tag: others.ArmTag = "",
    control: others.Control = "",
    treatment: others.Treatment = "",
    seed_param: others.SeedParam = "",
    rule: others.RuleOption = "",
    direction: others.Better = "",
    metric: others.Metric = "",
    exclude_diverged: others.ExcludeDiverged = False,
    same_data: others.SameData = None,
    as_json: others.AsJson = False,
) -> None:
    """Read the sealed test split once and let the registered rule decide."""
    by = others.Judged(
        rule=rule,
        direction=direction,
        metric=metric,
        exclude_diverged=exclude_diverged,
        same_data=same_data,
        as_json=as_json,
    )
    tracked = others.TrackedRuns(
        uri=from_mlflow,
        experiment=experiment,
        arm_tag=arm_tag,
        control=control,
        treatment=treatment,
        seed_param=seed_param,
    )
    if from_csv is not None or from_mlflow:
        if number or incomplete:
            raise typer.BadParameter(
                "--from-csv and --from-mlflow judge others' runs, not an experiment of a lab"
            )
        from workbench.cli.outside import judge

        judge(from_csv, tracked, by)
        return
    if not number:
        raise typer.BadParameter(
            "name an experiment, or others' runs with --from-csv FILE or --from-mlflow URI"
        )
    if by.is_given or tracked.is_given:
        raise typer.BadParameter(
            "--rule and the like go with --from-csv or --from-mlflow: an experiment's rule is "
            "registered"
        )
    _decide(number, incomplete=incomplete)


def _decide(number: str, *, incomplete: bool) -> None:
    from workbench.cli.outcomes import print_verdict
    from workbench.lab import Lab

    lab = Lab.open()
    with live_progress() as progress:
        entry = lab.verdict(number, incomplete=incomplete, progress=progress)
    _say_deviations(lab.deviations(number, at="verdict"))
    print_verdict(entry)
    for sentence in lab.verdict_sentences(number):
        say_wrapped(sentence)
    say(f"Next: workbench chronicle {number}")


def _say_deviations(found: Sequence[str]) -> None:
    for sentence in found:
        say(f"deviation  {sentence}")


def _flag(exploratory: bool) -> str:
    return " --exploratory" if exploratory else ""
