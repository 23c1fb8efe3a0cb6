"""The command line as a user meets it, without starting a process."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.labs import LabFolder
from workbench.cli.main import main


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]
Terminal = Callable[[str], None]


class _Answers(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Lets somebody sit at a terminal and type this."""
    return lambda answer: monkeypatch.setattr("sys.stdin", _Answers(answer))


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``workbench ARGUMENTS`` in a lab, or where the test is."""

    def run(*arguments: str, lab: LabFolder | Path | None = None) -> Said:
        with monkeypatch.context() as patch:
            if lab is not None:
                patch.chdir(lab.root if isinstance(lab, LabFolder) else lab)
            patch.setenv("COLUMNS", "80")
            patch.setattr(sys, "argv", ["workbench", *arguments])
            capsys.readouterr()
            try:
                main()
                code: object = 0
            except SystemExit as left:
                code = left.code
        told = capsys.readouterr()
        assert isinstance(code, int | None)
        return Said(code or 0, told.out, told.err)

    return run
