"""What the command line offers: within 80 columns, and every remedy is a command that exists."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from tests.cli.conftest import Command
from workbench.cli.main import app

PACKAGE = Path(__file__).parents[2] / "workbench"
COMMANDS = [
    "init", "propose", "check", "register", "note", "decide", "amend", "withdraw", "data", "sweep",
    "promote", "run", "verdict", "noise", "status", "chronicle", "verify", "publish", "demo",
    "reveal", "redact", "restore", "keys", "proof", "anchor", "witness", "approve", "schema",
    "power", "scoreboard", "health", "outcomes", "audit-precision", "schedule",
]  # fmt: skip


def commands() -> dict[str, object]:
    group = get_command(app)
    return dict(getattr(group, "commands"))  # noqa: B009


def test_commands_are_those_of_the_loop() -> None:
    assert sorted(commands()) == sorted(COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns_and_says_something(workbench: Command, command: str) -> None:
    said = workbench(*filter(None, [command]), "--help")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert said.err == ""


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (["amend"], "clarification, error, infeasible, new_information, external"),
        (["redact"], "personal_data, secret, licence, legal_order, other"),
        (["keys", "rotate"], "scheduled, owner_change, compromise"),
    ],
)
def test_help_lists_choices_in_whole_words(
    workbench: Command, arguments: list[str], choices: str
) -> None:
    said = workbench(*arguments, "--help")
    assert not re.search(r"<[^>\s]*\s", said.out)
    words = re.sub(r"[│\s]+", " ", said.out)
    assert choices in words


def test_no_argument_is_help(workbench: Command) -> None:
    assert "Usage" in workbench().out


@pytest.mark.parametrize("arguments", [["frobnicate"], ["status", "--nope"], ["check"]])
def test_mistyped_command_is_a_usage_error_without_traceback(
    workbench: Command, arguments: list[str]
) -> None:
    said = workbench(*arguments)
    assert said.code == 2
    assert "Traceback" not in said.out + said.err


def advice() -> Iterator[tuple[str, str]]:
    """Yield every ``workbench …`` that a remedy or a page tells somebody to type."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                for found in re.finditer(r"(?:^|[\s`:(])(workbench [a-z][^\n`;,]*)", _plain(node)):
                    yield f"{file.relative_to(PACKAGE)}:{node.lineno}", found[1]
    root = PACKAGE.parent
    pages = [*PACKAGE.rglob("*.md"), *root.glob("*.md"), *root.glob("*/*.md")]
    for file in sorted(pages):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            found_command = re.match(r"\s*(?:\$ )?(?:\S*/bin/)?(workbench [a-z].*)", line)
            if found_command and (line.startswith("    ") or line.lstrip().startswith(("$", "."))):
                command = re.split(r"\s+#", found_command[1])[0]
                yield f"{file.relative_to(root)}:{number}", command


def _plain(node: ast.AST) -> str:
    if isinstance(node, ast.keyword):
        return _plain(node.value)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_plain(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "X"
    if isinstance(node, ast.IfExp):
        return _plain(node.body)
    if isinstance(node, ast.BinOp):
        return _plain(node.left) + _plain(node.right)
    return ""


@pytest.mark.parametrize(("where", "line"), sorted(set(advice())))
def test_remedy_is_a_command_that_exists(where: str, line: str) -> None:
    # What follows the command in the sentence is no part of it.
    line = re.split(
        r"  | \(| && | says | shows | asks | and propose | by itself| continues| trains", line
    )[0]
    name, *arguments = shlex.split(line)[1:]
    assert name in COMMANDS, f"{where}: {line}"
    command = commands()[name]
    if isinstance(command, typer.core.TyperGroup):
        name, *arguments = arguments
        command = command.commands[name]
    assert isinstance(command, typer.core.TyperCommand)
    try:
        command.make_context(name, arguments, resilient_parsing=False)
    except (typer.Exit, SystemExit):
        return
    except Exception as error:  # noqa: BLE001
        pytest.fail(f"{where}: {line!r}: {error}")
