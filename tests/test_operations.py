"""The commands of docs/operations.md, typed as they stand there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import postgres
from tests.labs import LabFolder

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operations.md"
TEXT = PAGE.read_text("utf-8")


def sections() -> dict[str, str]:
    """Return the text of each section by its title."""
    parts = re.split(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(title: str) -> list[str]:
    """Return the indented blocks of a section, line by line."""
    return [
        line[4:]
        for line in sections()[title].splitlines()
        if line.startswith("    ") and line.strip()
    ]


def as_is(_: LabFolder) -> None:
    pass


def lose_keys(lab: LabFolder) -> None:
    shutil.rmtree(lab.home / "keys")


def lose_store(lab: LabFolder) -> None:
    lab.open().publish()
    for path in (lab.root / ".workbench").glob("ledger.db*"):
        path.unlink()


def roll_back(lab: LabFolder) -> None:
    store = lab.root / ".workbench" / "ledger.db"
    old = store.read_bytes()
    lab.open().note("newer")
    lab.open().publish()
    for path in (lab.root / ".workbench").glob("ledger.db-*"):
        path.unlink()
    store.write_bytes(old)


def publish(lab: LabFolder) -> None:
    lab.open().publish()


SITUATIONS: dict[str, tuple[str, Callable[[LabFolder], None]]] = {
    "What to keep, and where": ("registered_stage", as_is),
    "Replace a key": ("registered_stage", publish),
    "A key was stolen": ("registered_stage", publish),
    "The keys are lost": ("registered_stage", lose_keys),
    "The store is lost": ("registered_stage", lose_store),
    "The store was rolled back": ("registered_stage", roll_back),
    "Register without publishing yet": ("filed_stage", as_is),
    "Erase what must not be kept": ("registered_stage", as_is),
}
WITHOUT_COMMANDS = {"Move to PostgreSQL", "Have somebody else keep a head"}
"""The first needs a server and has its own test; the second tells of others' commands."""


def test_every_section_is_tried_or_known_to_have_no_commands() -> None:
    assert set(sections()) == {*SITUATIONS, *WITHOUT_COMMANDS}
    assert all(commands(title) for title in SITUATIONS)
    assert not any(commands(title) for title in WITHOUT_COMMANDS)


def typed(lab: LabFolder, lines: list[str], programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines in a shell in which ``workbench`` is this checkout's."""
    programs.mkdir()
    program = programs / "workbench"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m workbench.cli.main "$@"\n')
    program.chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    git = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "lab"), ("EMAIL", "lab@example.org"))
    }
    return subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", "\n".join(lines)],
        cwd=lab.root, capture_output=True, text=True,
        env=os.environ | lab.environment | git
        | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("title", SITUATIONS)
def test_commands_of_a_section_do_what_it_says(
    title: str,
    use: Callable[[LabFolder], LabFolder],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    stage, happens = SITUATIONS[title]
    lab = use(request.getfixturevalue(stage))
    happens(lab)
    done = typed(lab, commands(title), tmp_path / "programs")
    assert done.returncode == 0, done.stderr[-3000:]
    # What is committed next must not hold what the store alone may have.
    stores = [path for path in lab.root.rglob("*") if _is_store(path)]
    assert [path.relative_to(lab.root).parts[0] for path in stores] == [".workbench"] * len(stores)
    assert "VERIFIED" in done.stdout or "verify" not in "".join(commands(title))


def _is_store(path: Path) -> bool:
    return path.is_file() and path.read_bytes()[:6] == b"SQLite"


def test_commands_name_no_copy_of_a_store_outside_of_what_git_ignores() -> None:
    named = set(re.findall(r"[\w./-]+\.db\b", TEXT))
    assert len(named) > 2
    assert {name for name in named if not name.startswith(".workbench/")} == set()


@pytest.mark.postgres
@pytest.mark.slow
def test_lab_moves_to_postgresql_by_the_commands_of_its_section(
    registered_lab: LabFolder, tmp_path: Path
) -> None:
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    (block,) = re.findall(r"```sh\n(.*?)```", sections()["Move to PostgreSQL"], re.DOTALL)
    leaves = [entry.leaf for entry in registered_lab.entries()]
    with postgres.server() as url:
        assert "postgresql://USER@HOST/DATABASE" in block
        lines = block.replace("postgresql://USER@HOST/DATABASE", shlex.quote(url)).splitlines()
        after = ["workbench note 'in the new store'", "workbench verify"]
        done = typed(registered_lab, [*lines, *after], tmp_path / "programs")
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"VERIFIED  {len(leaves)} entries" in done.stdout
        assert f"VERIFIED  {len(leaves) + 1} entries" in done.stdout
