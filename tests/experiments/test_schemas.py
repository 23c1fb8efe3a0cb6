"""JSON Schemas that editors read: what they accept and refuse, and that JavaScript reads them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.canonical import Json
from workbench.errors import ConflictError, NotFoundError
from workbench.experiments.proposing import propose
from workbench.experiments.schemas import (
    DIALECT,
    DOCUMENTS,
    document_schema,
    entry_schema,
    listed,
    schema_of,
    schema_text,
    write_editor_schemas,
)
from workbench.layout import Layout
from workbench.registry.entries import BODIES
from workbench.registry.frontmatter import front_matter
from workbench.registry.located import read_yaml
from workbench.registry.publish import PublishedLog

OWN = Layout(root=Path(__file__).parents[2])
EVERY = [*DOCUMENTS, "proposal@v1"]


def faults_of(schema: Json, value: Json) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def front(folder: Path) -> Json:
    return front_matter((folder / "proposal.md").read_text("utf-8"), "proposal.md")[0].value


def yaml(path: Path) -> Json:
    return read_yaml(path.read_text("utf-8"), path.name).value


def test_scaffolded_documents_fit_once_they_are_answered(layout: Layout, folder: Path) -> None:
    assert faults_of(document_schema("proposal"), front(folder)) == []
    assert faults_of(document_schema("full"), yaml(folder / "full.yaml")) == []
    (recipe,) = layout.proxies.glob("*.yaml")
    assert faults_of(document_schema("recipe"), yaml(recipe)) == []


def test_unanswered_form_is_marked_at_every_answer_that_is_owed(layout: Layout) -> None:
    folder = propose(layout, "A question", owner="lead")
    faults = faults_of(document_schema("proposal"), front(folder))
    owed = (folder / "proposal.md").read_text("utf-8").count("FILL IN") - 1
    assert len(faults) == owed


def test_own_documents_fit_the_version_that_they_say(layout: Layout) -> None:
    for folder in OWN.experiment_folders():
        value = front(folder)
        assert faults_of(document_schema(f"proposal@{value['proposal']}"), value) == []
        assert faults_of(document_schema("full"), yaml(folder / "full.yaml")) == []
    for recipe in OWN.proxies.glob("*.yaml"):
        assert faults_of(document_schema("recipe"), yaml(recipe)) == []


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("design", "seeds"), "three"),
        (("design", "seeds"), 0),
        (("design", "sedes"), 3),
        (("decision", "claim"), "better(0.1)"),
        (("decision", "noise"), {"sd": -1, "source": "x"}),
        (("embargo",), {"until": "soon", "reason": "x"}),
        (("foreknowledge",), "some"),
        (("contingencies",), [{"when": "a", "then": "b", "max_uses": 1}]),
    ],
)
def test_what_check_refuses_of_one_field_the_schema_refuses_too(
    folder: Path, place: tuple[str, ...], wrong: Json
) -> None:
    value = front(folder)
    target = value
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = wrong
    assert faults_of(document_schema("proposal"), value) != []


def test_first_version_of_the_form_has_none_of_the_later_keys() -> None:
    (folder, *_) = OWN.experiment_folders()
    value = front(folder)
    assert value["proposal"] == "v1"
    value["decision"]["underpowered"] = True
    assert faults_of(document_schema("proposal@v1"), value) != []


def test_bodies_of_the_published_ledger_fit_their_kinds() -> None:
    schemas: dict[str, Json] = {}
    for entry in PublishedLog(OWN.registry).entries():
        schema = schemas.setdefault(entry.kind, entry_schema(entry.kind))
        assert faults_of(schema, json.loads(entry.body_bytes)) == [], entry.kind
    assert len(schemas) > 10


def nodes(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from nodes(item)


def every_schema() -> list[tuple[str, Json]]:
    documents = [(name, document_schema(name)) for name in EVERY]
    return [*documents, *((kind, entry_schema(kind)) for kind in BODIES)]


def test_schemas_are_schemas_of_their_dialect() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for _, schema in every_schema():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_patterns_are_regular_expressions_of_javascript() -> None:
    found = {n["pattern"] for _, s in every_schema() for n in nodes(s) if "pattern" in n}
    found = {pattern for pattern in found if isinstance(pattern, str)}
    assert len(found) > 8
    assert [p for p in found if re.search(r"\\[AZz]|\(\?[P<a-z]|\*\+|\+\+", p)] == []
    node = shutil.which("node")
    if node:
        script = f"for (const p of {json.dumps(sorted(found))}) new RegExp(p, 'u')"
        subprocess.run([node, "-e", script], check=True)


def test_every_field_of_a_document_is_described() -> None:
    for name in EVERY:
        schema = document_schema(name)
        assert schema["$schema"] == DIALECT
        for node in nodes(schema):
            # What takes anything has nothing to say but its own name.
            fields = node.get("properties", {}) if node.get("type") == "object" else {}
            silent = [f for f, s in fields.items() if isinstance(s, dict) and "title" in s]
            assert silent == []
    proposal = document_schema("proposal")
    parts = [proposal, *proposal["$defs"].values()]
    silent = [f for part in parts for f, s in part["properties"].items() if "description" not in s]
    assert silent == []
    assert (
        "Full-scale runs an arm"
        in proposal["$defs"]["Design"]["properties"]["seeds"]["description"]
    )


def test_entries_have_neither_nulls_nor_floating_point_numbers() -> None:
    for kind in BODIES:
        for node in nodes(entry_schema(kind)):
            assert node.get("type") not in ("null", "number"), kind


def test_unknown_document_or_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match=r"known: proposal, recipe, full, proposal@v1, entry"):
        schema_of("propsal")
    with pytest.raises(NotFoundError, match="known: genesis, registration"):
        schema_of("entry", "registrashun")
    for wrong in (("entry", ""), ("proposal", "trial")):
        with pytest.raises(ConflictError):
            schema_of(*wrong)
    assert all(len(line) <= 80 for line in listed())


def test_editor_schemas_are_where_the_first_line_of_each_file_says(
    layout: Layout, answer: Callable[[Path], None]
) -> None:
    folder = propose(layout, "A question", owner="lead")
    written = write_editor_schemas(layout)
    assert len(written) == 3
    (recipe,) = layout.proxies.glob("*.yaml")
    named: list[Path] = []
    for file in (folder / "proposal.md", folder / "full.yaml", recipe):
        line = next(x for x in file.read_text("utf-8").split("\n") if "$schema=" in x)
        named.append((file.parent / line.partition("$schema=")[2]).resolve())
    assert sorted(named) == sorted(path.resolve() for path in written)
    assert write_editor_schemas(layout) == []
    written[0].write_text("{}", "utf-8")
    assert write_editor_schemas(layout) == [written[0]]


def test_schema_text_is_strict_json() -> None:
    def refuse(text: str) -> Any:
        raise AssertionError(text)

    for _, schema in every_schema():
        assert json.loads(schema_text(schema), parse_constant=refuse) == schema
