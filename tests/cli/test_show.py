"""What commands print while they work."""

import re
import sys

import pytest

from workbench.cli.show import live_progress, say_wrapped


def test_progress_without_a_terminal_is_a_line_for_each_that_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with live_progress() as progress:
        progress("trials", 0, 2, "trial-00")
        progress("steps", 6, 6)
        progress("trials", 1, 2, "trial-00, best 3.5", ended=True)
        progress("treatment/seed-0", 8, 8, "completed", ended=True)
    said = capsys.readouterr()
    assert said.out == ""
    first, second = said.err.splitlines()
    assert first.startswith("trials 1/2  trial-00, best 3.5  (")
    assert second.startswith("treatment/seed-0 8/8  completed  (")


@pytest.mark.parametrize("terminal", [True, False])
def test_long_line_is_folded_on_a_terminal_and_whole_elsewhere(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    line = "  scaled  model.d_model: 64 -> 128  " + "(scaling rule: registered value) " * 4
    say_wrapped(line.rstrip())
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(line.split())
    assert (len(lines) > 1, max(map(len, lines)) <= 80) == (terminal, terminal)
    assert all(part.startswith(" " * 10) for part in lines[1:])
