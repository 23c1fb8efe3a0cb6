"""How long commands take to start, against importing the library their command line is built on.

python benchmarks/startup.py [--json] [--smoke]
"""

import sys

from measure import arguments, at_most, interleaved, report


def main() -> None:
    runs, as_json = arguments()
    python = sys.executable
    typer = [python, "-c", "import typer"]
    workbench = [python, "-m", "workbench.cli.main"]
    help_ours, help_peer = interleaved([*workbench, "--help"], typer, runs)
    goals = [
        at_most(
            "workbench --help",
            help_ours,
            help_peer,
            target=3.0,
            peer='python -c "import typer"',
            runs=runs,
        ),
    ]
    report(goals, as_json=as_json)


if __name__ == "__main__":
    main()
