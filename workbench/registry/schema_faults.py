"""What a typed model refuses of a YAML file, said in the file's own terms and lines."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from workbench.canonical import Json
from workbench.errors import Fault
from workbench.registry.located import Located, Path, is_step, key_name
from workbench.registry.proposal import PLACEHOLDER

Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T")

_SENTENCES: Mapping[str, str] = {
    "string_type": "must be a text",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "dict_type": "must be a mapping (key: value lines)",
    "model_type": "must be a mapping (key: value lines)",
    "model_attributes_type": "must be a mapping (key: value lines)",
    "list_type": "must be a list ([a, b] or '- ' lines)",
    "tuple_type": "must be a list ([a, b] or '- ' lines)",
    "too_short": "needs at least {min_length}, has {actual_length}",
    "too_long": "allows at most {max_length}, has {actual_length}",
    "literal_error": "must be one of {expected}",
    "union_tag_not_found": "needs the key {discriminator}",
    "union_tag_invalid": "must have as kind one of {expected_tags}",
}
_WITHOUT_VALUE = frozenset({"too_short", "too_long", "union_tag_not_found"})


REMEDY = " -> "
"""Separates what a validator refuses from what to write instead, in its message."""


def validated(
    model: type[Model], document: Located, *, hints: Callable[[], Mapping[str, str]]
) -> tuple[Model | None, tuple[Fault, ...]]:
    """Return the model and no faults, or no model and every fault of the document.

    Args:
        model: What the document must fit.
        document: The YAML with its lines.
        hints: Returns, by dotted key without list positions, what a good answer is; called only
            when something is wrong.
    """
    try:
        value = model.model_validate({} if document.value is None else document.value)
    except ValidationError as error:
        teller = _Teller(model, document, hints())
        return None, (*document.faults, *teller.faults(error.errors(include_url=False)))
    return (None, document.faults) if document.faults else (value, ())


class _Teller:
    """Puts pydantic's errors into words that a person who never saw the model understands."""

    def __init__(self, model: type[BaseModel], document: Located, hints: Mapping[str, str]) -> None:
        self.model = model
        self.document = document
        self.hints = hints

    def faults(self, errors: list[ErrorDetails]) -> list[Fault]:
        told: dict[Path, Fault] = {}
        for error in errors:
            path = self._path(error)
            if self._is_echo(path, error):
                continue
            already = told.get(path)
            if already is None:
                told[path] = self._fault(path, error)
            elif error["type"] != "value_error":
                # Two errors on one path are the two branches of a union: either would do.
                told[path] = self._either(path, already, error)
        return list(told.values())

    def _is_echo(self, path: Path, error: ErrorDetails) -> bool:
        """Return whether a list is called too short only because its items are at fault."""
        value = self.document.get(path)
        enough = error["type"] == "too_short" and isinstance(value, list)
        return enough and len(value) >= error["ctx"]["min_length"]

    def _path(self, error: ErrorDetails) -> Path:
        """Drop what pydantic adds for unions: only keys of the file remain, and a missing one."""
        path: Path = ()
        place: Json = self.document.value
        location = error["loc"]
        for index, step in enumerate(location):
            last = index == len(location) - 1
            if is_step(place, step):
                path, place = (*path, step), place[step]
            elif last and error["type"] == "missing":
                path = (*path, step)
        return path

    def _fault(self, path: Path, error: ErrorDetails) -> Fault:
        if not path:
            # The document itself, or a configuration that the model put together from it.
            inner = ".".join(str(step) for step in error["loc"])
            words = f"{inner} {sentence(error)}" if inner else sentence(error)
            return self.document.fault(path, f"{key_name(path)}: {words}")
        value = self.document.get(path)
        name = key_name(path)
        hint = self.hints.get(dotted_key(path), "")
        if isinstance(value, str) and PLACEHOLDER in value:
            return self.document.fault(path, f"{name} is still to be filled in", hint)
        if error["type"] == "missing":
            return self.document.fault(path[:-1], f"{name} is missing", _add(path, hint))
        if error["type"] == "extra_forbidden":
            return self._unknown(path)
        if value is None and self.document.has(path):
            return self.document.fault(path, f"{name} is empty", hint)
        if isinstance(value, str) and not value.strip():
            return self.document.fault(path, f"{name} is empty", hint)
        if error["type"] == "value_error":
            words, _, remedy = _own_words(error["msg"]).partition(REMEDY)
            return self.document.fault(path, _told_by(path, words), remedy or hint)
        shown = "" if error["type"] in _WITHOUT_VALUE else f", not {_shown(value)}"
        return self.document.fault(path, f"{name} {sentence(error)}{shown}", hint)

    def _either(self, path: Path, first: Fault, error: ErrorDetails) -> Fault:
        if PLACEHOLDER in str(self.document.get(path)) or error["type"] not in _SENTENCES:
            return first
        head, found, tail = first.message.rpartition(", not ")
        words = sentence(error)
        if not found or words in head:
            return first
        return Fault(
            where=first.where, message=f"{head} or {words}, not {tail}", remedy=first.remedy
        )

    def _unknown(self, path: Path) -> Fault:
        *parents, key = path
        place = dotted_key(tuple(parents))
        below = f"{place}." if place else ""
        known = [
            name.removeprefix(below)
            for name in self.hints
            if name.startswith(below) and "." not in name.removeprefix(below)
        ] or [name for name in self.model.model_fields if not parents]
        return self.document.fault(
            path, f"unknown key {key_name(path)!r}", nearest(str(key), known)
        )


def nearest(wrong: str, known: Sequence[str]) -> str:
    """Return the remedy for a name that is none of the known ones."""
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known here: {', '.join(known)}" if known else "remove it"


def dotted_key(path: Path) -> str:
    """Return ``hypotheses.statement`` for ``("hypotheses", 0, "statement")``."""
    return ".".join(str(part) for part in path if not isinstance(part, int))


def _add(path: Path, hint: str) -> str:
    place = key_name(path[:-1]) if len(path) > 1 else "the top level"
    return f"add '{path[-1]}:' under {place}" + (f" ({hint})" if hint else "")


def part(document: Located, path: Path, adapter: TypeAdapter[T]) -> T | None:
    """Return what stands at a path if it alone fits its type, else None.

    So that a fault in one field does not hide what can be said of the others.
    """
    if not document.has(path):
        return None
    try:
        return adapter.validate_python(document.get(path))
    except ValidationError:
        return None


def sentence(error: ErrorDetails) -> str:
    """Return what pydantic's error asks for, as the end of a sentence that begins with the key."""
    if error["type"] == "value_error":
        return f"is refused: {_own_words(error['msg']).partition(REMEDY)[0]}"
    if error["type"] == "string_pattern_mismatch":
        return f"does not have the form {error['ctx']['pattern']}"
    template = _SENTENCES.get(error["type"])
    if template is None:
        return error["msg"][:1].lower() + error["msg"][1:]
    return template.format(**_plain(error.get("ctx", {})))


def _told_by(path: Path, words: str) -> str:
    """Return a validator's sentence with the whole key before it, or in place of its last part."""
    last = str(path[-1])
    if words.startswith(f"{last} "):
        return f"{key_name(path)}{words.removeprefix(last)}"
    return f"{key_name(path)}: {words}"


def _own_words(message: str) -> str:
    return message.removeprefix("Value error, ")


def _plain(context: Mapping[str, Json]) -> dict[str, str]:
    return {key: _trimmed(value) for key, value in context.items()}


def _trimmed(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def comment_hints(text: str) -> dict[str, str]:
    """Return what the comment above each key of a template says, by dotted key; "" without one.

    Commented-out keys (``# key: value`` below an empty list) count as keys, so that a template can
    show an optional field without setting it.
    """
    hints: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        key = _KEY_LINE.match(line)
        if key is None:
            stripped = line.strip()
            comment = [*comment, stripped.lstrip("# ")] if stripped.startswith("#") else []
            continue
        indent = len(key["indent"]) + len(key["inner"] or "") + len(key["dash"] or "")
        parents = [(depth, name) for depth, name in parents if depth < indent]
        parents.append((indent, key["key"]))
        dotted = ".".join(name for _, name in parents)
        hints.setdefault(dotted, " ".join(comment))
        comment = []
    return hints


_KEY_LINE = re.compile(
    r"(?P<indent> *)(?:# (?P<inner> *))?(?P<dash>- )?(?P<key>[a-z][a-z0-9_.]*):(?: .*)?$"
)
