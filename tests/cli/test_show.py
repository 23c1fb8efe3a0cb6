"""What commands print while they work."""

import pytest

from workbench.cli.show import live_progress


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
