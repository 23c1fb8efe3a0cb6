"""Repeats that were made elsewhere, read from a table."""

import csv
import io
import math
from collections.abc import Mapping, Sequence

from workbench.errors import Fault, InvalidFileError
from workbench.registry.entries import Repeat

SEED = "seed"


def read_repeats(text: str, name: str, *, known: Sequence[str], metric: str = "") -> list[Repeat]:
    """Return the repeats of a CSV file: a column ``seed`` and one column a metric.

    A row whose metrics are all empty is a repeat that diverged; so is one with a NaN or infinity.

    Args:
        text: The file's.
        name: The file's, for faults.
        known: Metrics of the recipe's corpus.
        metric: What a column ``value`` holds; empty where every column is named after its metric.

    Raises:
        InvalidFileError: other columns, a value that is no number, a row with some of its values
            missing, or two rows of one seed; all faults at once.
    """
    table = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), skipinitialspace=True)
    header = [cell.strip() for cell in next(table, [])]
    columns = [metric if metric and cell == "value" else cell for cell in header]
    _refuse_columns(columns, name, known, metric)
    repeats: list[Repeat] = []
    faults: list[Fault] = []
    seen: set[str] = set()
    for cells in table:
        if not any(cell.strip() for cell in cells):
            continue
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
        fault = _fault(row, columns, len(cells), seen)
        if fault:
            faults.append(Fault(where=f"{name}:{table.line_num}", message=fault))
            continue
        seen.add(row[SEED])
        repeats.append(_repeat(row))
    if faults:
        raise InvalidFileError(f"{name} cannot be imported", faults)
    return repeats


def _refuse_columns(columns: Sequence[str], name: str, known: Sequence[str], metric: str) -> None:
    metrics = [column for column in columns if column != SEED]
    unknown = sorted(set(metrics) - set(known))
    remedy = f"name the columns in the first line: seed and any of {', '.join(known)}"
    if columns.count(SEED) != 1 or not metrics:
        raise InvalidFileError(f"{name} needs one column seed and one a metric", remedy=remedy)
    if "value" in unknown and not metric:
        remedy = f"say what it holds: --metric {known[0]}"
    if unknown:
        raise InvalidFileError(
            f"{name} has columns that are no metrics of this recipe: {', '.join(unknown)}",
            remedy=remedy,
        )
    if len(set(columns)) < len(columns):
        raise InvalidFileError(f"{name} has a metric in two columns", remedy=remedy)


def _fault(row: Mapping[str, str], columns: Sequence[str], num_cells: int, seen: set[str]) -> str:
    if num_cells != len(columns):
        return f"{num_cells} cells under {len(columns)} columns"
    seed = row[SEED]
    if not seed:
        return "a repeat without a seed"
    if seed in seen:
        return f"a second repeat of seed {seed}"
    cells = [row[column] for column in columns if column != SEED]
    if any(cells) and not all(cells):
        return f"seed {seed} has only some of its values (leave all empty where it diverged)"
    for cell in filter(None, cells):
        try:
            float(cell)
        except ValueError:
            return f"value {cell!r} is not a number"
    return ""


def _repeat(row: Mapping[str, str]) -> Repeat:
    values = {key: float(cell) for key, cell in row.items() if key != SEED and cell}
    if not values:
        return Repeat(seed=row[SEED], state="diverged", reason="no value")
    wild = [f"{key} is {value}" for key, value in values.items() if not math.isfinite(value)]
    if wild:
        return Repeat(seed=row[SEED], state="diverged", reason="; ".join(wild))
    return Repeat(seed=row[SEED], state="completed", values=values)
