"""Reading others' MLflow stores leaves them as they were, to the last byte."""

import hashlib
import logging
import math
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy
from mlflow.store.db import utils
from mlflow.store.tracking.dbmodels.initial_models import Base as InitialBase
from mlflow.tracking import MlflowClient

from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError
from workbench.training.tracked_elsewhere import read_experiment, shown_uri
from workbench.training.tracking import quiet_mlflow


def fill(client: MlflowClient, artifacts: Path) -> None:
    """Log what somebody else might have: retries, a run at work, one that diverged, one deleted."""
    made = client.create_experiment("theirs", artifact_location=artifacts.as_uri())
    client.create_experiment("another", artifact_location=artifacts.as_uri())
    for index, (status, values) in enumerate(
        [("FINISHED", [3.0, 2.5]), ("FINISHED", [math.nan]), ("RUNNING", [2.9]),
         ("FINISHED", [math.inf]), ("FINISHED", [1.0])]
    ):  # fmt: skip
        run = client.create_run(made, run_name=f"r{index}", tags={"arm": "a"}, start_time=index + 1)
        client.log_param(run.info.run_id, "seed", index)
        for step, value in enumerate(values):
            client.log_metric(run.info.run_id, "loss", value, step=step)
        if status != "RUNNING":
            client.set_terminated(run.info.run_id, status)
    client.delete_run(run.info.run_id)


def everything(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    with quiet_mlflow():
        fill(MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db"), folder / "artifacts")
    return folder / "mlflow.db"


@pytest.fixture
def sqlite_store(database: Path, tmp_path: Path) -> tuple[str, Path]:
    folder = tmp_path / "theirs"
    folder.mkdir()
    shutil.copy(database, folder)
    return f"sqlite:///{folder}/mlflow.db", folder


@pytest.fixture
def file_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    folder = tmp_path / "mlruns"
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        fill(MlflowClient(tracking_uri=folder.as_uri()), tmp_path / "artifacts")
    # As a store that was copied without it.
    shutil.rmtree(folder / ".trash")
    return folder.as_uri(), folder


@pytest.fixture(params=["sqlite_store", "file_store"])
def store(request: pytest.FixtureRequest) -> tuple[str, Path]:
    found: tuple[str, Path] = request.getfixturevalue(request.param)
    return found


def test_store_is_read_and_left_as_it_was(store: tuple[str, Path]) -> None:
    uri, folder = store
    before = everything(folder)
    found = read_experiment(uri, "theirs")
    assert everything(folder) == before
    assert [(run.name, run.status) for run in found.runs] == [
        ("r0", "FINISHED"), ("r1", "FINISHED"), ("r2", "RUNNING"), ("r3", "FINISHED"),
    ]  # fmt: skip
    values = [run.metrics["loss"] for run in found.runs]
    assert (values[0], values[2], values[3]) == (2.5, 2.9, math.inf)
    assert math.isnan(values[1])
    assert [run.params["seed"] for run in found.runs] == ["0", "1", "2", "3"]
    assert found.runs[0].tags["arm"] == "a"
    assert found.num_deleted == 1


def test_plain_folder_is_a_file_store(file_store: tuple[str, Path]) -> None:
    assert len(read_experiment(str(file_store[1]), "theirs").runs) == 4


def test_database_with_a_log_of_recent_writes_is_read_with_them(
    sqlite_store: tuple[str, Path],
) -> None:
    uri, folder = sqlite_store
    connection = sqlite3.connect(folder / "mlflow.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("UPDATE experiments SET name = 'renamed' WHERE name = 'theirs'")
    assert (folder / "mlflow.db-wal").stat().st_size > 0
    before = everything(folder)
    assert len(read_experiment(uri, "renamed").runs) == 4
    assert everything(folder) == before
    connection.close()


def test_experiment_that_is_not_there_names_those_that_are(sqlite_store: tuple[str, Path]) -> None:
    with pytest.raises(NotFoundError, match="it has 'Default', 'another', 'theirs'"):
        read_experiment(sqlite_store[0], "mine")


def test_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for uri in (f"sqlite:///{tmp_path}/none.db", str(tmp_path / "none"), f"file://{tmp_path}/no"):
        with pytest.raises(NotFoundError):
            read_experiment(uri, "theirs")
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    sqlite3.connect(file).execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(StoreUnavailableError, match="holds no MLflow experiments"):
        read_experiment(f"sqlite:///{file}", "theirs")
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnavailableError, match="no SQLite database"):
        read_experiment(f"sqlite:///{file}", "theirs")
    with pytest.raises(NotFoundError, match="write sqlite:///"):
        read_experiment(str(file), "theirs")


def test_database_server_is_refused_without_telling_its_password() -> None:
    uri = "postgresql://ann:secret@host/db"
    with pytest.raises(InvalidFileError, match="postgresql://host/db is not a store") as refused:
        read_experiment(uri, "theirs")
    assert "secret" not in str(refused.value)
    assert shown_uri("http://host:5000") == "http://host:5000"


def test_database_that_is_being_written_is_refused(
    sqlite_store: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, folder = sqlite_store
    plain: Callable[..., object] = shutil.copyfile

    def copying(source: Path, target: Path) -> object:
        done = plain(source, target)
        if source.name == "mlflow.db":
            with (folder / "mlflow.db").open("ab") as file:
                file.write(b"\0")
        return done

    monkeypatch.setattr(shutil, "copyfile", copying)
    with pytest.raises(StoreUnavailableError, match="is being written to"):
        read_experiment(uri, "theirs")


@pytest.mark.slow
def test_database_of_an_older_mlflow_is_read_and_not_migrated(tmp_path: Path) -> None:
    from alembic import command

    file = tmp_path / "mlflow.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{file}")
    InitialBase.metadata.create_all(engine)
    logging.disable(logging.INFO)
    config = utils._get_alembic_config(f"sqlite:///{file}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        # Of mlflow 2.0.
        command.upgrade(config, "cc1f77228345")
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage)"
                " VALUES (1, 'old', 'x', 'active')"
            )
        )
    engine.dispose()
    logging.disable(logging.NOTSET)
    before = everything(tmp_path)
    assert read_experiment(f"sqlite:///{file}", "old").runs == ()
    assert everything(tmp_path) == before
    file.write_bytes(file.read_bytes())
    with sqlite3.connect(file) as connection_:
        connection_.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    connection_.close()
    with pytest.raises(StoreUnavailableError, match="cannot read this store's schema"):
        read_experiment(f"sqlite:///{file}", "old")
