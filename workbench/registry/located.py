"""YAML 1.2 with the line of every key, so that a fault can say where it is.

A strict subset of the core schema: one document, plain data only. Duplicate keys, aliases, merge
keys, tags, non-finite numbers and control characters are refused, because each lets a file mean
something else than a reader sees.
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from workbench.canonical import Json
from workbench.errors import Fault, InvalidFileError

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the document's root."""

MAX_BYTES = 1_000_000
"""A file above this is no proposal or recipe; parsing it would only cost time."""

REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates: with them a line reads as another one than it is."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    _TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp")
)
# YAML 1.2.2 section 10.3.2, core schema
_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
# Python refuses to read integers of thousands of digits; nothing here needs more than 40.
_INT = re.compile(r"[-+]?[0-9]{1,40}\Z")
_BASED = re.compile(r"0o[0-7]{1,40}\Z|0x[0-9a-fA-F]{1,40}\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NON_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")


@dataclass(frozen=True, kw_only=True)
class Located:
    """A YAML document as plain values, with the line of each key."""

    where: str
    """The file, as faults name it."""
    value: Json
    lines: Mapping[Path, int]
    """1-based line in the file of each key and list item."""
    faults: tuple[Fault, ...]
    """What the YAML itself breaks: duplicate keys and the like. The value is then a best effort."""

    def line(self, path: Path) -> int:
        """Return the line of the path or of its nearest ancestor that has one."""
        for length in range(len(path), -1, -1):
            found = self.lines.get(path[:length])
            if found is not None:
                return found
        return 1

    def at(self, path: Path) -> str:
        """Return ``file:line`` of the path."""
        return f"{self.where}:{self.line(path)}"

    def fault(self, path: Path, message: str, remedy: str = "") -> Fault:
        """Return a fault at the path's line."""
        return Fault(where=self.at(path), message=message, remedy=remedy)

    def get(self, path: Path) -> Json:
        """Return the value at the path, or None where the path leads nowhere."""
        place: Json = self.value
        for step in path:
            if not is_step(place, step):
                return None
            place = place[step]
        return place

    def has(self, path: Path) -> bool:
        """Return whether the file itself holds the path."""
        return path in self.lines

    def texts(self) -> Iterator[tuple[Path, str]]:
        """Yield every string value with its path, in the order of the file."""
        for path in sorted(self.lines, key=lambda path: self.lines[path]):
            value = self.get(path)
            if isinstance(value, str):
                yield path, value


def is_step(place: Json, step: str | int) -> bool:
    """Return whether the step is a key of the mapping or a position in the list."""
    if isinstance(place, list):
        return isinstance(step, int) and 0 <= step < len(place)
    return isinstance(place, Mapping) and step in place


def key_name(path: Path) -> str:
    """Return ``design.scales[0]`` for ``("design", "scales", 0)``."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name or "the document"


def decode(data: bytes, where: str) -> str:
    """Return the file's text, exactly as it will be frozen.

    Raises:
        InvalidFileError: the bytes are too many, not UTF-8, or not in the normal form in which the
            ledger keeps text (then the ledger's copy would differ from the file).
    """
    if len(data) > MAX_BYTES:
        raise _one(where, f"{len(data):,} bytes are more than the {MAX_BYTES:,} allowed")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise _one(f"{where}:{line}", found, "save the file as UTF-8") from error
    if text.startswith("\ufeff"):
        raise _one(f"{where}:1", "begins with a byte-order mark", "save as UTF-8 without BOM")
    for number, line_text in enumerate(text.split("\n"), start=1):
        if not unicodedata.is_normalized("NFC", line_text):
            message = f"{line_text.strip()[:60]!r} is not in Unicode normal form C"
            raise _one(f"{where}:{number}", message, "retype the accented letters on this line")
        if REORDERING.search(line_text):
            message = f"holds a sign that reorders text: {line_text.strip()[:60]!a}"
            raise _one(f"{where}:{number}", message, "remove it")
    return text


def read_yaml(text: str, where: str, *, first_line: int = 1) -> Located:
    """Return the document with the line of every key.

    ``first_line`` is the line of its file at which the text begins.

    Raises:
        InvalidFileError: the text is not YAML, so that nothing else can be said about it.
    """
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark else 0)
        what = " ".join(str(error.problem or error.context or error).split())
        remedy = "quote a text that holds ': ' or ' #', and indent with spaces"
        raise _one(f"{where}:{line}", f"is not valid YAML: {what}", remedy) from error
    except (YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())[:200]
        raise _one(f"{where}:{first_line}", f"is not valid YAML: {detail}") from error
    reader = _Reader(where, first_line)
    value = None if root is None else reader.read(root, ())
    return Located(where=where, value=value, lines=reader.lines, faults=tuple(reader.faults))


def _one(where: str, message: str, remedy: str = "") -> InvalidFileError:
    file = where.partition(":")[0]
    fault = Fault(where=where, message=message, remedy=remedy)
    return InvalidFileError(f"{file} cannot be read", [fault])


class _Reader:
    """Turns the composed nodes into plain values, noting lines and faults on the way."""

    def __init__(self, where: str, first_line: int) -> None:
        self.where = where
        self.first_line = first_line
        self.lines: dict[Path, int] = {}
        self.faults: list[Fault] = []
        self._seen: set[int] = set()

    def read(self, node: Node, path: Path) -> Json:
        if id(node) in self._seen:
            # The composer returns the anchor's node for every alias, with the anchor's line.
            line = self.lines.get(path) or self.lines[path[:-1]]
            message = f"{key_name(path)} uses a YAML alias"
            self._add(line, message, "write the value out")
            return None
        self.lines.setdefault(path, self._line(node))
        self._seen.add(id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            self._check_tag(node, path, {_TAG + "seq"})
            return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path) if isinstance(node, ScalarNode) else None

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Json]:
        self._check_tag(node, path, {_TAG + "map"})
        result: dict[str, Json] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in result:
                message = f"duplicate key {key_name(here)!r} (first on line {self.lines[here]})"
                self._refuse(key_node, here, message, "keep one of the two", named=False)
                continue
            self.lines[here] = self._line(key_node)
            result[key] = self.read(value_node, here)
        return result

    def _key(self, node: Node, path: Path) -> str | None:
        if not isinstance(node, ScalarNode):
            self._refuse(node, path, "has a key that is no plain text", "use a word as the key")
            return None
        if node.tag == _TAG + "merge":
            self._refuse(node, path, "uses a YAML merge key '<<'", "write the keys out")
            return None
        return str(node.value)

    def _scalar(self, node: ScalarNode, path: Path) -> Json:
        self._check_tag(node, path, _PLAIN_TAGS)
        text = str(node.value)
        if any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text):
            self._refuse(node, path, f"holds a control character: {text[:60]!r}", "remove it")
            return None
        if node.tag == _TAG + "str" or node.style in ("'", '"', "|", ">"):
            return text
        value = plain_scalar(text)
        if _NON_FINITE.match(text) or (isinstance(value, float) and not math.isfinite(value)):
            self._refuse(node, path, f"is {text[:60]}", "give a finite number")
            return None
        return value

    def _check_tag(self, node: Node, path: Path, allowed: set[str] | frozenset[str]) -> None:
        if node.tag not in allowed:
            self._refuse(node, path, f"has the tag {node.tag!r}", "remove the tag")

    def _refuse(
        self, node: Node, path: Path, message: str, remedy: str, *, named: bool = True
    ) -> None:
        text = f"{key_name(path)} {message}" if named else message
        self._add(self._line(node), text, remedy)

    def _add(self, line: int, message: str, remedy: str) -> None:
        fault = Fault(where=f"{self.where}:{line}", message=message, remedy=remedy)
        self.faults.append(fault)

    def _line(self, node: Node) -> int:
        return self.first_line + int(node.start_mark.line)


def plain_scalar(text: str) -> Json:
    """Return an unquoted scalar's value in the core schema: ``yes``, dates and 1_000 are text."""
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text)
    if _BASED.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    return text


def in_file_order(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Return the faults without repeats, by file in order of first mention, then by line."""
    files: dict[str, int] = {}
    for fault in faults:
        files.setdefault(fault.where.partition(":")[0], len(files))

    def place(fault: Fault) -> tuple[int, int]:
        file, _, line = fault.where.partition(":")
        return files[file], int(line) if line.isdigit() else 0

    return tuple(sorted(dict.fromkeys(faults), key=place))
