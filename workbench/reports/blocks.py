"""What a chronicle is made of, before anybody decides on HTML or Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from workbench.reports.facts import Source
from workbench.reports.figures.canvas import Figure
from workbench.reports.narrative import Clause, Line
from workbench.reports.timeline import Event


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Clauses set as running text."""

    type: ClassVar[str] = "paragraph"
    clauses: tuple[Clause, ...]
    quiet: bool = False
    """A remark rather than a statement."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Labelled sentences."""

    type: ClassVar[str] = "lines"
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A table's row with the entries that it was read from."""

    cells: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    tone: str = ""
    """``strong``, ``muted`` or ``grave``."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under columns; a last column with the citations is added when any row has one."""

    type: ClassVar[str] = "table"
    caption: str
    columns: tuple[str, ...]
    numeric: frozenset[int]
    """Columns that are set flush right."""
    rows: tuple[Row, ...]

    @property
    def cited(self) -> bool:
        """Whether any row has a source."""
        return any(row.sources for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The entries that the citations lead to: time, kind and actor a row."""

    type: ClassVar[str] = "entries"
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure."""

    type: ClassVar[str] = "picture"
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Markdown written by the proposers, not by us."""

    type: ClassVar[str] = "prose"
    markdown: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Logbook:
    """The timeline."""

    type: ClassVar[str] = "logbook"
    events: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Card:
    """One decision, deviation or incident."""

    type: ClassVar[str] = "card"
    title: str
    label: str
    """A word or two above the title."""
    lines: tuple[Line, ...]
    excerpt: str
    """Raw text, set verbatim; empty when there is none."""
    time: str
    actor: str
    sources: tuple[Source, ...]
    grave: bool = False


@dataclass(frozen=True, kw_only=True)
class Tally:
    """A few counts set large."""

    type: ClassVar[str] = "tally"
    items: tuple[tuple[str, str, tuple[Source, ...]], ...]
    """Value, label, sources."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Begins a part of a section."""

    type: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A block that is closed on screen until asked for, and open in print."""

    type: ClassVar[str] = "folded"
    summary: str
    block: "Table | Entries | Prose"


@dataclass(frozen=True, kw_only=True)
class Verbatim:
    """Text that must be kept to the byte."""

    type: ClassVar[str] = "verbatim"
    text: str


Block: TypeAlias = (
    Paragraph
    | Lines
    | Table
    | Entries
    | Picture
    | Prose
    | Logbook
    | Card
    | Tally
    | Heading
    | Folded
    | Verbatim
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled part of a chronicle."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


def section(anchor: str, title: str, blocks: Sequence[Block | None]) -> Section:
    """Return a section of the blocks that there are."""
    found = tuple(block for block in blocks if block is not None)
    return Section(anchor=anchor, title=title, blocks=found)


def say(text: str, sources: Sequence[Source] = (), *, quiet: bool = False) -> Paragraph:
    """Return a paragraph of one clause."""
    return Paragraph(clauses=(Clause(text=text, sources=tuple(sources)),), quiet=quiet)


def lines(*found: Line) -> Lines | None:
    """Return labelled sentences; nothing when there are none."""
    return Lines(lines=found) if found else None


def picture(figure: Figure | None) -> Picture | None:
    """Return a figure as a block."""
    return Picture(figure=figure) if figure else None


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Row], *, numeric: Sequence[int] = ()
) -> Table | None:
    """Return a table; nothing when it has no row."""
    if not rows:
        return None
    return Table(
        caption=caption, columns=tuple(columns), numeric=frozenset(numeric), rows=tuple(rows)
    )
