"""How the package is built: imports at the top, files and functions of a readable size."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "workbench"
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 450
MOST_FUNCTION_LINES = 60
LATE_IMPORTS = {*(PACKAGE / "lab").glob("*.py"), *(PACKAGE / "cli").glob("*.py")}
LARGER_FILES: dict[str, int] = {}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_package_is_found() -> None:
    assert len(FILES) > 100


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_file_has_a_readable_shape(file: Path) -> None:
    text = file.read_text("utf-8")
    assert len(text.splitlines()) <= LARGER_FILES.get(name_of(file), MOST_LINES)
    assert file.stem not in VAGUE
    tree = parsed(file)
    too_long = [
        f"{f.name} ({length})" for f in functions(tree) if (length := body(f)) > MOST_FUNCTION_LINES
    ]
    assert too_long == []


def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or 0) - function.lineno + 1
    # The docstring is the contract, not code that a reader must hold in mind.
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_are_at_the_top(file: Path) -> None:
    tree = parsed(file)
    inner = [
        f"line {node.lineno}"
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert file in LATE_IMPORTS or inner == []
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "TYPE_CHECKING"]
    assert guarded == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_are_absolute(file: Path) -> None:
    tree = parsed(file)
    relative = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
    assert relative == []


@pytest.mark.parametrize("part", ["registry", "experiments", "analysis", "reports", "proxies"])
def test_record_keeping_code_has_no_assert(part: str) -> None:
    """An assert vanishes under -O, and a refusal must not."""
    found = [
        f"{name_of(file)}:{node.lineno}"
        for file in (PACKAGE / part).rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Assert)
    ]
    assert found == []
