"""What differs between two versions of an experiment's documents, field by field.

Compared as YAML values and not through today's models, so that a later version of the workbench
finds the same changes in the same two texts.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from workbench.canonical import Json, canonical_json, freeze
from workbench.registry.entries import Amendment, Document, FieldChange, Registration
from workbench.registry.frontmatter import front_matter
from workbench.registry.located import read_yaml

DocumentName: TypeAlias = Literal["proposal", "recipe", "full"]
Documents: TypeAlias = Mapping[DocumentName, Document]

NAMES: tuple[DocumentName, ...] = ("proposal", "recipe", "full")
PROSE = "text"
"""Path of a proposal's Markdown, which is compared as a whole."""


def documents_of(body: Registration | Amendment) -> Documents:
    """Return the documents that an entry froze."""
    return {"proposal": body.proposal, "recipe": body.recipe, "full": body.full}


def field_changes(old: Documents, new: Documents) -> list[FieldChange]:
    """Return every field whose value differs, in the order of the files.

    A comment, the order of keys and the layout are no fields. A recipe under another path changes
    ``sweep.recipe`` of the proposal.

    Raises:
        InvalidFileError: a document cannot be read.
    """
    return [change for name in NAMES for change in changes_in(name, old[name], new[name])]


def changes_in(name: DocumentName, old: Document, new: Document) -> list[FieldChange]:
    """Return every field of one document whose value differs.

    Raises:
        InvalidFileError: one of them cannot be read.
    """
    if old.sha256 == new.sha256 and old.text == new.text:
        return []
    before, after = _leaves(name, old), _leaves(name, new)
    return [
        FieldChange(document=name, path=path, old=before.get(path), new=after.get(path))
        for path in dict.fromkeys([*before, *after])
        # As JSON, where true is not 1.
        if canonical_json(before.get(path)) != canonical_json(after.get(path))
    ]


def prose_diff(change: FieldChange) -> str:
    """Return the change of a proposal's Markdown as a unified diff; empty for any other field."""
    if change.path != PROSE or change.document != "proposal":
        return ""
    before, after = str(change.old or ""), str(change.new or "")
    found = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "as registered", "as amended", lineterm="", n=1
    )
    return "\n".join(found)


def shown(value: Json) -> str:
    """Return a field's value in one line; ``absent`` where there is none."""
    if value is None:
        return "absent"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return " ".join(str(value).split())


def _leaves(name: DocumentName, document: Document) -> dict[str, Json]:
    if name != "proposal":
        return dict(_flat(_plain(read_yaml(document.text, document.path).value)))
    located, prose = front_matter(document.text, document.path)
    found = dict(_flat(_plain(located.value)))
    if prose.strip():
        found[PROSE] = freeze(prose.strip())
    return found


def _flat(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield each leaf with its dotted path; a list of plain values is one leaf."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for place, item in enumerate(value):
            yield from _flat(item, f"{path}.{place}" if path else str(place))
    elif value is not None:
        yield path, freeze(value)


def _plain(value: Json) -> Json:
    """Return the value with whole floats as integers: 1 and 1.0 are one value."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else value
