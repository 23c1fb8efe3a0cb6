"""Others' runs judged by a rule, told in a terminal or as JSON."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from workbench.cli.outside_options import DIRECTIONS, Judged, TrackedRuns
from workbench.cli.show import print_json, print_table, read_text, say
from workbench.experiments.installed import require_training_extra
from workbench.experiments.outside_runs import (
    CAVEAT,
    LABEL,
    OutsideVerdict,
    Row,
    outside_verdict,
    read_runs,
)


def judge(path: Path | None, runs: TrackedRuns, by: Judged) -> None:
    """Judge others' runs of a CSV file or of an MLflow store, whichever is given."""
    if path is None:
        judge_mlflow(runs, by)
        return
    if runs.is_given:
        raise typer.BadParameter("--experiment and the like go with --from-mlflow, not --from-csv")
    judge_csv(path, by)


def judge_csv(path: Path, by: Judged) -> None:
    """Judge a CSV file of runs and print what the rule says, labelled as unregistered."""
    by.require("--from-csv")
    verdict = _verdict(by, read_runs(read_text(path), path.name))
    if by.as_json:
        print_json(_plain(verdict))
    else:
        _print(verdict)


def judge_mlflow(runs: TrackedRuns, by: Judged) -> None:
    """Judge runs of an MLflow experiment likewise; nothing is written to its store.

    Raises:
        MissingDependencyError: MLflow is not installed.
    """
    by.require("--from-mlflow")
    for option, value in (("--experiment", runs.experiment), ("--metric", by.metric)):
        if not value:
            raise typer.BadParameter(f"--from-mlflow needs {option} NAME")
    require_training_extra(["mlflow"])
    from workbench.experiments.outside_tracking import Assignment, tracked_rows
    from workbench.training.tracked_elsewhere import read_experiment, shown_uri

    found = read_experiment(runs.uri, runs.experiment)
    read = tracked_rows(
        found,
        Assignment(
            metric=by.metric,
            arm_key=runs.arm_tag or "arm",
            control=runs.control,
            treatment=runs.treatment,
            seed_param=runs.seed_param,
        ),
    )
    verdict = _verdict(by, read.rows)
    if by.as_json:
        source = {"uri": shown_uri(runs.uri), "experiment": found.name}
        told = {"runs": [asdict(run) for run in read.runs], "remarks": read.remarks}
        print_json(_plain(verdict) | {"mlflow": source | told})
        return
    _print(verdict)
    for remark in read.remarks:
        _wrapped(remark)


def _verdict(by: Judged, rows: Sequence[Row]) -> OutsideVerdict:
    return outside_verdict(
        rows,
        by.rule,
        direction=DIRECTIONS[by.direction],
        metric=by.metric or "value",
        divergence="exclude" if by.exclude_diverged else "arm_void",
        data_arms=None if by.same_data is None else not by.same_data,
    )


def _plain(verdict: OutsideVerdict) -> dict[str, object]:
    return {
        "registered": verdict.registered,
        "caveat": CAVEAT,
        "rule": verdict.rule.text,
        **asdict(verdict.judgement),
        "looks": [asdict(look) for look in verdict.looks],
        "seeds": verdict.seeds,
        "unused_seeds": verdict.unused,
        "explanation": asdict(verdict.explanation),
        "rows_sha256": verdict.sha256,
    }


def _print(verdict: OutsideVerdict) -> None:
    say(f"{verdict.judgement.outcome.upper()}, {LABEL}  {verdict.rule.text}", bold=True)
    rows = [
        [
            str(look.num_seeds),
            _number(look.judgement.estimate),
            _number(look.judgement.lower),
            _number(look.judgement.upper),
            f"{look.judgement.alpha:.4g}" if look.judgement.alpha else "",
            look.judgement.outcome,
        ]
        for look in verdict.looks
    ]
    print_table(["seeds", "improvement", "at least", "at most", "alpha", "outcome"], rows)
    for sentence in (
        verdict.explanation.claimed,
        verdict.explanation.seen,
        verdict.explanation.otherwise,
    ):
        say(sentence)
    following = verdict.looks[-1].next_seeds
    if following is not None:
        say(f"The rule is not at its end: it looks again at {following} seeds an arm.")
    if verdict.unused:
        say(f"{verdict.unused} further seeds an arm were not looked at.")
    say(f"{LABEL}: {CAVEAT}")


def _wrapped(text: str) -> None:
    for line in textwrap.wrap(text, 79, break_long_words=False):
        say(line)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.5g}"
