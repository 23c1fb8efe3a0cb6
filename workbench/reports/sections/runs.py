"""What ran at full scale, and everything that happened, in order."""

from workbench.reports.blocks import Logbook, Row, Section, Table, picture, say, section, table
from workbench.reports.facts import ExperimentFacts
from workbench.reports.figures.curves import attempt_bars, loss_curves, validation_curves
from workbench.reports.lineage import Attempt, RunLineage, run_lineages
from workbench.reports.quantities import MISSING, count, duration
from workbench.reports.timeline import timeline

HASH_DIGITS = 12


def lineage_section(facts: ExperimentFacts) -> Section:
    """Return the attempts of every run."""
    title = "Lineage of attempts"
    runs = run_lineages(facts)
    if not runs:
        return section("lineage", title, [say("No full-scale run has started.")])
    restarts = sum(len(run.attempts) - 1 for run in runs)
    text = (
        f"{count(len(runs), 'run')}, {count(restarts, 'restart')}. A restart is a new attempt of the "
        "same run on the same seed; the canonical curve is what survives of all its attempts."
    )
    sources = [source for run in runs for source in run.sources]
    return section(
        "lineage", title, [say(text, sources), picture(attempt_bars(facts)), _attempts(runs)]
    )


def _attempts(runs: tuple[RunLineage, ...]) -> Table | None:
    return table(
        "Every attempt. Checkpoints by the first digits of their SHA-256.",
        [
            "Run",
            "Seed",
            "Attempt",
            "Steps",
            "Discarded",
            "Ended",
            "From checkpoint",
            "Last checkpoint",
            "Device time",
        ],
        [_attempt_row(run, attempt) for run in runs for attempt in run.attempts],
        numeric=(2, 3, 4, 8),
    )


def _attempt_row(run: RunLineage, attempt: Attempt) -> Row:
    end = attempt.ended.value if attempt.ended else None
    planned = f" of {count(end.planned_steps)}" if end else ""
    parent = attempt.started.value.parent_checkpoint
    grave = attempt.outcome not in ("completed", "open")
    return Row(
        cells=(
            run.run,
            run.seed,
            str(attempt.number),
            f"{count(attempt.first_step)}–{count(attempt.last_step)}{planned}",
            count(attempt.discarded_steps) if attempt.discarded_steps else MISSING,
            attempt.outcome,
            parent[:HASH_DIGITS] or MISSING,
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
    """Return training and validation curves."""
    metric = facts.proposal.measures.primary.metric if facts.proposal else "bpb_macro"
    pictures = [picture(loss_curves(facts)), picture(validation_curves(facts, metric))]
    if not any(pictures):
        return section("curves", "Curves", [say("No full-scale run has a recorded curve.")])
    return section("curves", "Curves", pictures)
