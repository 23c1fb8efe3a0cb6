"""A lab whose ledger is elsewhere, whose keys are, or whose disk nobody may write to."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import postgres
from tests.disks import disk
from workbench.cli.main import app
from workbench.errors import ConflictError, StoreUnavailableError
from workbench.lab import Lab
from workbench.registry.ledger import Ledger


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_KEYS_DIR", str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    with postgres.server() as url:
        yield f"{url}&schema=lab_one"


def test_lab_is_read_and_verified_without_its_keys(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.init(tmp_path / "lab")
    lab.note("x")
    keys.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "lab")
    source = lab.source()
    assert isinstance(source, Ledger)
    assert [entry.kind for entry in source.entries()] == ["genesis", "note"]
    ran = CliRunner().invoke(app, ["verify"])
    shown = CliRunner().invoke(app, ["status"])
    assert (ran.exit_code, shown.exit_code) == (0, 0), ran.output + shown.output


def test_lab_on_a_read_only_disk_is_read_and_verified(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lab"
    with disk(folder, "size=16m"):
        lab = Lab.init(folder)
        lab.note("x")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        monkeypatch.chdir(folder)
        ran = CliRunner().invoke(app, ["verify"])
        shown = CliRunner().invoke(app, ["status", "--json"])
        monkeypatch.chdir(tmp_path)
        assert (ran.exit_code, shown.exit_code) == (0, 0), ran.output + shown.output
        with pytest.raises(StoreUnavailableError):
            lab.note("y")


@pytest.mark.postgres
@pytest.mark.slow
def test_lab_keeps_its_ledger_in_postgres(
    keys: Path, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_STORE_URL", database)
    lab = Lab.init(tmp_path / "lab")
    lab.note("x")
    lab.publish()
    monkeypatch.chdir(tmp_path / "lab")
    source = lab.source()
    assert isinstance(source, Ledger)
    assert [entry.kind for entry in source.entries()] == ["genesis", "note"]
    ran = CliRunner().invoke(app, ["verify"])
    assert ran.exit_code == 0, ran.output
    assert not list(lab.layout.state.glob("ledger.db*"))
    # One schema holds one log.
    with pytest.raises(ConflictError, match="already holds a log"):
        Lab.init(tmp_path / "other")
    source.close()


def test_lab_whose_database_does_not_answer_says_so(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab.init(tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    url = f"postgresql://someone:geheim@/team?host={tmp_path}"
    monkeypatch.setenv("WORKBENCH_STORE_URL", url)
    with pytest.raises(StoreUnavailableError, match="PostgreSQL team at") as refusal:
        Lab.open(tmp_path / "lab").source()
    assert "geheim" not in str(refusal.value)
    assert isinstance(CliRunner().invoke(app, ["status"]).exception, StoreUnavailableError)
