"""What commands print with: results on stdout, progress on stderr.

Rich is imported where it is used, so that ``--help`` starts in a blink.
"""

import json
import math
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.progress import Progress

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing: escape sequences, and signs that reorder a line."""


def shown(text: str) -> str:
    """Return the text with such characters spelt out: a log may be somebody else's."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Return the text as one line, so that none of it can pass for a line of its own."""
    return shown(text.replace("\n", "\\n"))


def say(text: str = "", *, bold: bool = False, dim: bool = False) -> None:
    """Print one line of a result."""
    typer.secho(shown(text), bold=bold or None, dim=dim or None)


def say_wrapped(line: str) -> None:
    """Print a line of a report, on a terminal folded under where its text begins.

    Elsewhere it stays one line, which other programs search.
    """
    if not sys.stdout.isatty():
        say(line)
        return
    begins = re.match(r"\s*\S+(?:\s\S+){0,2}\s{2,}|\s*", line)
    indent = min(begins.end() if begins else 0, 20)
    width = max(40, shutil.get_terminal_size().columns)
    for part in textwrap.wrap(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    ) or [""]:
        say(part)


def print_json(value: Any) -> None:
    """Print a value as strict JSON; a non-finite number becomes null (case B10).

    In ASCII: a text may hold signs that a terminal obeys or that end a line for some programs.
    """
    typer.echo(json.dumps(_strict(value), allow_nan=False, indent=2))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def say_labelled(label: str, text: str) -> None:
    """Print a label and, beside it, a text folded at 80 columns but never inside a word."""
    for line in textwrap.wrap(
        text or "-", 80, initial_indent=f"  {label:<11}", subsequent_indent=" " * 13,
        break_long_words=False, break_on_hyphens=False,
    ):  # fmt: skip
        say(line)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without boxes, which reads well at 80 columns and in a log.

    Args:
        headings: One a column.
        rows: Cells of each line.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        # As text, never as markup: a title may hold brackets.
        table.add_row(*(Text(shown(cell)) for cell in row))
    console.print(table)


def confirm(question: str, *, remedy: str, as_json: bool = False) -> None:
    """Ask on a terminal, and end the command when the answer is no.

    Args:
        question: In a word or two.
        remedy: What to type where nobody can answer.
        as_json: Whether stdout is for another program, which cannot be asked.

    Raises:
        ConflictError: there is no terminal to ask on.
    """
    if as_json or not sys.stdin.isatty():
        raise ConflictError(
            "this asks before it writes, and here nobody can answer; nothing was written",
            remedy=remedy,
        )
    if not typer.confirm(question, default=False):
        say("Nothing was written.")
        raise typer.Exit(1)


def read_text(path: Path) -> str:
    """Return the text of a file that the user named.

    Raises:
        InvalidFileError: it cannot be read as UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path} cannot be read: {error}") from error


@contextmanager
def live_progress() -> Iterator[Progress]:
    """Show one bar a task on stderr; where that is no terminal, a line for each that ended."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Display

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines(time.monotonic())
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", style="dim"),
    )
    with Display(*columns, console=console, transient=True) as display:
        tasks: dict[str, TaskID] = {}

        def report(
            task: str, done: float, total: float, detail: str = "", *, ended: bool = False
        ) -> None:
            del ended
            if task not in tasks:
                tasks[task] = display.add_task(escape(task), total=total, detail="")
            display.update(tasks[task], completed=done, total=total, detail=escape(detail))

        yield report


def _lines(began: float) -> Progress:
    """Return what writes a line on stderr for every trial, re-run and run that ended."""

    def report(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if ended:
            took = seconds(time.monotonic() - began)
            typer.echo(f"{task} {done:g}/{total:g}  {detail}  ({took})", err=True)

    return report


def seconds(value: float) -> str:
    """Return a duration as a person would say it."""
    if value < 90:
        return f"{value:.1f} s"
    if value < 5400:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"
