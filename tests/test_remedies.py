"""What a refusal tells a person to type must be something that the command line takes."""

import re
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import workbench
from workbench.cli.main import app

SOURCE = Path(workbench.__file__).parent
TOLD = re.compile(r'remedy=[^\n]*?\bworkbench ([a-z]+)([^"\'\n;,(]*)')


def told() -> list[tuple[str, str, str]]:
    return [
        (path.relative_to(SOURCE).as_posix(), match[1], match[2].strip())
        for path in sorted(SOURCE.rglob("*.py"))
        for match in TOLD.finditer(path.read_text("utf-8"))
    ]


@pytest.mark.parametrize(("file", "command", "arguments"), told())
def test_command_in_a_remedy_exists_and_takes_what_is_written(
    file: str, command: str, arguments: str
) -> None:
    commands = get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    assert command in commands.commands, file
    named = commands.commands[command]
    if isinstance(named, typer.core.TyperGroup):
        part, _, arguments = arguments.partition(" ")
        assert part in named.commands, file
        named = named.commands[part]
    known = named.params
    options = re.findall(r"--[a-z-]+", arguments)
    assert set(options) <= {name for param in known for name in param.opts}, file
    takes = sum(isinstance(param, typer.core.TyperArgument) for param in known)
    valued = {name for param in known if not getattr(param, "is_flag", False)
              for name in param.opts if name.startswith("--")}  # fmt: skip
    parts = arguments.split()
    words = [
        word
        for before, word in zip(["", *parts], parts, strict=False)
        if not word.startswith(("-", "{_flag", "{flag")) and before not in valued
    ]
    assert bool(words) <= bool(takes), f"{file}: workbench {command} takes no {words}"
