"""How long commands take to start, against importing the library their command line is built on.

python benchmarks/startup.py [--json] [--smoke]
"""

import sys
import tempfile
from pathlib import Path

from measure import Goal, arguments, at_most, interleaved, report
from verification import write_log

OWN = Path(__file__).parents[1] / "registry"


def main() -> None:
    runs, as_json = arguments()
    python = sys.executable
    typer = [python, "-c", "import typer"]
    workbench = [python, "-m", "workbench.cli.main"]
    help_ours, help_peer = interleaved([*workbench, "--help"], typer, runs)
    with tempfile.TemporaryDirectory() as scratch:
        write_log(Path(scratch), 100)
        verify = [*workbench, "verify", "--from", scratch]
        verify_ours, verify_peer = interleaved(verify, typer, runs)
    own, _ = interleaved([*workbench, "verify", "--from", str(OWN)], typer, runs)
    goals = [
        at_most(
            "workbench --help",
            help_ours,
            help_peer,
            target=3.0,
            peer='python -c "import typer"',
            runs=runs,
        ),
        at_most(
            "workbench verify of 100 published entries",
            verify_ours,
            verify_peer,
            target=3.0,
            peer='python -c "import typer"',
            runs=runs,
        ),
        Goal(
            goal="workbench verify of 100 published entries, start to end",
            value=round(verify_ours, 3),
            target=0.3,
            unit="seconds, median",
            peer="the goal",
            met=verify_ours <= 0.3,
            runs=runs,
        ),
        Goal(
            goal="workbench verify of this repository's log and its verdict, start to end",
            value=round(own, 3),
            target=0.3,
            unit="seconds, median",
            peer="the goal",
            met=own <= 0.3,
            runs=runs,
        ),
    ]
    report(goals, as_json=as_json)


if __name__ == "__main__":
    main()
