"""The index page's section on how forecasts have done."""

from collections.abc import Sequence

from workbench.analysis.forecasts import CALIBRATION_MINIMUM, Coverage
from workbench.analysis.scoreboard import LEVELS, Standing
from workbench.reports.blocks import (
    Block,
    Lines,
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
from workbench.reports.facts import Source
from workbench.reports.figures.reliability import reliability
from workbench.reports.narrative import Clause, clause, line, listed, sentence
from workbench.reports.quantities import MISSING, count, even, number, percent, signed
from workbench.reports.scores import (
    LEFT_OUT,
    UNSCORED,
    Fate,
    ForecastRecord,
    Scoreboard,
    TargetBoard,
)

_PLURAL: dict[Fate, str] = {
    "open": "still open",
    "void": "of a void experiment",
    "withdrawn": "of a withdrawn experiment",
    "hidden": "whose verdict is hidden",
    "late": "made after a full-scale run began",
    "superseded": "made again before any run",
    "exploratory": "made outside of any registration",
    "unscorable": "that cannot be scored",
}


def calibration_section(scores: Scoreboard) -> Section:
    """Return counts, a table by target, and the reliability figure once it can show something."""
    blocks: list[Block | None] = [
        _counts(scores),
        _grades(scores.boards),
        _without_result(scores),
        _coverage(scores.boards),
        _errors(scores.boards),
        picture(reliability(scores.boards)),
    ]
    return section("calibration", "Calibration", blocks)


def _counts(scores: Scoreboard) -> Paragraph:
    scored = scores.having("scored")
    experiments = len({(record.origin, record.experiment) for record in scored})
    if not scored:
        return say("No forecast is scored yet.")
    text = (
        f"{count(len(scored), 'forecast')} of {count(experiments, 'experiment')} scored. Those of "
        "one experiment rise and fall together, so each target is counted by itself; its "
        f"80\u202f% intervals get no grade below {CALIBRATION_MINIMUM} forecasts."
    )
    return say(text, _sources(scored))


def _grades(boards: Sequence[TargetBoard]) -> Lines | None:
    return lines(
        *(
            line(board.target.capitalize(), clause(sentence(row.grade), board.sources))
            for board in boards
            if (row := board.standings[0]).n
        )
    )


def _without_result(scores: Scoreboard) -> Paragraph | None:
    """Return what else was forecast: without a result, in no figure, or hidden."""
    clauses = [
        _told(records, _PLURAL[fate])
        for fate in (*UNSCORED, *LEFT_OUT)
        if (records := scores.having(fate))
    ]
    if scores.hidden:
        text = f"{count(len(scores.hidden), 'forecast')} with hidden content."
        clauses.append(clause(text, [hidden.source for hidden in scores.hidden]))
    return Paragraph(clauses=(clause("Not scored:"), *clauses), quiet=True) if clauses else None


def _told(records: Sequence[ForecastRecord], what: str) -> Clause:
    return clause(f"{count(len(records), 'forecast')} {what}.", _sources(records))


def _sources(records: Sequence[ForecastRecord]) -> list[Source]:
    return [source for record in records for source in record.sources]


def _coverage(boards: Sequence[TargetBoard]) -> Table | None:
    rows = [
        Row(
            cells=(
                board.target,
                _scored(board.standings[0]),
                *(_held(board.standings[0].coverage[level]) for level in LEVELS),
            ),
            sources=board.sources,
        )
        for board in boards
        if board.standings[0].n
    ]
    return table(
        "How often intervals held what happened, with 95\u202f% Clopper–Pearson bounds in "
        "per cent. By kind, method and extrapolation: workbench scoreboard.",
        ["Forecast of", "Scored", *(f"{level}\u202f%" for level in LEVELS)],
        rows,
        numeric=(1, 2, 3, 4),
    )


def _scored(row: Standing) -> str:
    return f"{row.n} of {row.n + row.num_unscored}"


def _held(found: Coverage) -> str:
    bounds = f"{number(100 * found.lower, 1)} to {number(100 * found.upper, 1)}"
    return f"{percent(found.share, 0)} ({bounds})"


def _errors(boards: Sequence[TargetBoard]) -> Table | None:
    rows = [_error_row(board) for board in boards if board.standings[0].n]
    return table(
        "How far off they were. Bias is the mean of result minus forecast; skill compares the CRPS "
        "with a baseline’s: 1 is perfect, 0 no better, below 0 worse.",
        ["Forecast of", "Metric", "Bias", "80\u202f% interval score", "No effect", "Last scale"],
        rows,
        numeric=(2, 3, 4, 5),
    )


def _error_row(board: TargetBoard) -> Row:
    row = board.standings[0]
    return Row(
        cells=(
            board.target,
            listed(row.metrics),
            signed(row.bias),
            MISSING if row.interval_score_80 is None else even(row.interval_score_80),
            *(_skill(row, baseline) for baseline in ("no_effect", "last_scale")),
        ),
        sources=board.sources,
    )


def _skill(row: Standing, baseline: str) -> str:
    skill = row.skill.get(baseline)
    return MISSING if skill is None else number(skill, 2)
