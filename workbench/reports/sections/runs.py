"""What ran at full scale, and everything that happened, in order."""

from workbench.reports.blinding import hides_outcomes, openings
from workbench.reports.blocks import (
    Logbook,
    Paragraph,
    Row,
    Section,
    Table,
    lines,
    picture,
    say,
    section,
    table,
)
from workbench.reports.facts import ExperimentFacts
from workbench.reports.figures.curves import attempt_bars, loss_curves, validation_curves
from workbench.reports.lineage import Attempt, RunLineage, run_lineages
from workbench.reports.narrative import Line, clause, line, listed
from workbench.reports.quantities import MISSING, count, duration
from workbench.reports.timeline import timeline

HASH_DIGITS = 10


def lineage_section(facts: ExperimentFacts) -> Section:
    """Return the attempts of every run."""
    title = "Lineage of attempts"
    runs = run_lineages(facts)
    if not runs:
        return section("lineage", title, [say("No full-scale run has started.")])
    restarts = sum(len(run.attempts) - 1 for run in runs)
    text = (
        f"{count(len(runs), 'run')}, {count(restarts, 'restart')}. A restart is a new attempt of "
        "the same run on the same seed; the canonical curve is what survives of all its attempts."
    )
    sources = [source for run in runs for source in run.sources]
    return section(
        "lineage",
        title,
        [
            say(text, sources),
            picture(attempt_bars(facts)),
            _attempts(runs),
            lines(*_seeds(runs)),
        ],
    )


def _seeds(runs: tuple[RunLineage, ...]) -> list[Line]:
    """Return each seed with the arms that it served: the same in every arm."""
    found: dict[tuple[int, str], list[RunLineage]] = {}
    for run in runs:
        found.setdefault((run.seed_index, run.seed), []).append(run)
    return [
        line(
            f"Seed {index}",
            clause(
                f"{listed([run.arm for run in served])}:",
                [run.attempts[0].started.sources[0] for run in served],
                code=seed,
            ),
        )
        for (index, seed), served in sorted(found.items())
    ]


def _attempts(runs: tuple[RunLineage, ...]) -> Table | None:
    return table(
        "Every attempt. Checkpoints by the first digits of their SHA-256.",
        [
            "Run",
            "Attempt",
            "Steps",
            "Discarded",
            "Ended",
            "Began from",
            "Last checkpoint",
            "Time",
        ],
        [_attempt_row(run, attempt) for run in runs for attempt in run.attempts],
        numeric=(1, 2, 3, 7),
    )


def _attempt_row(run: RunLineage, attempt: Attempt) -> Row:
    end = attempt.ended.value if attempt.ended else None
    parent = attempt.started.value.parent_checkpoint
    grave = attempt.outcome not in ("completed", "open")
    return Row(
        cells=(
            run.run,
            str(attempt.number),
            f"{count(attempt.first_step)}–{count(attempt.last_step)}",
            count(attempt.discarded_steps) if attempt.discarded_steps else MISSING,
            attempt.outcome,
            parent[:HASH_DIGITS] or "scratch",
            (end.checkpoint_sha256[:HASH_DIGITS] if end else "") or MISSING,
            duration(end.device_seconds) if end else MISSING,
        ),
        sources=attempt.sources,
        tone="grave" if grave else "",
    )


def timeline_section(facts: ExperimentFacts) -> Section:
    """Return the logbook."""
    text = (
        "Every entry of the ledger about this experiment; neighbouring trials and proxy runs share "
        "a line. Times are UTC."
    )
    return section("timeline", "Timeline", [say(text, quiet=True), Logbook(events=timeline(facts))])


def curves_section(facts: ExperimentFacts) -> Section:
    """Return training and validation curves; before the verdict only what an exposure opened."""
    metric = facts.proposal.measures.primary.metric if facts.proposal else "bpb_macro"
    pictures = [picture(loss_curves(facts)), picture(validation_curves(facts, metric))]
    told = [_hidden_curves(facts)] if hides_outcomes(facts) and run_lineages(facts) else []
    if not any(pictures) and not told:
        return section("curves", "Curves", [say("No full-scale run has a recorded curve.")])
    return section("curves", "Curves", [*told, *pictures])


def _hidden_curves(facts: ExperimentFacts) -> Paragraph:
    """Return why curves are missing, and who opened those that are not."""
    opened = openings(facts)
    number = facts.experiment[:4]
    text = (
        "Curves by arm are outcomes and hidden until the verdict. How the runs are doing is told "
        f"by workbench health {number}; workbench outcomes {number} opens the values, on record."
    )
    if opened:
        who = listed(list(dict.fromkeys(exposure.value.by for exposure in opened)))
        text = (
            f"There is no verdict yet. Shown is what {who} opened: the curves of the attempts that "
            "had ended by then."
        )
    return say(text, [source for exposure in opened for source in exposure.sources])
