"""A sheet to draw on, axes with round ticks, and the two widths of every figure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from workbench.reports.facts import Source
from workbench.reports.quantities import MINUS, power_of_ten, scaled, significant

WIDE, NARROW = 760, 344
"""Widths in CSS pixels: a figure is drawn twice, so that its lettering never shrinks."""
LETTER = 6.3
"""Estimated mean width of a letter at the figures' 12 px, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with what it says in words and the entries that it was drawn from."""

    name: str
    """A slug, unique within a chronicle."""
    caption: str
    alt: str
    """What a reader who cannot see it needs to know."""
    wide: str
    narrow: str
    sources: tuple[Source, ...]


def figure(
    *,
    name: str,
    caption: str,
    alt: str,
    sources: Sequence[Source],
    draw: Callable[["Canvas"], None],
    height: Callable[[int], float],
) -> Figure:
    """Return the figure at both widths; ``draw`` is called once for each."""
    drawn = []
    for width in (WIDE, NARROW):
        canvas = Canvas(width=width, height=height(width), alt=alt)
        draw(canvas)
        drawn.append(canvas.svg())
    wide, narrow = drawn
    return Figure(
        name=name, caption=caption, alt=alt, wide=wide, narrow=narrow, sources=tuple(sources)
    )


def coordinate(value: float) -> str:
    """Return a pixel position with at most one decimal."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


@dataclass(kw_only=True)
class Canvas:
    """Collects SVG elements; the y axis points down, as on screen."""

    width: int
    height: float
    alt: str
    _parts: list[str] = field(default_factory=list)

    @property
    def narrow(self) -> bool:
        """Whether this is the drawing for small screens."""
        return self.width < 500

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a straight line; styles are class names of the figures' style sheet."""
        ends = zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
        placed = " ".join(f'{name}="{coordinate(value)}"' for name, value in ends)
        self._parts.append(f'<line {placed} class="{style}"/>')

    def path(self, points: Sequence[tuple[float, float]], style: str, clip: str = "") -> None:
        """Draw a polyline."""
        if not points:
            return
        places = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in points)
        clipped = f' clip-path="url(#{clip})"' if clip else ""
        self._parts.append(f'<polyline points="{places}" class="{style}"{clipped}/>')

    def area(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a filled polygon."""
        places = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in points)
        self._parts.append(f'<polygon points="{places}" class="{style}"/>')

    def rect(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """Draw a rectangle."""
        sides = zip(("x", "y", "width", "height"), (x, y, max(0.0, width), height), strict=True)
        placed = " ".join(f'{name}="{coordinate(value)}"' for name, value in sides)
        self._parts.append(f'<rect {placed} class="{style}"/>')

    def circle(self, x: float, y: float, radius: float, style: str, hint: str = "") -> None:
        """Draw a circle, with a tooltip if there is a hint."""
        inside = f"><title>{escape(hint)}</title></circle>" if hint else "/>"
        at = f'cx="{coordinate(x)}" cy="{coordinate(y)}" r="{coordinate(radius)}"'
        self._parts.append(f'<circle {at} class="{style}"{inside}')

    def cross(self, x: float, y: float, size: float, style: str, hint: str = "") -> None:
        """Draw an ×."""
        low, high = (coordinate(x - size), coordinate(y - size)), (x + size, y + size)
        right, bottom = coordinate(high[0]), coordinate(high[1])
        shape = f"M{low[0]} {low[1]}L{right} {bottom}M{low[0]} {bottom}L{right} {low[1]}"
        inside = f"><title>{escape(hint)}</title></path>" if hint else "/>"
        self._parts.append(f'<path d="{shape}" class="{style}"{inside}')

    def diamond(self, x: float, y: float, size: float, style: str, hint: str = "") -> None:
        """Draw a diamond."""
        corners = [(x, y - size), (x + size, y), (x, y + size), (x - size, y)]
        places = " ".join(f"{coordinate(a)},{coordinate(b)}" for a, b in corners)
        inside = f"><title>{escape(hint)}</title></polygon>" if hint else "/>"
        self._parts.append(f'<polygon points="{places}" class="{style}"{inside}')

    def text(
        self, x: float, y: float, words: str, style: str = "t", *, anchor: str = "start"
    ) -> None:
        """Write words with their baseline at y."""
        placed = f'x="{coordinate(x)}" y="{coordinate(y)}"'
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text {placed}{end} class="{style}">{escape(words)}</text>')

    def clip(self, name: str, x: float, y: float, width: float, height: float) -> str:
        """Define a clipping rectangle and return its identifier."""
        identifier = f"{name}-{self.width}"
        inside = (
            f'<rect x="{coordinate(x)}" y="{coordinate(y)}" '
            f'width="{coordinate(width)}" height="{coordinate(height)}"/>'
        )
        self._parts.append(f'<clipPath id="{identifier}">{inside}</clipPath>')
        return identifier

    def svg(self) -> str:
        """Return the drawing as an ``svg`` element."""
        height = coordinate(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" '
            f'width="{self.width}" height="{height}" role="img" '
            f'aria-label="{escape(self.alt, quote=True)}">{"".join(self._parts)}</svg>'
        )


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Maps values to pixels; ``start`` and ``end`` are the pixels of ``low`` and ``high``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, place = self.low, self.high, value
        if self.log:
            low, high, place = math.log10(low), math.log10(high), math.log10(value)
        share = (place - low) / (high - low) if high != low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Return round values within the axis, about as many as wanted."""
        if self.log:
            return log_ticks(self.low, self.high)
        found = ticks(self.low, self.high, wanted)
        return found if len(found) > 2 else ticks(self.low, self.high, 2 * wanted)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between low and high."""
    if high <= low:
        return [low]
    rough = (high - low) / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten, with multiples when few fit, or round values of a narrow range."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for multiples in ((1,), (1, 3), (1, 2, 5)):
        found = [m * 10.0**e for e in exponents for m in multiples]
        inside = [value for value in found if low * 0.999 <= value <= high * 1.001]
        if len(inside) >= 3:
            return inside
    return inside if len(inside) > 1 else ticks(low, high, 4)


def tick_labels(values: Sequence[float]) -> list[str]:
    """Return the ticks with as many decimals as tell neighbours apart."""
    if not values:
        return []
    step = min((b - a for a, b in pairwise(values)), default=abs(values[0]))
    if max(abs(value) for value in values) >= 10_000:
        return [scaled(value) if value else "0" for value in values]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 2
    return [f"{value + 0.0:.{decimals}f}".replace("-", MINUS) for value in values]


def log_labels(values: Sequence[float]) -> list[str]:
    """Return the ticks of a logarithmic axis."""
    return [
        significant(value, 2) if 1e-3 <= value < 1e5 else power_of_ten(value, 1) for value in values
    ]


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Return the range of the values, a little wider; never empty."""
    low, high = min(values), max(values)
    margin = (high - low) * share or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def horizontal_axis(
    canvas: Canvas, axis: Axis, y: float, title: str, *, wanted: int = 6, top: float | None = None
) -> None:
    """Draw ticks and their labels below y, the title below those; grid lines up to ``top``."""
    values = axis.ticks(wanted)
    labels = log_labels(values) if axis.log else tick_labels(values)
    canvas.line(min(axis.start, axis.end), y, max(axis.start, axis.end), y, "axis")
    for value, label in zip(values, labels, strict=True):
        x = axis.at(value)
        if top is not None:
            canvas.line(x, top, x, y, "grid")
        canvas.line(x, y, x, y + 4, "axis")
        canvas.text(x, y + 17, label, "t tick", anchor="middle")
    if title:
        canvas.text((axis.start + axis.end) / 2, y + 34, title, "t muted", anchor="middle")


def vertical_axis(
    canvas: Canvas, axis: Axis, left: float, right: float, title: str, *, wanted: int = 5
) -> None:
    """Draw grid lines with labels on the left, and the title above the axis."""
    values = axis.ticks(wanted)
    labels = log_labels(values) if axis.log else tick_labels(values)
    for value, label in zip(values, labels, strict=True):
        y = axis.at(value)
        canvas.line(left, y, right, y, "grid")
        canvas.text(left - 7, y + 4, label, "t tick", anchor="end")
    if title:
        canvas.text(0, axis.end - 12, title, "t muted")


def spread_labels(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near the wanted ones that are at least ``gap`` apart, in the same order."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    placed = list(places)
    for previous, index in pairwise(order):
        placed[index] = max(placed[index], placed[previous] + gap)
    if order and placed[order[-1]] > high:
        placed[order[-1]] = high
        for following, index in pairwise(reversed(order)):
            placed[index] = min(placed[index], placed[following] - gap)
    return [max(low, place) for place in placed]


def legend(
    canvas: Canvas, x: float, y: float, items: Sequence[tuple[str, Callable[[float, float], None]]]
) -> None:
    """Write a row of marks with words, wrapping at the canvas' edge."""
    for place_x, place_y, words, mark in _flow(canvas, x, y, items):
        mark(place_x + 7, place_y - 4)
        canvas.text(place_x + 18, place_y, words, "t")


def _flow(
    canvas: Canvas, x: float, y: float, items: Sequence[tuple[str, Callable[[float, float], None]]]
) -> Iterator[tuple[float, float, str, Callable[[float, float], None]]]:
    at_x, at_y = x, y
    for words, mark in items:
        needed = 18 + len(words) * LETTER
        if at_x > x and at_x + needed > canvas.width:
            at_x, at_y = x, at_y + 18
        yield at_x, at_y, words, mark
        at_x += needed + 16
