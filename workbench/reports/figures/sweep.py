"""The whole search: every trial by number, and its value against each thing that was varied."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from workbench.canonical import Json, from_decimal
from workbench.proxies.recipe import LogUniform, Recipe
from workbench.registry.entries import Trial
from workbench.reports.facts import Cited, SweepFacts, merged_sources
from workbench.reports.figures.canvas import (
    Axis,
    Canvas,
    Figure,
    figure,
    horizontal_axis,
    legend,
    padded,
    vertical_axis,
)
from workbench.reports.quantities import count, number, unit_of, with_unit

TALL, LOW = 150.0, 104.0
"""Heights of a panel in a wide and in a narrow figure."""
STRIP = 20.0
"""Band above a panel for trials without a value."""
SMALLEST_LOG_RANGE = 20.0
"""Ratio of values above which an axis is logarithmic when no recipe says so."""


@dataclass(frozen=True, kw_only=True)
class _Dot:
    x: float
    value: float | None
    style: str
    """``control``, ``promoted``, ``plain`` or ``none``."""
    hint: str


@dataclass(frozen=True, kw_only=True)
class _Panel:
    title: str
    log: bool
    dots: tuple[_Dot, ...]
    reference: float | None
    """The control's value."""
    whole: bool
    """Whether x counts trials."""


def sweep_scatter(
    sweep: SweepFacts,
    *,
    recipe: Recipe | None,
    control: Cited[float] | None,
    promoted: str,
) -> Figure | None:
    """Return the trials by number and against each varied value.

    Args:
        sweep: The sweep.
        recipe: Tells which values are drawn on a logarithmic axis.
        control: The control point's value in the sweep.
        promoted: Name of the promoted candidate, ``trial-NN``.
    """
    valued = [t for t in sweep.trials if _finite(t.value.value)]
    if not valued:
        return None
    metric = valued[0].value.metric
    panels = _panels(sweep.trials, recipe, control, promoted)
    without = len(sweep.trials) - len(valued)
    caption = f"Every trial of the sweep: {metric} against trial number and each varied value."
    if without:
        caption += f" In the strip above each panel: {count(without, 'trial')} without a value."
    best = min(valued, key=lambda t: t.value.value or math.inf)
    return figure(
        name=f"sweep-{sweep.mode}",
        caption=caption,
        alt=f"{count(len(sweep.trials), 'trial')}; smallest {metric} "
        f"{with_unit(number(best.value.value), metric)} by trial {best.value.number}.",
        sources=merged_sources(sweep.trials),
        draw=partial(_draw, panels=panels, metric=metric),
        height=lambda width: _top(width) + _rows(panels, width) * _pitch(width) + 4,
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _panels(
    trials: Sequence[Cited[Trial]],
    recipe: Recipe | None,
    control: Cited[float] | None,
    promoted: str,
) -> list[_Panel]:
    reference = control.value if control else None
    styles = [_style(trial, control, promoted) for trial in trials]
    keyed = [numeric_leaves(trial.value.params) for trial in trials]
    keys = list(dict.fromkeys(key for leaves in keyed for key in leaves))
    panels = [
        _Panel(
            title="Trial number",
            log=False,
            dots=tuple(
                _dot(trial, float(trial.value.number), style)
                for trial, style in zip(trials, styles, strict=True)
            ),
            reference=reference,
            whole=True,
        )
    ]
    for key in keys:
        found = [
            (trial, leaves[key], style)
            for trial, leaves, style in zip(trials, keyed, styles, strict=True)
            if key in leaves
        ]
        values = [value for _, value, _ in found]
        if len(set(values)) > 1:
            panels.append(
                _Panel(
                    title=key,
                    log=_is_log(key, values, recipe),
                    dots=tuple(_dot(trial, value, style) for trial, value, style in found),
                    reference=reference,
                    whole=False,
                )
            )
    return panels


def numeric_leaves(params: Mapping[str, Json], prefix: str = "") -> dict[str, float]:
    """Return every finite number of a nested fragment under its dotted key."""
    found: dict[str, float] = {}
    for key, value in params.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(numeric_leaves(value, f"{path}."))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[path] = float(value)
        elif isinstance(value, str):
            found.update(_decimal_leaf(path, value))
    return {key: value for key, value in found.items() if math.isfinite(value)}


def _decimal_leaf(path: str, text: str) -> dict[str, float]:
    try:
        return {path: from_decimal(text)}
    except ValueError:
        return {}


def _is_log(key: str, values: Sequence[float], recipe: Recipe | None) -> bool:
    if min(values) <= 0:
        return False
    if recipe is not None and key in recipe.space:
        return isinstance(recipe.space[key], LogUniform)
    return recipe is None and max(values) / min(values) > SMALLEST_LOG_RANGE


def _style(trial: Cited[Trial], control: Cited[float] | None, promoted: str) -> str:
    if not _finite(trial.value.value):
        return "pruned" if trial.value.state == "pruned" else "none"
    if control is not None and trial.leaf == control.leaf:
        return "control"
    suffix = promoted.rpartition("-")[2]
    chosen = suffix.isdigit() and int(suffix) == trial.value.number
    return "promoted" if chosen else "plain"


def _dot(trial: Cited[Trial], x: float, style: str) -> _Dot:
    body = trial.value
    value = body.value if _finite(body.value) else None
    told = f"{body.metric} {number(value)}" if value is not None else body.state
    return _Dot(x=x, value=value, style=style, hint=f"trial {body.number}: {told}")


def _columns(width: int) -> int:
    return 3 if width > 500 else 2


def _panel_height(width: int) -> float:
    return TALL if width > 500 else LOW


def _pitch(width: int) -> float:
    """Return a panel with its strip, axis and title, in pixels."""
    return _panel_height(width) + STRIP + 62


def _top(width: int) -> float:
    """Return the height of the legend, which takes two rows of a narrow figure."""
    return 26 if width > 500 else 46


def _rows(panels: Sequence[_Panel], width: int) -> int:
    """The panel of trial numbers takes two columns."""
    cells = len(panels) + 1
    return math.ceil(cells / _columns(width))


def _draw(canvas: Canvas, *, panels: Sequence[_Panel], metric: str) -> None:
    columns = _columns(canvas.width)
    _draw_legend(canvas, panels)
    values = [d.value for panel in panels for d in panel.dots if d.value is not None]
    references = [p.reference for p in panels if p.reference is not None]
    low, high = padded([*values, *references], 0.08)
    cell = canvas.width / columns
    place = 0
    for panel in panels:
        span = 2 if panel.whole else 1
        row, column = divmod(place, columns)
        left = column * cell + (46 if column == 0 else 34)
        right = (column + span) * cell - 12
        top = _top(canvas.width) + row * _pitch(canvas.width) + 22
        place += span
        _draw_panel(canvas, panel, (low, high), (left, right, top), metric if column == 0 else "")


def _draw_legend(canvas: Canvas, panels: Sequence[_Panel]) -> None:
    styles = {dot.style for panel in panels for dot in panel.dots}
    words = {
        "promoted": "promoted",
        "control": "control",
        "plain": "other completed",
        "pruned": "pruned",
        "none": "failed, diverged or lost",
    }
    items = [
        (text, partial(_mark, canvas, style)) for style, text in words.items() if style in styles
    ]
    legend(canvas, 0, 14, items)


def _mark(canvas: Canvas, style: str, x: float, y: float, hint: str = "") -> None:
    if style == "none":
        canvas.cross(x, y, 3.6, "cross", hint)
    elif style == "pruned":
        canvas.circle(x, y, 3.6, "hollow", hint)
    elif style == "promoted":
        canvas.diamond(x, y, 6, "dot treatment", hint)
    else:
        canvas.circle(x, y, 4, f"dot {style}", hint)


def _draw_panel(
    canvas: Canvas,
    panel: _Panel,
    values: tuple[float, float],
    frame: tuple[float, float, float],
    metric: str,
) -> None:
    left, right, top = frame
    bottom = top + STRIP + _panel_height(canvas.width)
    y = Axis(low=values[0], high=values[1], start=bottom, end=top + STRIP)
    low, high = _x_range(panel)
    x = Axis(low=low, high=high, start=left + 6, end=right - 6, log=panel.log)
    unit = unit_of(metric)
    title = f"{metric}, {unit}" if unit else metric
    vertical_axis(canvas, y, left, right, "", wanted=4)
    if metric:
        canvas.text(0, top - 6, title, "t muted")
    horizontal_axis(canvas, x, bottom + 4, panel.title, wanted=6 if panel.whole else 3)
    if panel.reference is not None:
        at = y.at(panel.reference)
        canvas.line(left, at, right, at, "reference control")
    for dot in panel.dots:
        height = top + 8 if dot.value is None else y.at(dot.value)
        _mark(canvas, dot.style, x.at(dot.x), height, dot.hint)


def _x_range(panel: _Panel) -> tuple[float, float]:
    values = [dot.x for dot in panel.dots]
    if panel.log:
        return min(values) / 1.2, max(values) * 1.2
    if panel.whole:
        return min(values) - 0.5, max(values) + 0.5
    return padded(values)
