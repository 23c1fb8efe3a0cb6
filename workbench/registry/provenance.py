"""Which code and which machine: read from git, the interpreter and package metadata."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import workbench
from workbench.errors import ConflictError, MissingDependencyError
from workbench.registry.entries import CodeState

NO_COMMIT = "none"
DISTRIBUTIONS = (
    "cryptography",
    "datasets",
    "lightning",
    "mlflow",
    "numpy",
    "optuna",
    "pyarrow",
    "pydantic",
    "scipy",
    "sqlalchemy",
    "sympy",
    "tokenizers",
    "torch",
)
"""The packages whose version can change a result or the record of it."""


def code_state(root: Path, *, outputs: Sequence[str] = ()) -> CodeState:
    """Return the version of the code in a lab.

    Outside git, or before a first commit, the commit is ``none`` and the state counts as dirty:
    nothing pins it.

    Args:
        root: a folder of the work tree.
        outputs: folders below it whose changes do not count (what the workbench itself writes).
    """
    found = _git(root, "rev-parse", "--verify", "HEAD")
    commit = found.strip() if found else NO_COMMIT
    dirty = not found or bool(dirty_files(root, outputs=outputs))
    return CodeState(commit=commit, dirty=dirty, workbench=workbench.__version__)


def dirty_files(root: Path, *, outputs: Sequence[str] = ()) -> list[str]:
    """Return what differs from the last commit, relative to the repository's root, sorted.

    Untracked files count, ignored ones do not. Empty outside git.
    """
    excluded = [f":(exclude){folder}" for folder in outputs]
    answer = _git(
        root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames",
        "--", ":/", *excluded,
    )  # fmt: skip
    # Each record is two letters of state, a space and the path.
    return sorted(record[3:] for record in (answer or "").split("\0") if record)


def changed_files(
    root: Path, before: str, after: str, *, outputs: Sequence[str] = ()
) -> list[str] | None:
    """Return the files that differ between two commits, relative to the repository, sorted.

    None where one of the commits is not in this repository.

    Args:
        root: a folder of the work tree.
        before: a commit.
        after: another one.
        outputs: folders below the root whose changes do not count.
    """
    excluded = [f":(exclude){folder}" for folder in outputs]
    try:
        answer = _git(
            root, "diff", "--name-only", "--no-renames", "-z", before, after, "--", ":/", *excluded
        )
    except ConflictError:
        return None
    return None if answer is None else sorted(name for name in answer.split("\0") if name)


def ensure_repository(root: Path) -> bool:
    """Make the folder a git repository unless it lies in one; return whether it was made.

    A folder that the repository around it ignores gets its own: nothing in it could be committed.

    Raises:
        MissingDependencyError: git is not installed.
        ConflictError: git refused.
    """
    around = _git(root, "rev-parse", "--show-toplevel")
    if around is not None and not _is_ignored(root):
        return False
    require_git()
    _git(root, "init", "--quiet")
    return True


def require_git() -> None:
    """Do nothing where git is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    if shutil.which("git") is None:
        raise MissingDependencyError(
            "git is not installed, so no registration could name its code",
            remedy="install git, then run the command again",
        )


def _is_ignored(root: Path) -> bool:
    command = ["git", "-C", str(root), "check-ignore", "--quiet", str(root)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None outside a repository or before its first commit."""
    # Optional locks off: reading the state must not write into the user's repository.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    # Inside a git hook these name another repository than the folder's.
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    variables = {name: value for name, value in os.environ.items() if name not in elsewhere}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=variables | {"LC_ALL": "C"}
        )
    except FileNotFoundError:
        return None
    if done.returncode == 0:
        return done.stdout
    if "not a git repository" in done.stderr or "Needed a single revision" in done.stderr:
        return None
    raise ConflictError(
        f"git refused to describe {root}: {done.stderr.strip()}",
        remedy=f"git -C {root} status",
    )


def environment() -> dict[str, str]:
    """Return Python, platform and the versions of installed packages that matter; imports none."""
    versions = {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "platform": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "workbench": workbench.__version__,
    }
    for name in DISTRIBUTIONS:
        try:
            versions[re.sub(r"[^a-z0-9]", "_", name)] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def host() -> dict[str, str]:
    """Return what of this machine can change a result or its speed; no names of people or hosts."""
    facts = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": str(os.cpu_count() or 0),
        "usable_cpus": str(len(os.sched_getaffinity(0))),
        "memory_bytes": str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "accelerators": _accelerators(),
    }
    return {key: value for key, value in facts.items() if value}


def _accelerators(driver: Path = Path("/proc/driver/nvidia/gpus")) -> str:
    """Return ``2 × NVIDIA H200`` and the like as the kernel driver tells it, empty without one."""
    models: Counter[str] = Counter()
    for file in sorted(driver.glob("*/information")):
        found = re.search(r"^Model:\s*(.+)$", file.read_text("utf-8"), re.MULTILINE)
        models[found[1].strip() if found else "unknown"] += 1
    return ", ".join(f"{count} × {model}" for model, count in sorted(models.items()))


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    if not cpuinfo.is_file():
        return platform.processor()
    match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text("utf-8"), re.MULTILINE)
    return match[1].strip() if match else platform.processor()
