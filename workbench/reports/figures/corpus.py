"""What a corpus is made of, and what each stage of its build left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from workbench.reports.figures.canvas import (
    LETTER,
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    legend,
)
from workbench.reports.quantities import percent, scaled

ROW = 30.0
NARROW_ROW = 40.0
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A row of a bar chart: parts in the order of the legend, and a word at the end."""

    label: str
    parts: tuple[float, ...]
    """Bytes."""
    end: str


def composition_bars(rows: Sequence[Bar]) -> Figure | None:
    """Return bytes kept by domain and language, what is held out set apart."""
    if not rows:
        return None
    return _bars(
        name="composition",
        caption="Text kept, by domain and language.",
        alt="Bytes kept: " + ", ".join(f"{row.label} {row.end}" for row in rows) + ".",
        rows=rows,
        parts=(("training", "fate kept"), ("held out", "fate stopped")),
        title="Text kept",
    )


def stage_bars(rows: Sequence[Bar]) -> Figure | None:
    """Return bytes that each stage passed on and left out."""
    if not rows:
        return None
    return _bars(
        name="stages",
        caption="Text that came into each stage, and what the stage left out of it.",
        alt="Bytes left out: " + ", ".join(f"{row.label} {row.end}" for row in rows) + ".",
        rows=rows,
        parts=(("passed on", "fate kept"), ("left out", "fate wasted"), ("cut", "fate stopped")),
        title="Text into the stage",
    )


def _bars(
    *,
    name: str,
    caption: str,
    alt: str,
    rows: Sequence[Bar],
    parts: Sequence[tuple[str, str]],
    title: str,
) -> Figure:
    return figure(
        name=name,
        caption=caption,
        alt=alt,
        sources=(),
        draw=partial(_draw, rows=rows, parts=parts, title=title),
        height=lambda width: 70 + (NARROW_ROW if width < 500 else ROW) * len(rows),
    )


def _draw(
    canvas: Canvas, *, rows: Sequence[Bar], parts: Sequence[tuple[str, str]], title: str
) -> None:
    left = 0.0 if canvas.narrow else LETTER * max(len(row.label) for row in rows) + 14
    right = canvas.width - LETTER * max(len(row.end) for row in rows) - 16
    largest = max(sum(row.parts) for row in rows)
    factor, unit = next(((f, u) for f, u in _UNITS if largest >= f), (1.0, "bytes"))
    x = Axis(low=0, high=max(largest / factor, 1e-9), start=left, end=right)
    row_height = NARROW_ROW if canvas.narrow else ROW
    top = 28.0
    marks = [(words, partial(_swatch, canvas, style)) for words, style in parts]
    legend(canvas, 0, 14, marks)
    bottom = top + row_height * len(rows)
    wanted = 3 if canvas.narrow else 6
    horizontal_axis(canvas, x, bottom, f"{title}, {unit}", wanted=wanted, top=top)
    for place, row in enumerate(rows):
        y = top + row_height * place
        bar = y + (18 if canvas.narrow else 8)
        canvas.text(0, bar - 5 if canvas.narrow else bar + 12, row.label, "t strong")
        reached = 0.0
        for (_, style), size in zip(parts, row.parts, strict=True):
            start, end = x.at(reached / factor), x.at((reached + size) / factor)
            if size:
                canvas.rect(start, bar, end - start, 15, style)
            reached += size
        canvas.text(x.at(reached / factor) + 7, bar + 12, row.end, "t")


def _swatch(canvas: Canvas, style: str, x: float, y: float) -> None:
    canvas.rect(x - 6, y - 5, 12, 10, style)


def share_label(size: float, total: float) -> str:
    """Return bytes with their share, for the end of a bar."""
    share = percent(size / total) if total else percent(0.0)
    return f"{scaled(size, 'B')}, {share}"
