"""Rows of JSON lines, plain or compressed with gzip or zstd, read one line at a time.

Each row is judged by itself: neither a column that nobody asked for nor another row's types decide
what a value is (docs/decisions/0019-reading-json-lines.md).
"""

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow

from workbench.errors import InvalidFileError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_BOM = b"\xef\xbb\xbf"
_REPAIR = "repair the line, or remove it"


def json_rows(path: Path, *, name: str) -> Iterator[dict[str, Any]]:
    """Yield the object of each line, in order; blank lines are no rows.

    The first bytes say whether the file is compressed, whatever its name ends in.

    Args:
        path: the file.
        name: what refusals call it.

    Raises:
        InvalidFileError: a line that is no JSON object in UTF-8, or a file that breaks off.
    """
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                data = line.removeprefix(_BOM) if number == 1 else line
                if not data.isspace() and data:
                    yield _row(data, f"{name}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidFileError(
            f"{name} cannot be read beyond line {number}: {error}",
            remedy="fetch or compress the file again",
        ) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    with path.open("rb") as file:
        first = file.read(len(_ZSTD))
        file.seek(0)
        if first == _ZSTD:
            with pyarrow.CompressedInputStream(file, "zstd") as stream:
                yield io.BufferedReader(stream, buffer_size=1 << 20)
        elif first.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
        else:
            yield file


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        # Numbers are never asked for; as floats they have no limit of digits.
        row = json.loads(line.decode("utf-8"), parse_int=float)
    except RecursionError as error:
        raise InvalidFileError(f"{where} is nested too deep", remedy=_REPAIR) from error
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError
        remedy = _REPAIR
        if where.endswith(":1") and line[:1] in b"[{":
            remedy = "write one object a line: jq -c '.[]' LIST.json > LINES.jsonl"
        raise InvalidFileError(f"{where} is no JSON: {_reason(error)}", remedy=remedy) from error
    if isinstance(row, dict):
        return row
    raise InvalidFileError(
        f"{where} holds a JSON {_json_name(row)}, not an object",
        remedy="write one object a line: jq -c '.[]' LIST.json > LINES.jsonl"
        if isinstance(row, list)
        else _REPAIR,
    )


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return str(error)


def _json_name(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
