"""Two versions of a document, field by field."""

import pytest

from workbench.canonical import sha256_hex
from workbench.errors import InvalidFileError
from workbench.proxies.document_changes import (
    Documents,
    changes_in,
    field_changes,
    prose_diff,
    shown,
)
from workbench.registry.entries import Document


def document(text: str, path: str = "proxies/a.yaml") -> Document:
    return Document(path=path, sha256=sha256_hex(text.encode()), text=text)


def changed(old: str, new: str) -> dict[str, tuple[object, object]]:
    found = changes_in("recipe", document(old), document(new))
    return {change.path: (change.old, change.new) for change in found}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a: 1\n", "a: 2\n", {"a": (1, 2)}),
        ("a: 1\n", "a: 1.0\n", {}),
        ("a: 1 # why\nb: 2\n", "b: 2\na: 1\n", {}),
        ("a: {b: {c: x}}\n", "a: {b: {c: y, d: z}}\n", {"a.b.c": ("x", "y"), "a.b.d": (None, "z")}),
        ("a: [1, 2]\n", "a: [2, 1]\n", {"a": ([1, 2], [2, 1])}),
        ("a: [{n: x}]\n", "a: [{n: x}, {n: y}]\n", {"a.1.n": (None, "y")}),
        ("a: {}\n", "a: {b: 1}\n", {"a": ({}, None), "a.b": (None, 1)}),
        ("a: null\n", "a: ''\n", {"a": (None, "")}),
        ("a: true\n", "a: 1\n", {"a": (True, 1)}),
        ("a: 0.1\n", "a: 0.2\n", {"a": ("0.1", "0.2")}),
        ("o: {model.d_model: 8}\n", "o: {model.d_model: 9}\n", {"o.model.d_model": (8, 9)}),
    ],
)
def test_changes_name_each_field_that_differs(
    old: str, new: str, expected: dict[str, tuple[object, object]]
) -> None:
    assert changed(old, new) == expected


def test_changes_of_an_unreadable_document_are_refused() -> None:
    with pytest.raises(InvalidFileError):
        changed("a: 1\n", "a: [\n")


def test_prose_is_one_field_shown_as_a_unified_diff() -> None:
    head = "---\na: 1\n---\n"
    old, new = (document(head + prose, "p.md") for prose in ("one\ntwo\n", "one\nthree\n"))
    (change,) = changes_in("proposal", old, new)
    assert change.path == "text"
    assert prose_diff(change).splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-two", "+three"]
    (other,) = changes_in("recipe", document("a: 1\n"), document("a: 2\n"))
    assert prose_diff(other) == ""


def test_field_changes_come_in_the_order_of_the_documents() -> None:
    def three(value: int) -> Documents:
        return {
            "full": document(f"f: {value}\n"),
            "recipe": document(f"r: {value}\n"),
            "proposal": document(f"---\np: {value}\n---\n", "p.md"),
        }

    assert [c.document for c in field_changes(three(1), three(2))] == ["proposal", "recipe", "full"]
    assert field_changes(three(1), three(1)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "absent"), (["a", 1], "[a, 1]"), ("two\n words", "two words"), (True, "True")],
)
def test_shown_is_one_line(value: object, text: str) -> None:
    assert shown(value) == text
