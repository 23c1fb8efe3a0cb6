"""How often intervals held what they promised to hold."""

from collections.abc import Sequence
from functools import partial

from workbench.analysis.scoreboard import LEVELS
from workbench.reports.figures.canvas import (
    Axis,
    Canvas,
    Figure,
    figure,
    legend,
    vertical_axis,
)
from workbench.reports.narrative import listed
from workbench.reports.quantities import count, percent
from workbench.reports.scores import TargetBoard

FEWEST = 2
"""Scored forecasts of a target below which there is nothing to draw."""
_APART = 12.0
"""Pixels between the targets at one level."""
_STYLES = {"improvement": "estimate", "treatment": "dot treatment", "control": "dot control"}


def reliability(boards: Sequence[TargetBoard]) -> Figure | None:
    """Return observed against promised coverage with bounds; none below 2 forecasts of a target."""
    shown = [board for board in boards if board.standings[0].n >= FEWEST]
    if not shown:
        return None
    return figure(
        name="reliability",
        caption=(
            "Share of results inside the interval against what it promised, with 95\u202f% "
            "Clopper–Pearson bounds. On the dashed line forecasts are calibrated, below it "
            "overconfident."
        ),
        alt=f"Reliability of forecasts. {' '.join(_in_words(board) for board in shown)}",
        sources=[source for board in shown for source in board.sources],
        draw=partial(_draw, boards=shown),
        height=lambda width: 330 if width > 500 else 310,
    )


def _in_words(board: TargetBoard) -> str:
    row = board.standings[0]
    told = [
        f"{level}\u202f% intervals held {found.hits} of {found.n} ({percent(found.lower, 0)} to "
        f"{percent(found.upper, 0)})"
        for level, found in row.coverage.items()
    ]
    return f"Of the {board.target}: {listed(told)}."


def _draw(canvas: Canvas, *, boards: Sequence[TargetBoard]) -> None:
    top, bottom, left, right = 62.0, canvas.height - 48.0, 44.0, canvas.width - 24.0
    x = Axis(low=40, high=100, start=left, end=right)
    y = Axis(low=0, high=100, start=bottom, end=top)
    items = [
        (
            f"{board.target}, {count(board.standings[0].n, 'forecast')}",
            partial(_mark, canvas, board),
        )
        for board in boards
    ]
    legend(canvas, 0, 14, items)
    vertical_axis(canvas, y, left, right, "Results inside, %")
    canvas.line(left, bottom, right, bottom, "axis")
    canvas.line(x.at(40), y.at(40), x.at(100), y.at(100), "reference")
    for level in LEVELS:
        canvas.line(x.at(level), bottom, x.at(level), bottom + 4, "axis")
        canvas.text(x.at(level), bottom + 17, f"{level}\u202f%", "t tick", anchor="middle")
    canvas.text(
        (left + right) / 2, bottom + 36, "Level of the interval", "t muted", anchor="middle"
    )
    for place, board in enumerate(boards):
        _draw_board(canvas, board, x, y, _APART * (place - (len(boards) - 1) / 2))


def _draw_board(canvas: Canvas, board: TargetBoard, x: Axis, y: Axis, aside: float) -> None:
    for level, found in board.standings[0].coverage.items():
        at = x.at(level) + aside
        canvas.line(at, y.at(100 * found.lower), at, y.at(100 * found.upper), "whisker")
        for bound in (found.lower, found.upper):
            canvas.line(at - 4, y.at(100 * bound), at + 4, y.at(100 * bound), "whisker")
        hint = f"{board.target}, {level}\u202f%: {found.hits} of {found.n}"
        canvas.circle(at, y.at(100 * found.share), 4.5, _style(board), hint)


def _mark(canvas: Canvas, board: TargetBoard, x: float, y: float) -> None:
    canvas.circle(x, y, 4.5, _style(board))


def _style(board: TargetBoard) -> str:
    return _STYLES.get(board.target, "dot plain")
