"""One telemetry row a step, twelve fields, as a line of JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from workbench.canonical import Json, parse_json
from workbench.errors import IntegrityError

_MARKS = {"nan": math.nan, "+inf": math.inf, "-inf": -math.inf}
_SMALLEST_FIXED = 1e-3


@dataclass(frozen=True, kw_only=True)
class TelemetryRow:
    """What one optimizer step did. None means not measured, which is never the same as zero."""

    time: float
    """Seconds since 1970 (UTC) at the end of the step."""
    step: int
    """Counts from 1 over all attempts of a run."""
    tokens: int
    """Training tokens seen up to and including this step."""
    loss: float | None = None
    """Cross-entropy of the step's training tokens, nats a token, without auxiliary terms."""
    lr: float | None = None
    """The learning rate that the step used."""
    grad_norm: float | None = None
    """Global gradient norm before clipping."""
    clip_threshold: float | None = None
    router_entropy: float | None = None
    """Entropy of the marginal expert distribution / ln E, mean over layers."""
    max_expert_share: float | None = None
    """Share of the tokens that the busiest expert receives, worst layer: k/E at balance."""
    capacity_utilization: float | None = None
    """Mean load / largest load of the experts, mean over layers."""
    aux_loss: float | None = None
    """The balance loss without its weight λ: 1.0 at balance."""
    step_seconds: float | None = None
    """Wall time of the step."""


FIELDS = tuple(field.name for field in fields(TelemetryRow))
"""The twelve names in the order in which a line holds them."""
_INTEGERS = ("step", "tokens")


def to_line(row: TelemetryRow) -> str:
    """Return the row as one line of JSON with a line end.

    Numbers carry six decimals, below 0.001 in scientific notation, so that a small learning rate
    keeps its digits. Non-finite values are the strings ``nan``, ``+inf``, ``-inf``; fields that
    were not measured are absent.
    """
    values = ((name, getattr(row, name)) for name in FIELDS)
    pairs = (f'"{name}":{_number(value)}' for name, value in values if value is not None)
    return "{" + ",".join(pairs) + "}\n"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return '"nan"' if math.isnan(value) else ('"+inf"' if value > 0 else '"-inf"')
    scientific = f"{value:.6e}"
    # Compared after rounding, so that a line that is read and written again stays the same.
    small = 0 < abs(float(scientific)) < _SMALLEST_FIXED
    return scientific if small else f"{value:.6f}"


def from_line(line: str) -> TelemetryRow:
    """Return the row that a line holds.

    Raises:
        ValueError: not a JSON object, an unknown or missing field, or a value of another type.
    """
    plain = parse_json(line.encode())
    if not isinstance(plain, dict):
        kind = type(plain).__name__
        raise ValueError(f"a telemetry line is a JSON object, not {kind}")  # noqa: TRY004 bad data
    return row_from(plain)


def row_from(plain: Mapping[str, Json]) -> TelemetryRow:
    """Return the row of a plain mapping, as `from_line` reads it.

    Raises:
        ValueError: an unknown or missing field, or a value of another type.
    """
    unknown = sorted(set(plain) - set(FIELDS))
    if unknown:
        raise ValueError(f"{unknown} are not telemetry fields")
    missing = [name for name in ("time", "step", "tokens") if name not in plain]
    if missing:
        raise ValueError(f"{missing} are missing")
    return TelemetryRow(**{name: _value(name, value) for name, value in plain.items()})


def _value(name: str, value: Json) -> Json:
    if isinstance(value, str) and value in _MARKS and name not in _INTEGERS:
        return _MARKS[value]
    wanted = int if name in _INTEGERS else int | float
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise ValueError(f"{name} is {json.dumps(value)}")  # noqa: TRY004 bad data
    return value if name in _INTEGERS else float(value)


def read_rows(path: Path, *, last_bytes: int | None = None) -> Iterator[TelemetryRow]:
    """Yield the rows of a telemetry file.

    A last line without its line end was torn by a kill and is left out: the step it belonged to
    is done again by the next attempt.

    Args:
        path: The file, which may be growing.
        last_bytes: Read only the rows that lie wholly in that many bytes at the end.

    Raises:
        IntegrityError: another line cannot be read.
    """
    with path.open("rb") as file:
        skipped = 0 if last_bytes is None else max(0, path.stat().st_size - last_bytes)
        if skipped:
            file.seek(skipped - 1)
            file.readline()
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield from_line(line.decode())
            except ValueError as error:
                where = f"{number} of its last {last_bytes} bytes" if skipped else number
                raise IntegrityError(
                    f"{path.name}:{where} is not a telemetry row: {error}",
                    remedy="restore the file from a copy, or move it away and resume the run",
                ) from error
