"""Others' MLflow runs, read without writing anything to their store.

MLflow migrates a database that it opens and makes folders in a file store, so that a local store is
copied first, without its artifacts, and the copy is opened. A server is asked as it is.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mlflow.store.db.utils
import mlflow.telemetry
from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError
from workbench.training.tracking import quiet_mlflow

_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"
_LARGEST = 1.7976931348623157e308
"""What a database holds for an infinity."""
_LEFT_OUT = shutil.ignore_patterns("artifacts", ".trash", "traces", "models", "datasets", "outputs")
_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class ElsewhereRun:
    """One run of somebody's."""

    run_id: str
    name: str
    status: str
    """MLflow's word: FINISHED, RUNNING, FAILED, KILLED or SCHEDULED."""
    started_ms: int
    """Since 1970."""
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    """The last value of each."""


@dataclass(frozen=True, kw_only=True)
class ElsewhereExperiment:
    """The runs of one experiment, in the order in which they started."""

    name: str
    runs: tuple[ElsewhereRun, ...]
    num_deleted: int
    """Runs that were deleted in MLflow; not among ``runs``."""


def read_experiment(uri: str, name: str) -> ElsewhereExperiment:
    """Return an MLflow experiment's runs. Writes nothing to the store.

    Args:
        uri: ``sqlite:///FILE``, a file store's folder (also as ``file:``), or a server's http(s).
        name: The experiment's name.

    Raises:
        InvalidFileError: another kind of URI.
        NotFoundError: there is no such store or experiment; names those that there are.
        StoreUnavailableError: the store cannot be read, or is being written.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.telemetry.set_telemetry_client()  # type: ignore[no-untyped-call]
    try:
        with quiet_mlflow(), _readable(uri) as readable:
            return _experiment(MlflowClient(tracking_uri=readable), name)
    except MlflowException as error:
        raise StoreUnavailableError(
            f"the MLflow store at {shown_uri(uri)} cannot be read: {error.message[:300]}",
            remedy="check the URI, and that an mlflow at least as new as the store's is installed",
        ) from error


def shown_uri(uri: str) -> str:
    """Return the URI without a name or password in it."""
    parts = urlsplit(uri)
    return uri.replace(f"{parts.netloc.rpartition('@')[0]}@", "") if "@" in parts.netloc else uri


def _experiment(client: MlflowClient, name: str) -> ElsewhereExperiment:
    chosen = client.get_experiment_by_name(name)
    if chosen is None or chosen.lifecycle_stage != "active":
        there = client.search_experiments(view_type=ViewType.ACTIVE_ONLY, max_results=20)
        known = ", ".join(sorted(repr(experiment.name) for experiment in there))
        gone = " any more: it was deleted" if chosen is not None else ""
        raise NotFoundError(
            f"MLflow has no experiment {name!r}{gone} (it has {known or 'none'})",
            remedy="name one with --experiment",
        )
    runs = [_run(run) for run in _runs(client, chosen.experiment_id, ViewType.ACTIVE_ONLY)]
    deleted = list(_runs(client, chosen.experiment_id, ViewType.DELETED_ONLY))
    return ElsewhereExperiment(
        name=chosen.name,
        runs=tuple(sorted(runs, key=lambda run: (run.started_ms, run.run_id))),
        num_deleted=len(deleted),
    )


def _runs(client: MlflowClient, experiment_id: str, view: int) -> Iterator[Run]:
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], run_view_type=view, max_results=1000, page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


def _run(run: Run) -> ElsewhereRun:
    return ElsewhereRun(
        run_id=run.info.run_id,
        name=run.info.run_name or run.info.run_id[:8],
        status=run.info.status,
        started_ms=run.info.start_time or 0,
        tags=dict(run.data.tags),
        params=dict(run.data.params),
        metrics={key: _number(value) for key, value in run.data.metrics.items()},
    )


def _number(value: float) -> float:
    return value if abs(value) < _LARGEST or value != value else value * 2


@contextlib.contextmanager
def _readable(uri: str) -> Iterator[str]:
    """Give a URI that MLflow may open: a server's own, or that of a copy."""
    if uri.startswith(("http://", "https://")):
        yield uri
        return
    database, folder = _local(uri)
    with tempfile.TemporaryDirectory(prefix="workbench-mlflow-") as place:
        if database is not None:
            copy = _copied_database(database, Path(place))
            yield f"sqlite:///{copy}"
            return
        copy = Path(place) / "store"
        shutil.copytree(folder, copy, ignore=_LEFT_OUT)
        before = os.environ.get(_FILE_STORE)
        os.environ[_FILE_STORE] = "true"
        try:
            yield copy.as_uri()
        finally:
            if before is None:
                del os.environ[_FILE_STORE]
            else:
                os.environ[_FILE_STORE] = before


def _local(uri: str) -> tuple[Path | None, Path]:
    """Return the file of a SQLite store, or None and the folder of a file store."""
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        if not path.is_file():
            raise NotFoundError(f"MLflow store {path} does not exist", remedy="check the URI")
        return path, path
    scheme = urlsplit(uri).scheme
    if scheme not in ("", "file"):
        raise InvalidFileError(
            f"{shown_uri(uri)} is not a store that can be read without opening it to write",
            remedy="give sqlite:///FILE, a folder like mlruns, or the http address of "
            "mlflow server --backend-store-uri URI",
        )
    folder = Path(unquote(urlsplit(uri).path) if scheme else uri)
    if not folder.is_dir():
        remedy = f"write sqlite:///{folder}" if folder.is_file() else "check the URI"
        raise NotFoundError(f"MLflow store {folder} is no folder", remedy=remedy)
    return None, folder


def _copied_database(file: Path, place: Path) -> Path:
    """Return a whole copy of a SQLite file at its newest schema; the file is only read as bytes."""
    copy = place / "mlflow.db"
    for _ in range(_TRIES):
        before = _state(file)
        for suffix in ("", "-wal", "-journal"):
            part = file.with_name(file.name + suffix)
            # What an earlier try left must not be taken for a part of this one.
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(part, copy.with_name(copy.name + suffix))
        if _state(file) == before:
            break
    else:
        raise StoreUnavailableError(
            f"MLflow store {file} is being written to",
            remedy="repeat the command when it is at rest, or give its server's http address",
        )
    try:
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            # Folds the log of recent writes in, and finds a copy that is not whole.
            told = connection.execute("PRAGMA quick_check").fetchone()[0]
            connection.execute("PRAGMA journal_mode=DELETE")
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"{file} is no SQLite database: {error}") from error
    if told != "ok" or "experiments" not in tables:
        what = "is damaged" if told != "ok" else "holds no MLflow experiments"
        raise StoreUnavailableError(f"MLflow store {file} {what}", remedy="check the URI")
    _upgrade(copy)
    return copy


def _state(file: Path) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for suffix in ("", "-wal", "-journal"):
        try:
            status = file.with_name(file.name + suffix).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found


def _upgrade(copy: Path) -> None:
    utils = mlflow.store.db.utils
    engine = utils.create_sqlalchemy_engine_with_retry(f"sqlite:///{copy}")  # type: ignore[no-untyped-call]
    try:
        if utils._get_schema_version(engine) != utils._get_latest_schema_revision():  # type: ignore[no-untyped-call]
            utils._upgrade_db(engine)  # type: ignore[no-untyped-call]
    except MlflowException:
        raise
    except Exception as error:  # alembic's, of a schema that this version does not know
        detail = " ".join(str(error).split())[:200]
        raise StoreUnavailableError(
            f"the installed mlflow cannot read this store's schema: {detail}",
            remedy="pip install --upgrade mlflow",
        ) from error
    finally:
        engine.dispose()
