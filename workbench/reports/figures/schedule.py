"""The learning rate of a configuration, with its phases shaded and told below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from workbench.reports.figures.canvas import (
    LETTER,
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    vertical_axis,
)
from workbench.reports.quantities import count, significant

_LINE = 18.0
"""Height of a line of words, in pixels."""


@dataclass(frozen=True, kw_only=True)
class DrawnPhase:
    """A phase of a schedule as plain values."""

    name: str
    first: int
    last: int
    frozen: Sequence[str]
    balance_weight: float
    """λ."""
    mixture: Mapping[str, float] | str
    """Share of each domain, or ``natural``."""

    def sentence(self) -> str:
        """Return what the phase does besides its learning rate."""
        mixture = self.mixture
        if not isinstance(mixture, str):
            mixture = ", ".join(f"{domain} {share:.3g}" for domain, share in mixture.items())
        frozen = f"; frozen: {', '.join(self.frozen)}" if self.frozen else ""
        steps = f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"
        return f"{self.name}, {steps}: λ {self.balance_weight:g}; {mixture}{frozen}"


def schedule_figure(
    what: str, points: Sequence[tuple[int, float]], phases: Sequence[DrawnPhase]
) -> Figure:
    """Return the figure of a schedule.

    Args:
        what: Whose it is.
        points: (step, learning rate), steps rising.
        phases: Those that cover a step, in order.
    """
    peak = max(rate for _, rate in points)
    return figure(
        name="schedule",
        caption=f"Schedule of {what}.",
        alt=f"Learning rate over {count(points[-1][0], 'step')}, at most {significant(peak, 3)}; "
        f"phases: {', '.join(phase.name for phase in phases)}.",
        sources=(),
        draw=partial(_draw, what=what, points=points, phases=phases),
        height=lambda _: 330 + _LINE * len(phases),
    )


def _draw(
    canvas: Canvas,
    *,
    what: str,
    points: Sequence[tuple[int, float]],
    phases: Sequence[DrawnPhase],
) -> None:
    left, right, top = 64.0, canvas.width - 12.0, 66.0
    bottom = canvas.height - 62 - _LINE * len(phases)
    peak = max(rate for _, rate in points)
    x = Axis(low=0, high=points[-1][0], start=left, end=right)
    y = Axis(low=0, high=peak or 1.0, start=bottom, end=top)
    canvas.text(0, 14, what, "t strong")
    for number, phase in enumerate(phases):
        start, end = x.at(phase.first - 1), x.at(phase.last)
        if number % 2:
            canvas.rect(start, top, end - start, bottom - top, "zone inconclusive")
        if len(phase.name) * LETTER < end - start:
            canvas.text((start + end) / 2, top - 6, phase.name, "t muted", anchor="middle")
    vertical_axis(canvas, y, left, right, "")
    canvas.text(0, top - 24, "Learning rate", "t muted")
    horizontal_axis(canvas, x, bottom, "Step", wanted=4 if canvas.narrow else 7)
    canvas.path([(x.at(step), y.at(rate)) for step, rate in points], "curve treatment")
    for number, phase in enumerate(phases):
        place = bottom + 58 + _LINE * number
        canvas.text(0, place, phase.sentence(), "t" if number % 2 == 0 else "t muted")
