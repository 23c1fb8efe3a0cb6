"""What the running commands say of the work that was done."""

import pytest

from workbench.cli.running import counted_trials


@pytest.mark.parametrize(
    ("counts", "num_again", "told"),
    [
        ({"pruned": 1, "completed": 2}, 0, "2 completed, 1 pruned"),
        (
            {"completed": 2, "lost": 1, "pruned": 1},
            1,
            "2 completed, 1 pruned, 1 lost and run again",
        ),
        ({"completed": 1, "lost": 2}, 1, "1 completed, 1 lost, 1 lost and run again"),
        ({"completed": 2, "failed": 1}, 1, "2 completed, 1 failed (1 of them run again)"),
        ({"lost": 1}, 1, "1 lost and run again"),
    ],
)
def test_trials_that_were_run_again_are_told_apart(
    counts: dict[str, int], num_again: int, told: str
) -> None:
    assert counted_trials(counts, num_again) == told
