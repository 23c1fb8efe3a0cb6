"""Who holds a run's folder, and what may be read of it meanwhile."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import ConflictError
from workbench.training.run_folder import (
    evaluations_path,
    exclusive,
    is_held,
    read_evaluations,
)

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def test_folder_is_held_while_a_process_trains_in_it_and_not_after_its_death(
    tmp_path: Path,
) -> None:
    assert not is_held(tmp_path)
    trainer = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert trainer.stdout is not None
    trainer.stdout.readline()
    assert is_held(tmp_path)
    trainer.kill()
    trainer.communicate()
    assert not is_held(tmp_path)
    with exclusive(tmp_path):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_looking_whether_it_is_held_stops_nobody_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader's lock is there at the worst moment: when training begins."""
    (tmp_path / "lock").touch()
    flock, asked = fcntl.flock, []
    with (tmp_path / "lock").open() as reader:
        flock(reader, fcntl.LOCK_SH)

        def letting_go(file: object, operation: int) -> None:
            asked.append(operation)
            if operation == fcntl.LOCK_EX:
                flock(reader, fcntl.LOCK_UN)
            flock(file, operation)  # type: ignore[arg-type]

        monkeypatch.setattr(fcntl, "flock", letting_go)
        with exclusive(tmp_path):
            assert asked[-1] == fcntl.LOCK_EX
    refused = pytest.raises(ConflictError, match="another process")
    with exclusive(tmp_path), refused, exclusive(tmp_path):
        pass


def test_evaluations_are_read_while_they_are_written(tmp_path: Path) -> None:
    path = evaluations_path(tmp_path, 1)
    assert read_evaluations(path) == ()
    path.write_text('{"step": 3, "values": {"bpb_macro": "1.5"}}\n{"step": 6, "val')
    assert read_evaluations(path) == ((3, {"bpb_macro": 1.5}),)
