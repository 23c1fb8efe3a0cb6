"""The heads that a git history holds: a commit that others have fetched is an anchor.

Nothing here is required: without git, or outside a repository, there are simply no such heads.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workbench.registry.log import timestamp

SHORT = 12
"""Characters of a commit's name that are shown."""


@dataclass(frozen=True, kw_only=True)
class HeadCommit:
    """A commit that changed the file of the published head."""

    commit: str
    time: str
    """RFC 3339, of the committer's machine: whoever makes a commit chooses its date. Empty where it
    is none of the years 1 to 9999."""
    note: str
    """What the file then held; unverified."""
    is_shared: bool
    """Whether a remote branch, as last fetched or pushed, or a tag has it."""


def head_commits(file: Path) -> list[HeadCommit]:
    """Return the history of a file on the present branch, oldest first; empty outside git.

    Args:
        file: the published head, ``registry/checkpoint``.
    """
    folder = file.resolve().parent
    listed = _git(folder, ["log", "--reverse", "--format=%H %cI", "HEAD", "--", file.name])
    found = [line.split(" ", 1) for line in (listed or b"").decode("utf-8", "replace").splitlines()]
    unshared = ["rev-list", "HEAD", "--not", "--remotes", "--tags", "--", file.name]
    private = set((_git(folder, unshared) or b"").decode().split())
    prefix = (_git(folder, ["rev-parse", "--show-prefix"]) or b"").decode("utf-8").strip()
    names = [f"{commit}:{prefix}{file.name}" for commit, _ in found]
    contents = _contents(folder, names)
    return [
        HeadCommit(
            commit=commit,
            time=_utc(time),
            note=content.decode("utf-8", "replace"),
            is_shared=commit not in private,
        )
        for (commit, time), content in zip(found, contents, strict=True)
        if content is not None
    ]


def _utc(time: str) -> str:
    try:
        return timestamp(datetime.fromisoformat(time).astimezone(UTC))
    except (ValueError, OverflowError):
        return ""


def _contents(folder: Path, names: Sequence[str]) -> list[bytes | None]:
    """Return the objects of these names, None for each that is not there."""
    told = _git(folder, ["cat-file", "--batch"], "".join(f"{name}\n" for name in names).encode())
    found: list[bytes | None] = []
    rest = told or b""
    for _ in names:
        header, _, rest = rest.partition(b"\n")
        words = header.split()
        if len(words) != 3 or words[1] != b"blob":
            found.append(None)
            continue
        size = int(words[2])
        found.append(rest[:size])
        rest = rest[size + 1 :]
    return found


def _git(folder: Path, arguments: Sequence[str], given: bytes = b"") -> bytes | None:
    """Return what git prints; None where it is not installed or refuses."""
    # Inside a git hook these name another repository than the folder's.
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    variables = {name: value for name, value in os.environ.items() if name not in elsewhere}
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, check=False, env=variables | {"LC_ALL": "C"}
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
