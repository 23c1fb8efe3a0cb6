"""`workbench run` in a process of its own, stopped by real signals in the middle of a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.labs import LabFolder

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

ROOT = Path(__file__).parents[2]
RUN, STEP = "treatment/seed-0", 5
# The command line itself; only its display is another one, which waits in the middle of a run.
PROGRAM = """
import sys
from contextlib import contextmanager
from workbench.cli import main, running

@contextmanager
def waiting():
    def progress(task, done, total, detail="", *, ended=False):
        if (task, done) == (sys.argv[1], int(sys.argv[2])):
            print("now", flush=True)
            sys.stdin.readline()
    yield progress

running.live_progress = waiting
main.app(["run", "1"])
"""


def interrupted(lab: LabFolder, number: signal.Signals) -> tuple[int, str, str]:
    """Start the command, signal it after the step, and return its exit code and output."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, RUN, str(STEP)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=lab.root, env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.send_signal(number)
    # After SIGKILL nobody reads this; after SIGTERM the display returns and the step ends.
    out, err = process.communicate("\n")
    return process.returncode, out, err


def finals(lab: LabFolder) -> dict[str, object]:
    last = {body.run: body for body in lab.bodies("run_ended")}
    return {run: (body.outcome, body.evaluations[-1]) for run, body in last.items()}


def test_run_killed_by_the_system_continues_with_the_same_seed_to_the_same_result(
    promoted_lab: LabFolder, finished_stage: LabFolder
) -> None:
    """A5, A9: SIGKILL; RUNNING until the next start, which reconciles it to lost."""
    code, _, _ = interrupted(promoted_lab, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert [body.run for body in promoted_lab.bodies("run_ended")] == ["control/seed-0"]
    started = promoted_lab.bodies("run_started")[-1]
    assert promoted_lab.tracker().run(started.mlflow_run).status == "RUNNING"
    report = promoted_lab.open().run("1")
    assert report.recovered == (
        f"{RUN}: attempt 1 was lost at step 5; 1 steps after checkpoint 4 will be repeated",
    )
    again = promoted_lab.bodies("run_started")[2]
    assert (again.run, again.attempt, again.from_step) == (RUN, 2, 4)
    assert (again.seed, again.mlflow_run) == (started.seed, started.mlflow_run)
    assert promoted_lab.tracker().run(started.mlflow_run).status == "FINISHED"
    assert finals(promoted_lab) == finals(finished_stage)
    assert promoted_lab.open().verify().passed


def test_run_asked_to_stop_saves_says_so_and_continues_to_the_same_result(
    promoted_lab: LabFolder, finished_stage: LabFolder
) -> None:
    """A9: SIGTERM; KILLED, with the step in progress saved."""
    code, out, err = interrupted(promoted_lab, signal.SIGTERM)
    assert code not in (0, -signal.SIGTERM)
    assert "the same command continues" in err
    assert "Traceback" not in out + err
    killed = promoted_lab.bodies("run_ended")[-1]
    assert (killed.run, killed.outcome) == (RUN, "killed")
    assert killed.last_step == killed.surviving_step == STEP
    started = promoted_lab.bodies("run_started")[-1]
    assert promoted_lab.tracker().run(started.mlflow_run).status == "KILLED"
    promoted_lab.open().run("1")
    assert finals(promoted_lab) == finals(finished_stage)
    assert promoted_lab.open().verify().passed
