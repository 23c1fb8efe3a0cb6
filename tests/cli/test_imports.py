"""Reading and filing never load the training stack, and work where it is not installed."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "mlflow", "optuna", "lightning")
EXTRA = (*HEAVY, "datasets", "tokenizers", "sympy")
# Runs commands one after the other in one process: the first that loads something is named.
# What is blocked is not found, as where it is not installed. A None in sys.modules would be another
# thing, which scipy.stats stumbles on.
PROGRAM = """
import json, sys
from importlib.machinery import PathFinder
blocked, heavy, commands = json.loads(sys.argv[1])
find = PathFinder.find_spec
def unless_blocked(name, path=None, target=None):
    return None if name.partition(".")[0] in blocked else find(name, path, target)
PathFinder.find_spec = staticmethod(unless_blocked)
from workbench.cli.main import main
found = []
for command in commands:
    sys.argv = ["workbench", *command]
    try:
        main()
        code = 0
    except SystemExit as left:
        code = left.code or 0
    found.append([code, [name for name in heavy if sys.modules.get(name)]])
print(json.dumps(found))
"""
FIRST = ["init", "propose", "check", "note", "decide", "status", "chronicle", "verify", "publish"]
DECIDE = [
    "decide", "1", "--question", "q", "--option", "a", "--chosen", "a", "--because", "b",
    "--would-reverse", "c",
]  # fmt: skip
READING = [
    ["--help"],
    *(
        [command, "--help"]
        for command in [*FIRST, "register", "amend", "withdraw", "sweep", "promote", "run", "demo"]
    ),
    ["init", "../another"],
    ["propose", "Another question", "--recipe", RECIPE_PATH],
    ["check", "1"],
    ["check", "1", "--json"],
    ["power", "1", "--sd", "0.01"],
    ["schema", "proposal"],
    ["schema", "--editor"],
    ["approve", "1"],
    ["note", "a remark"],
    DECIDE,
    ["status"],
    ["status", "--json"],
    ["scoreboard"],
    ["scoreboard", "--json"],
    ["health", "1"],
    ["health", "1", "--json"],
    ["publish"],
    ["chronicle"],
    ["chronicle", "1", "--check"],
    ["verify"],
    ["verify", "--json"],
    ["verify", "--from", "registry"],
]


def outcomes(
    lab: LabFolder, commands: Sequence[Sequence[str]], blocked: Sequence[str] = ()
) -> list[tuple[int, list[str]]]:
    """Return each command's exit code and the heavy packages that were loaded after it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([blocked, HEAVY, commands])],
        capture_output=True, text=True, check=True, cwd=lab.root,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return [(code, loaded) for code, loaded in json.loads(done.stdout.splitlines()[-1])]


def test_reading_and_filing_load_nothing_heavy(registered_lab: LabFolder) -> None:
    for command, outcome in zip(READING, outcomes(registered_lab, READING), strict=True):
        assert (command, *outcome) == (command, 0, [])


def test_opening_outcomes_loads_nothing_heavy(finished_lab: LabFolder) -> None:
    commands = [["health", "1"], ["outcomes", "1", "--why", "a doubt", "--yes"]]
    assert outcomes(finished_lab, commands, blocked=EXTRA) == [(0, [])] * 2


def test_amending_and_withdrawing_load_nothing_heavy(registered_lab: LabFolder) -> None:
    proposal = registered_lab.root / "experiments" / SUBJECT / "proposal.md"
    proposal.write_text(proposal.read_text("utf-8").replace("alpha: 0.05", "alpha: 0.01"), "utf-8")
    commands = [
        ["amend", "1", "--dry-run"],
        ["amend", "1", "--reason-class", "error", "--reason", "mistyped", "--yes"],
        ["withdraw", "1", "--reason", "no budget", "--yes"],
    ]
    assert outcomes(registered_lab, commands, blocked=EXTRA) == [(0, [])] * 3


def test_register_on_a_built_corpus_loads_nothing_heavy(registered_lab: LabFolder) -> None:
    proposal = "experiments/0002-again/proposal.md"
    lab = registered_lab.open()
    lab.propose("Again", recipe=RECIPE_PATH)
    first = lab.layout.experiment("1") / "proposal.md"
    (registered_lab.root / proposal).write_text(first.read_text("utf-8"), "utf-8")
    registered_lab.commit()
    assert outcomes(registered_lab, [["register", "2"]]) == [(0, [])]


def test_refusal_of_an_unregistered_run_loads_nothing_heavy(filed_lab: LabFolder) -> None:
    commands = [[command, "1"] for command in ("sweep", "promote", "run", "verdict")]
    assert outcomes(filed_lab, commands) == [(4, [])] * 4


def test_core_install_reads_and_files(registered_lab: LabFolder) -> None:
    """`pip install pretrain-workbench` without the extra: nothing of training is there."""
    found = outcomes(registered_lab, READING, blocked=EXTRA)
    assert [code for code, _ in found] == [0] * len(READING)


def test_core_install_says_which_extra_a_running_command_needs(registered_lab: LabFolder) -> None:
    commands = [["sweep", "1"], ["data", "build", RECIPE_PATH]]
    assert outcomes(registered_lab, commands, blocked=EXTRA) == [(7, []), (7, [])]


def test_verdict_by_welchs_rule_is_recomputed_without_numpy_and_scipy(filed_lab: LabFolder) -> None:
    """This repository's own log has one; docs/decisions/0012 says what they would cost."""
    command = ["verify", "--from", str(ROOT / "registry")]
    found = outcomes(filed_lab, [command], blocked=("numpy", "scipy"))
    assert found == [(0, [])]
