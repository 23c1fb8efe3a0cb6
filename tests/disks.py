"""A disk of a test's own, in memory: it can be full, or read-only."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NAME = re.compile(r"workbench-test-([0-9]+) (\S+) tmpfs ")


@contextmanager
def disk(folder: Path, options: str) -> Iterator[None]:
    """Mount a file system of its own; skips where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, f"workbench-test-{os.getpid()}", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of a test's own needs root and mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def abandoned(mounts: str) -> list[str]:
    """Return the disks of test sessions that were killed, from the text of ``/proc/mounts``."""
    found = (_NAME.match(line) for line in mounts.splitlines())
    return [match[2] for match in found if match and not Path("/proc", match[1]).exists()]


def remove_abandoned() -> None:
    """Unmount what a killed session left: pytest cannot remove old folders with a disk in them."""
    mounts = Path("/proc/self/mounts")
    if os.geteuid() == 0 and mounts.is_file():
        for folder in abandoned(mounts.read_text("utf-8")):
            subprocess.run(["umount", "-l", folder], check=False)
