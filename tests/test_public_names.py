"""What others may rely on, kept in a file so that a change is seen and meant.

After a change that is meant: ``UPDATE_SNAPSHOTS=1 pytest tests/test_public_names.py``.
"""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from workbench.cli.main import app
from workbench.lab import Lab

SNAPSHOT = Path(__file__).parent / "snapshots" / "public-names.txt"


def method_lines() -> Iterator[str]:
    for name, member in inspect.getmembers(Lab):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"Lab.{name}"
            continue
        parameters = list(inspect.signature(member).parameters.values())
        shown = [
            f"{p.name}{'=' if p.default is not p.empty else ''}" for p in parameters
            if p.name not in ("self", "cls")
        ]  # fmt: skip
        yield f"Lab.{name}({', '.join(shown)})"


def command_lines(group: Any = None, before: str = "workbench") -> Iterator[str]:
    for name, command in sorted((group or get_command(app)).commands.items()):
        if hasattr(command, "commands"):
            yield from command_lines(command, f"{before} {name}")
            continue
        words = []
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                words.append(
                    parameter.name.upper() if parameter.required else f"[{parameter.name}]"
                )
            elif parameter.name != "help":
                option = "/".join(parameter.opts)
                words.append(option if parameter.required else f"[{option}]")
        yield " ".join([before, name, *words])


def test_public_names_are_those_of_the_snapshot() -> None:
    found = "\n".join([*method_lines(), "", *command_lines()]) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(found, "utf-8")
    assert found == SNAPSHOT.read_text("utf-8")
