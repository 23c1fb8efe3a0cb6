"""A checkpoint is whole or absent, and a damaged one is never used."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from workbench.errors import IntegrityError, NotFoundError
from workbench.training.checkpoints import (
    VerifiedCheckpointIO,
    checkpoint_path,
    newest_good,
    read_checkpoint,
    remove_leftovers,
    retain,
    set_aside,
    write_checkpoint,
)


def save(folder: Path, step: int, value: float = 1.0):
    state = {"weights": torch.full((100,), value), "step": step, "names": ["a"]}
    return write_checkpoint(state, checkpoint_path(folder, step))


def test_checkpoint_comes_back_as_it_was_written(tmp_path):
    saved = save(tmp_path, 5, 2.5)
    state = read_checkpoint(saved.path, saved.sha256)
    assert torch.equal(state["weights"], torch.full((100,), 2.5))
    assert newest_good(tmp_path) == (saved, ())
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step-00000005.ckpt",
        "step-00000005.ckpt.sha256",
    ]


def test_checkpoint_cut_in_half_is_rejected_and_the_one_before_is_used(tmp_path):
    """A2."""
    good = save(tmp_path, 5)
    bad = save(tmp_path, 10)
    os.truncate(bad.path, bad.path.stat().st_size // 2)
    found, rejected = newest_good(tmp_path)
    assert found == good
    assert [r.step for r in rejected] == [10]
    assert "SHA-256" in rejected[0].reason
    aside = set_aside(rejected[0])
    assert aside.exists()
    assert newest_good(tmp_path) == (good, ())


@pytest.mark.parametrize("damage", ["flip", "no digest", "bad digest", "empty digest"])
def test_checkpoint_with_any_damage_is_rejected(tmp_path, damage):
    """A2."""
    saved = save(tmp_path, 3)
    digest = saved.path.with_name(f"{saved.path.name}.sha256")
    if damage == "flip":
        data = bytearray(saved.path.read_bytes())
        data[len(data) // 2] ^= 1
        saved.path.write_bytes(data)
    elif damage == "no digest":
        digest.unlink()
    else:
        digest.write_text("" if damage == "empty digest" else "é" * 64)
    found, rejected = newest_good(tmp_path)
    assert found is None
    assert len(rejected) == 1
    if damage != "flip":
        return
    with pytest.raises(IntegrityError):
        read_checkpoint(saved.path, saved.sha256)


def test_checkpoint_that_is_not_there_is_named(tmp_path):
    assert newest_good(tmp_path / "nowhere") == (None, ())
    with pytest.raises(NotFoundError, match=r"step-00000001\.ckpt"):
        read_checkpoint(checkpoint_path(tmp_path, 1), "0" * 64)


def test_checkpoint_with_code_in_it_does_not_load(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    saved = write_checkpoint({"evil": Evil()}, checkpoint_path(tmp_path, 1))
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        read_checkpoint(saved.path, saved.sha256)


def test_retention_keeps_the_newest_and_never_the_last_good_one_less(tmp_path):
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    retain(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.glob("*.ckpt")) == [
        "step-00000003.ckpt",
        "step-00000004.ckpt",
    ]
    for step in (3, 4):
        checkpoint_path(tmp_path, step).write_bytes(b"damaged")
    save(tmp_path, 2)
    retain(tmp_path, 1)
    assert newest_good(tmp_path)[0].step == 2


def test_failed_write_leaves_the_earlier_file_as_it_was(tmp_path):
    saved = save(tmp_path, 1)
    before = saved.path.read_bytes()
    with pytest.raises(Exception, match=r"pickle|local"):
        write_checkpoint({"bad": lambda: 0}, saved.path)
    assert saved.path.read_bytes() == before
    assert newest_good(tmp_path) == (saved, ())
    remove_leftovers(tmp_path)
    assert not list(tmp_path.glob(".*"))


KILLED_WRITER = """
import sys, torch
from pathlib import Path
from workbench.training.checkpoints import checkpoint_path, write_checkpoint
step = 0
while True:
    step += 1
    state = {"weights": torch.full((300_000,), float(step)), "step": step}
    write_checkpoint(state, checkpoint_path(Path(sys.argv[1]), step))
    print(step, flush=True)
"""


@pytest.mark.slow
def test_writer_killed_at_any_moment_leaves_only_whole_checkpoints(tmp_path):
    """A2."""
    for round_number in range(3):
        folder = tmp_path / str(round_number)
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        )
        reached = 0
        while reached < 3 + round_number:
            reached = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        last = int(rest[-1]) if rest else reached
        found, rejected = newest_good(folder)
        assert rejected == ()
        assert found.step >= last
        state = read_checkpoint(found.path, found.sha256)
        assert torch.equal(state["weights"], torch.full((300_000,), float(found.step)))


def test_checkpoint_io_writes_reads_and_removes(tmp_path):
    io = VerifiedCheckpointIO()
    path = checkpoint_path(tmp_path, 7)
    io.save_checkpoint({"step": 7}, path)
    assert io.saved.step == 7
    assert io.load_checkpoint(path) == {"step": 7}
    path.write_bytes(b"x")
    with pytest.raises(IntegrityError):
        io.load_checkpoint(path)
    io.remove_checkpoint(path)
    assert not list(tmp_path.iterdir())


def test_file_of_another_name_is_not_a_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="not the name"):
        write_checkpoint({}, tmp_path / "model.pt")
