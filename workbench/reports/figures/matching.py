"""How a domain's scores lie against a reference's, before and after they were matched."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from workbench.reports.figures.canvas import Axis, Canvas, Figure, figure, horizontal_axis, legend
from workbench.reports.quantities import percent

ROW = 26.0


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Shares of documents in one bin, 0 to 1."""

    reference: float
    before: float
    after: float
    acceptance: float
    """Probability with which a document of it was kept."""


def matching_bars(domain: str, bins: Sequence[Bin]) -> Figure:
    """Return a row a bin: a wide bar before, a narrow one after, a mark for the reference."""
    told = ", ".join(
        f"bin {place} {percent(b.before)} to {percent(b.after)} against {percent(b.reference)}"
        for place, b in enumerate(bins, start=1)
    )
    return figure(
        name=f"quality-{domain}",
        caption=f"Documents of {domain} by bin of the classifier’s score, lowest first.",
        alt=f"Share of documents before and after matching, against the reference: {told}.",
        sources=(),
        draw=partial(_draw, bins=bins),
        height=lambda width: 74 + (18 if width < 500 else 0) + ROW * len(bins),
    )


def _draw(canvas: Canvas, *, bins: Sequence[Bin]) -> None:
    top = 28.0 + (18 if canvas.narrow else 0)
    left, right = 34.0, canvas.width - 12.0
    most = max(max(b.reference, b.before, b.after) for b in bins)
    x = Axis(low=0, high=max(100 * most, 1e-9), start=left, end=right)
    legend(
        canvas,
        0,
        14,
        [
            ("before", partial(_swatch, canvas, "fate stopped")),
            ("after", partial(_swatch, canvas, "fate kept")),
            ("reference", partial(_mark, canvas)),
        ],
    )
    bottom = top + ROW * len(bins)
    horizontal_axis(canvas, x, bottom, "Documents, %", wanted=4 if canvas.narrow else 8, top=top)
    for place, found in enumerate(bins):
        y = top + ROW * place
        canvas.text(left - 10, y + 17, str(place + 1), "t tick", anchor="end")
        canvas.rect(left, y + 4, x.at(100 * found.before) - left, 18, "fate stopped")
        canvas.rect(left, y + 9, x.at(100 * found.after) - left, 8, "fate kept")
        at = x.at(100 * found.reference)
        canvas.line(at, y + 2, at, y + 24, "point")


def _swatch(canvas: Canvas, style: str, x: float, y: float) -> None:
    canvas.rect(x - 6, y - 5, 12, 10, style)


def _mark(canvas: Canvas, x: float, y: float) -> None:
    canvas.line(x, y - 7, x, y + 7, "point")
