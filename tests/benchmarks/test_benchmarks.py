"""Every benchmark runs in its smoke form and prints goals of the agreed shape."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(
    path for path in (ROOT / "benchmarks").glob("*.py") if path.name not in ("all.py", "measure.py")
)
FIELDS = {"goal", "value", "target", "unit", "peer", "met", "runs"}


@pytest.mark.slow
@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmark_smoke_run_prints_goals(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path), "--json", "--smoke"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    goals = [json.loads(line) for line in done.stdout.splitlines()]
    assert goals
    assert all(set(goal) == FIELDS for goal in goals)
    assert all(goal["value"] > 0 and goal["peer"] for goal in goals)
