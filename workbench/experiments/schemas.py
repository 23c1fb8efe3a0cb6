"""JSON Schema of the files that people write and of the bodies that the ledger keeps.

Made from the models that read them, so that an editor completes and marks what the checks will
accept or refuse. What shows only between two fields or two files is `workbench check`'s to say.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from workbench.canonical import Json
from workbench.errors import ConflictError, NotFoundError
from workbench.layout import Layout
from workbench.proxies.recipe import FullScale, Recipe
from workbench.registry.entries import BODIES
from workbench.registry.files import write_atomic
from workbench.registry.frontmatter import proposal_hints
from workbench.registry.proposal import Proposal
from workbench.registry.proposal_versions import NEWEST, VERSIONS, Place, later_than
from workbench.registry.schema_faults import comment_hints
from workbench.scaffold.forms import blank_form, full_text
from workbench.scaffold.lab import DEFAULT_RECIPE, template

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = ".schema"
"""Below experiments/ and proxies/: where the first line of the scaffolded files points to."""

DOCUMENTS: Mapping[str, str] = {
    "proposal": "front matter of experiments/NNNN-slug/proposal.md",
    "recipe": "proxies/NAME.yaml",
    "full": "experiments/NNNN-slug/full.yaml",
}
_OLDER = [f"proposal@{version}" for version in VERSIONS if version != NEWEST]


def listed() -> list[str]:
    """Return what `schema_of` knows, a command a line."""
    lines = [f"  workbench schema {name:<10} {where}" for name, where in DOCUMENTS.items()]
    older = ", ".join(_OLDER)
    kinds = textwrap.wrap(", ".join(BODIES), 74, initial_indent="    ", subsequent_indent="    ")
    return [
        *lines,
        f"  workbench schema {older:<10} an older version of the form",
        "  workbench schema entry KIND  body of a ledger entry, of the kind",
        *kinds,
    ]


def schema_of(document: str, kind: str = "") -> dict[str, Json]:
    """Return the schema of a document, or with ``entry`` that of a kind of entry.

    Raises:
        NotFoundError: there is no such document or kind.
        ConflictError: a kind without ``entry``, or ``entry`` without one.
    """
    if (document == "entry") != bool(kind):
        raise ConflictError(
            f"{document} has no kinds, and {kind!r} is one"
            if kind
            else "workbench schema entry needs the kind of entry",
            remedy=f"workbench schema entry {kind or 'registration'}, or workbench schema "
            "alone, which lists them",
        )
    return entry_schema(kind) if document == "entry" else document_schema(document)


def document_schema(name: str) -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a file that people write.

    Args:
        name: ``proposal`` (also ``proposal@v1``, an older version of the form), ``recipe`` or
            ``full``.

    Raises:
        NotFoundError: there is no such document.
    """
    if name == "proposal":
        return _schema(Proposal, f"proposal:{NEWEST}", proposal_hints())
    if name in _OLDER:
        return _older_proposal(name.partition("@")[2])
    if name == "recipe":
        return _schema(Recipe, "recipe", comment_hints(template(DEFAULT_RECIPE)))
    if name == "full":
        return _schema(FullScale, "full", comment_hints(full_text(blank_form())))
    known = ", ".join([*DOCUMENTS, *_OLDER, "entry KIND"])
    raise NotFoundError(f"no document {name!r} (known: {known})", remedy="workbench schema")


def entry_schema(kind: str) -> dict[str, Json]:
    """Return the JSON Schema of an entry's body as the ledger keeps it: no nulls, no floats.

    Raises:
        NotFoundError: there is no such kind.
    """
    model = BODIES.get(kind)
    if model is None:
        raise NotFoundError(
            f"no kind of entry {kind!r} (known: {', '.join(BODIES)})",
            remedy="workbench schema entry registration",
        )
    found: dict[str, Json] = _without_nulls(_schema(model, f"entry:{kind}", {}))
    return found


def schema_text(schema: Mapping[str, Json]) -> str:
    """Return the file of a schema."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def write_editor_schemas(layout: Layout) -> list[Path]:
    """Write the schemas that the scaffolded files name on their first line; return what changed."""
    places = {
        layout.experiments / FOLDER / "proposal.json": "proposal",
        layout.experiments / FOLDER / "full.json": "full",
        layout.proxies / FOLDER / "recipe.json": "recipe",
    }
    changed: list[Path] = []
    for path, name in places.items():
        data = schema_text(document_schema(name)).encode()
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            changed.append(path)
    return changed


def _schema(model: type[BaseModel], name: str, hints: Mapping[str, str]) -> dict[str, Json]:
    made = model.model_json_schema()
    _describe(made, model, "", hints)
    for path, below in _models(model, ""):
        part = made.get("$defs", {}).get(below.__name__)
        if part is not None:
            _describe(part, below, path, hints)
    return {"$schema": DIALECT, "$id": f"urn:workbench:schema:{name}", **made}


def _describe(
    part: dict[str, Json], model: type[BaseModel], path: str, hints: Mapping[str, str]
) -> None:
    """Say in a schema what its model and each field mean; the first place of a model counts."""
    summary = inspect.cleandoc(model.__doc__ or "").partition("\n")[0]
    part["description"] = _markdown(summary)
    told = _field_docs(model)
    for field, schema in part.get("properties", {}).items():
        schema.pop("title", None)
        words = hints.get(f"{path}{field}") or told.get(field, "")
        if words and not schema.get("description"):
            schema["description"] = _markdown(words)


def _models(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each model below a model with the dotted key of its place."""
    yield prefix, model
    for name, field in model.model_fields.items():
        for part in _annotated(field.annotation):
            yield from _models(part, f"{prefix}{name}.")


def _annotated(annotation: Json) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _annotated(part)


@cache
def _field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstring below each field, also of the fields that it inherits."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not (issubclass(owner, BaseModel) and owner.model_fields):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, after in pairwise(body):
            name = field.target if isinstance(field, ast.AnnAssign) else None
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(name, ast.Name) and isinstance(text, ast.Constant):
                found[name.id] = " ".join(str(text.value).split())
    return found


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _older_proposal(version: str) -> dict[str, Json]:
    """Return the newest schema without the keys and the texts that came after a version."""
    made = document_schema("proposal")
    for name in later_than(version):
        for place in VERSIONS[name].new:
            _remove(made, made, place)
        for place, pattern in VERSIONS[name].narrower_before.items():
            _narrow(made, made, place, pattern)
    made["properties"]["proposal"]["const"] = version
    return {**made, "$id": f"urn:workbench:schema:proposal:{version}"}


def _remove(root: dict[str, Json], part: dict[str, Json], place: Place) -> None:
    first, rest = place[0], place[1:]
    target = _resolved(root, part)
    if first == "*":
        _remove(root, target["items"], rest)
    elif rest:
        _remove(root, target["properties"][first], rest)
    else:
        target["properties"].pop(first)
        if first in target.get("required", []):
            target["required"].remove(first)


def _narrow(root: dict[str, Json], part: dict[str, Json], place: Place, pattern: str) -> None:
    target = _resolved(root, part)["properties"][place[0]]
    if place[1:]:
        _narrow(root, target, place[1:], pattern)
    else:
        target.pop("enum", None)
        target["pattern"] = pattern


def _resolved(root: dict[str, Json], part: dict[str, Json]) -> dict[str, Json]:
    name = part.get("$ref", "").rpartition("/")[2]
    found: dict[str, Json] = root["$defs"][name] if name else part
    return found


def _without_nulls(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_nulls(item) for key, item in value.items()}
    kept = [part for part in plain.get("anyOf", []) if part != {"type": "null"}]
    if "anyOf" in plain and len(kept) < len(plain["anyOf"]):
        rest = {key: item for key, item in plain.items() if key not in ("anyOf", "default")}
        return {**kept[0], **rest} if len(kept) == 1 else {"anyOf": kept, **rest}
    return plain
