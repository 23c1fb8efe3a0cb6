"""Compile the kernels once a machine, and find them again.

A build is keyed by everything that its code depends on: sources, flags, compiler, torch and the
processor. It is moved to its place when it is whole, so that processes that build at once, or one
that is killed, leave nothing half made and wait for nobody.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.utils import cpp_extension

HEADER = "tiles.h"
SOURCES = ("experts.cpp", "attention.cpp", "head.cpp", "norms.cpp")
_FLAGS = (
    *("-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno"),
    *("-fno-trapping-math", "-std=c++20", "-fPIC", "-fopenmp"),
)
_SECONDS = 300.0


class NotBuilt(Exception):
    """There are no kernels on this machine; the text says why."""


def library_path() -> Path:
    """Return the kernels of this machine, compiled now where they are not there yet.

    Raises:
        NotBuilt: no compiler, an unknown platform, or the compiler failed.
    """
    if not sys.platform.startswith("linux"):
        raise NotBuilt(f"not offered on {sys.platform}")
    compiler = _compiler()
    folder = cache_folder()
    path = folder / f"kernels-{_key(compiler)}.so"
    if not path.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _build(compiler, path)
        except OSError as error:
            raise NotBuilt(f"{folder} cannot be written: {error.strerror}") from error
    return path


def cache_folder() -> Path:
    """Return where builds are kept: ``$XDG_CACHE_HOME/workbench/kernels`` or below ``~/.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "workbench" / "kernels"


def _compiler() -> str:
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("g++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    raise NotBuilt(f"no C++ compiler ({wanted or 'g++ or clang++'})")


def _key(compiler: str) -> str:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for name in (HEADER, *SOURCES):
        digest.update((here / name).read_bytes())
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    for part in (version, torch.__version__.encode(), " ".join(_FLAGS).encode(), _processor()):
        digest.update(b"\0" + part)
    return digest.hexdigest()[:16]


def _processor() -> bytes:
    """Return what ``-march=native`` looks at: another processor needs another build."""
    wanted = (b"flags", b"Features", b"vendor_id", b"cpu family", b"model")
    lines = Path("/proc/cpuinfo").read_bytes().split(b"\n\n")[0].splitlines()
    return b"\n".join(line for line in lines if line.startswith(wanted))


def _build(compiler: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as name:
        folder = Path(name)
        here = Path(__file__).parent
        include = [f"-I{each}" for each in cpp_extension.include_paths()]
        compiling = [
            [compiler, *_FLAGS, *include, "-c", str(here / source), "-o", f"{folder / source}.o"]
            for source in SOURCES
        ]
        _run_all(compiling)
        libraries = [f"-L{each}" for each in cpp_extension.library_paths()]
        objects = [f"{folder / source}.o" for source in SOURCES]
        whole = folder / path.name
        linking = [compiler, "-shared", "-fopenmp", *objects, *libraries]
        _run_all([[*linking, "-ltorch_cpu", "-lc10", "-o", str(whole)]])
        whole.replace(path)


def _run_all(commands: Sequence[Sequence[str]]) -> None:
    """Run the commands side by side.

    Raises:
        NotBuilt: one failed.
    """
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    try:
        errors = [process.communicate(timeout=_SECONDS)[1] for process in running]
    except subprocess.TimeoutExpired as error:
        raise NotBuilt(f"the compiler took more than {_SECONDS:g} s") from error
    finally:
        for process in running:
            process.kill()
    for process, told in zip(running, errors, strict=True):
        if process.returncode:
            line = next((each for each in told.splitlines() if "error" in each), told.strip())
            raise NotBuilt(f"the compiler failed: {line[-200:]}")
