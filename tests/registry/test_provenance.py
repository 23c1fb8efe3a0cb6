"""Which code and which machine."""

import getpass
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import ConflictError, MissingDependencyError
from workbench.registry import provenance
from workbench.registry.provenance import (
    changed_files,
    code_state,
    dirty_files,
    ensure_repository,
    environment,
    host,
)


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "répo with spaces"
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "file").write_text("one")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "first")
    return folder


def test_code_state_clean_work_tree_names_its_commit(repository: Path) -> None:
    state = code_state(repository)
    assert state.commit == _git(repository, "rev-parse", "HEAD")
    assert not state.dirty
    assert dirty_files(repository) == []


def test_dirty_files_names_changed_staged_deleted_and_untracked_but_not_ignored(
    repository: Path,
) -> None:
    (repository / "file").unlink()
    (repository / "sub").mkdir()
    (repository / "sub" / "é\n new").write_text("x")
    (repository / "staged").write_text("x")
    (repository / "ignored").write_text("x")
    _git(repository, "add", "staged")
    assert dirty_files(repository) == ["file", "staged", "sub/é\n new"]
    assert code_state(repository / "sub").dirty


def test_dirty_files_renamed_file_is_named_twice(repository: Path) -> None:
    _git(repository, "mv", "file", "other")
    assert dirty_files(repository) == ["file", "other"]


def test_dirty_files_leaves_out_what_the_workbench_writes(repository: Path) -> None:
    (repository / "lab" / "registry").mkdir(parents=True)
    (repository / "lab" / "registry" / "checkpoint").write_text("x")
    (repository / "lab" / "proposal").write_text("x")
    lab = repository / "lab"
    assert dirty_files(lab, outputs=["registry"]) == ["lab/proposal"]
    (lab / "proposal").unlink()
    assert not code_state(lab, outputs=["registry", "reports"]).dirty
    assert code_state(lab).dirty


def test_code_state_outside_git_or_before_a_commit_is_unpinned(tmp_path: Path) -> None:
    assert code_state(tmp_path).commit == "none"
    assert code_state(tmp_path).dirty
    assert dirty_files(tmp_path) == []
    _git(tmp_path, "init", "-q")
    assert code_state(tmp_path).commit == "none"
    assert code_state(tmp_path).dirty


def test_code_state_inside_a_hook_of_another_repository_is_of_the_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _git(tmp_path, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert code_state(repository).commit != "none"


def test_code_state_broken_repository_is_refused(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[broken")
    with pytest.raises(ConflictError, match="git refused") as refusal:
        code_state(repository)
    assert "git -C" in refusal.value.remedy


def test_code_state_without_git_installed_is_unpinned(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert code_state(repository).commit == "none"


def test_ensure_repository_makes_one_only_where_there_is_none(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "lab").mkdir()
    assert not ensure_repository(repository / "lab")
    assert not (repository / "lab" / ".git").exists()
    (tmp_path / "new").mkdir()
    assert ensure_repository(tmp_path / "new")
    assert not ensure_repository(tmp_path / "new")
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingDependencyError, match="git is not installed"):
        ensure_repository(tmp_path / "other")


def test_environment_has_snake_case_keys_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from workbench.registry.provenance import environment, host;"
        "environment(); host();"
        "print([m for m in ('torch', 'mlflow', 'optuna', 'datasets', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    found = environment()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "sqlalchemy" in found
    assert all(key.isidentifier() and key == key.lower() for key in found)


def test_environment_package_that_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provenance, "DISTRIBUTIONS", ("no-such-package",))
    assert "no_such_package" not in environment()


def test_host_names_no_person_and_no_host() -> None:
    facts = host()
    assert int(facts["cpus"]) >= int(facts["usable_cpus"]) >= 1
    assert int(facts["memory_bytes"]) > 2**20
    known = {"system", "machine", "cpu", "cpus", "usable_cpus", "memory_bytes", "accelerators"}
    assert set(facts) <= known
    text = " ".join(facts.values()).split()
    assert platform.node() not in text
    assert getpass.getuser() not in text


def test_host_counts_accelerators_by_model(tmp_path: Path) -> None:
    assert provenance._accelerators(tmp_path) == ""
    for place, text in enumerate(["Model: \t\t NVIDIA H200\nIRQ: 1\n"] * 2 + ["no model\n"]):
        (tmp_path / f"0000:0{place}:00.0").mkdir()
        (tmp_path / f"0000:0{place}:00.0" / "information").write_text(text, "utf-8")
    assert provenance._accelerators(tmp_path) == "2 × NVIDIA H200, 1 × unknown"


def test_changed_files_are_those_outside_of_the_outputs(tmp_path: Path) -> None:
    repository = tmp_path / "lab"
    _git(repository.parent, "init", "-q", "lab")
    commits = []
    for name in ("code.py", "reports/a.md", "more.py"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("x", "utf-8")
        _git(repository, "add", "-A")
        _git(repository, "commit", "-q", "-m", name)
        commits.append(code_state(repository).commit)
    first, second, third = commits
    assert changed_files(repository, first, second, outputs=["reports"]) == []
    assert changed_files(repository, first, third) == ["more.py", "reports/a.md"]
    assert changed_files(repository, first, "e" * 40) is None
    assert changed_files(tmp_path / "elsewhere", first, second) is None


def test_host_cpu_model_falls_back_where_the_kernel_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name : Some CPU\n")
    assert provenance._cpu_model(tmp_path / "cpuinfo") == "Some CPU"
    (tmp_path / "cpuinfo").write_text("nothing\n")
    assert provenance._cpu_model(tmp_path / "cpuinfo") != "nothing"
    assert isinstance(provenance._cpu_model(tmp_path / "none"), str)
