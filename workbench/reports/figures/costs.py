"""What every outcome cost, stage by stage."""

from collections.abc import Sequence
from functools import partial

from workbench.reports.accounting import Bill, Cost, Fate
from workbench.reports.figures.canvas import (
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    legend,
)
from workbench.reports.quantities import count, duration, percent

ROW = 36.0
WORDS: dict[Fate, str] = {
    "kept": "gave a result",
    "stopped": "pruned by rule",
    "wasted": "failed, lost or discarded",
}


def cost_bars(bill: Bill) -> Figure | None:
    """Return device time by stage, divided by what came of it."""
    if not bill.device_seconds:
        return None
    stages = list(dict.fromkeys(cost.stage for cost in bill.costs))
    return figure(
        name="costs",
        caption="Device time by stage and by what came of it.",
        alt=f"{duration(bill.device_seconds)} of device time: "
        + ", ".join(f"{percent(bill.share(fate))} {words}" for fate, words in WORDS.items())
        + ".",
        sources=bill.sources,
        draw=partial(_draw, costs=bill.costs, stages=stages),
        height=lambda width: 70 + (20 if width < 500 else 0) + ROW * len(stages),
    )


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the divisor and the unit that suit a longest bar."""
    if seconds >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds >= 180 else (1.0, "seconds")


def _draw(canvas: Canvas, *, costs: Sequence[Cost], stages: Sequence[str]) -> None:
    totals = {s: sum(c.device_seconds for c in costs if c.stage == s) for s in stages}
    left = 0.0 if canvas.narrow else 124.0
    right = canvas.width - 82.0
    factor, unit = time_unit(max(totals.values()))
    x = Axis(low=0, high=max(totals.values()) / factor, start=left, end=right)
    present = [fate for fate in WORDS if any(c.fate == fate for c in costs)]
    legend(canvas, 0, 14, [(WORDS[fate], partial(_swatch, canvas, fate)) for fate in present])
    top = 28.0 + (20 if canvas.narrow else 0)
    bottom = top + ROW * len(stages)
    title = f"Device time, {unit}"
    horizontal_axis(canvas, x, bottom, title, wanted=4 if canvas.narrow else 6, top=top)
    for place, stage in enumerate(stages):
        y = top + ROW * place
        canvas.text(0, y + (10 if canvas.narrow else 26), stage, "t strong")
        reached = 0.0
        for fate in present:
            spent = sum(c.device_seconds for c in costs if c.stage == stage and c.fate == fate)
            start, end = x.at(reached / factor), x.at((reached + spent) / factor)
            if spent:
                canvas.rect(start, y + 14, end - start, 16, f"fate {fate}")
            reached += spent
        canvas.text(x.at(reached / factor) + 8, y + 26, duration(totals[stage]), "t")


def _swatch(canvas: Canvas, fate: str, x: float, y: float) -> None:
    canvas.rect(x - 6, y - 5, 12, 10, f"fate {fate}")


def items_in_words(cost: Cost) -> str:
    """Return how many things of which kind a cost covers."""
    nouns = {"sweep": "trial", "exploratory sweep": "trial", "ladder": "proxy run",
             "noise floor": "repeat"}  # fmt: skip
    return count(cost.items, nouns.get(cost.stage, "attempt"))
