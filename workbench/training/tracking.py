"""MLflow tracking without its global active run: every call names the run that it means.

MLflow is for looking at runs while they happen and for comparing them. The ledger is the record.
"""

import contextlib
import hashlib
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import mlflow.telemetry
from mlflow.entities import Experiment, Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from workbench.canonical import decimal
from workbench.errors import (
    ConflictError,
    InvalidFileError,
    NotFoundError,
    StoreUnavailableError,
    WorkbenchError,
)
from workbench.layout import safe_name
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.tracking_file import (
    alone,
    create_whole,
    unusable,
    use_write_ahead_log,
)

Status: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]
"""MLflow's terminal states."""

STATUS_OF_OUTCOME: Mapping[str, Status] = {
    "completed": "FINISHED",
    "pruned": "KILLED",
    "killed": "KILLED",
    "lost": "KILLED",
    "failed": "FAILED",
    "diverged": "FAILED",
}
"""How an outcome of a run or a trial shows in MLflow, which knows fewer of them."""

LONGEST_VALUE = 250
"""Characters that every MLflow version and backend takes as a parameter."""

_LOGGED_FIELDS = (
    "tokens",
    "loss",
    "lr",
    "grad_norm",
    "router_entropy",
    "max_expert_share",
    "capacity_utilization",
    "aux_loss",
    "step_seconds",
)
_METRICS_A_BATCH = 1000
_ITEMS_A_BATCH = 100
_FLUSH_SECONDS = 2.0
_KEPT_WHILE_UNAVAILABLE = 200_000


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """What MLflow holds about a run."""

    run_id: str
    name: str
    status: str
    tags: Mapping[str, str]
    params: Mapping[str, str]


class Tracker:
    """One MLflow experiment in one store."""

    def __init__(self, uri: str, artifact_root: Path, experiment: str) -> None:
        """Connect, and create the schema and the experiment where they are missing.

        Raises:
            InvalidFileError: the experiment's name cannot be a folder's.
            StoreUnavailableError: the store cannot be reached or written.
        """
        self._uri = uri
        self._artifacts = artifact_root.resolve() / safe_name(experiment)
        self._name = experiment
        # MLflow reports usage to its makers unless told otherwise; a lab's runs are its own.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        mlflow.telemetry.set_telemetry_client()  # type: ignore[no-untyped-call]
        self.ensure_schema()
        self._experiment_id = self._find_or_create_experiment()

    def ensure_schema(self) -> None:
        """Create or migrate the store's tables, one process at a time.

        Raises:
            StoreUnavailableError: the store cannot be reached or written.
        """
        # A failure is raised and told by us; the log would repeat it with a traceback.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        with quiet_mlflow(), _explained(self._uri), alone(self._uri):
            create_whole(self._uri, MlflowClient)
            use_write_ahead_log(self._uri)
            try:
                self._client = MlflowClient(tracking_uri=self._uri)
            except MlflowException:
                raise
            except Exception as error:  # every driver has its own ways to say no
                raise unusable(self._uri, error) from error

    def start_run(
        self,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, object],
        parent: str | None = None,
    ) -> str:
        """Return the id of a new running run.

        Values longer than MLflow takes become artifacts; the parameter then holds their SHA-256.

        Raises:
            InvalidFileError: a name with control characters, or a key that cannot be a file name.
            StoreUnavailableError: the store cannot be reached or written.
        """
        if not name.isprintable() or not 0 < len(name) <= LONGEST_VALUE:
            raise InvalidFileError(
                f"run name {name!r} is not 1 to {LONGEST_VALUE} printable characters",
                remedy="give the run a short printable name",
            )
        with _explained(self._uri):
            parentage = {} if parent is None else {"mlflow.parentRunId": parent}
            # With the run itself, so that a kill never leaves one without its tags.
            short = {key: value for key, value in tags.items() if len(value) <= LONGEST_VALUE}
            run = self._client.create_run(
                self._experiment_id, run_name=name, tags=parentage | short
            )
            run_id: str = run.info.run_id
            self.tag(run_id, {key: value for key, value in tags.items() if key not in short})
            items = [Param(k, self._short(run_id, "params", k, v)) for k, v in params.items()]
            for begin in range(0, len(items), _ITEMS_A_BATCH):
                self._client.log_batch(run_id, params=items[begin : begin + _ITEMS_A_BATCH])
        return run_id

    def resume_run(self, run_id: str, *, attempt: int, from_step: int) -> None:
        """Continue a run under its own id as another attempt.

        Raises:
            ConflictError: the run has finished.
            NotFoundError: there is no such run.
        """
        status = self.run(run_id).status
        if status == "FINISHED":
            raise ConflictError(
                f"MLflow run {run_id} has finished and cannot be resumed",
                remedy="workbench status",
            )
        with _explained(self._uri):
            if status != "RUNNING":
                self._client.update_run(run_id, status="RUNNING")
        tags = {"workbench.attempt": str(attempt)}
        tags[f"workbench.attempt_{attempt}_resumed_from"] = str(from_step)
        self.tag(run_id, tags)

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of a run; values longer than MLflow takes become artifacts.

        Raises:
            NotFoundError: there is no such run.
        """
        items = [RunTag(k, self._short(run_id, "tags", k, v)) for k, v in tags.items()]
        with _explained(self._uri):
            for begin in range(0, len(items), _ITEMS_A_BATCH):
                self._client.log_batch(run_id, tags=items[begin : begin + _ITEMS_A_BATCH])

    def recorder(self, run_id: str, *, time: float = 0.0) -> "MlflowRecorder":
        """Return a recorder that writes to the run.

        Args:
            run_id: The run.
            time: Seconds since 1970 of evaluations that come before any telemetry.
        """
        return MlflowRecorder(self._client, self._uri, run_id, began=time)

    def finish(self, run_id: str, status: Status, *, outcome: str = "") -> str:
        """End a run and return the status that it now has: a terminal one is never overwritten.

        The outcome, the workbench's finer word for the status, becomes a tag.

        Raises:
            NotFoundError: there is no such run.
        """
        if status not in get_args(Status):
            raise ValueError(f"status {status!r} is not one of {get_args(Status)}")
        present = self.run(run_id).status
        if present in get_args(Status):
            return present
        if outcome:
            self.tag(run_id, {"workbench.outcome": outcome})
        with _explained(self._uri):
            self._client.set_terminated(run_id, status=status)
        return status

    def run(self, run_id: str) -> TrackedRun:
        """Return what MLflow holds about a run.

        Raises:
            NotFoundError: there is no such run.
        """
        with _explained(self._uri):
            return _tracked(self._client.get_run(run_id))

    def has(self, run_id: str) -> bool:
        """Return whether MLflow holds the run: not after its store was deleted or replaced."""
        try:
            self.run(run_id)
        except NotFoundError:
            return False
        return True

    def find_runs(self, tags: Mapping[str, str], *, status: str | None = None) -> list[TrackedRun]:
        """Return every run of the experiment with all of the tags, however many there are."""
        terms = [f"tags.`{key}` = '{_quotable(value)}'" for key, value in tags.items()]
        terms += [] if status is None else [f"attributes.status = '{_quotable(status)}'"]
        found: list[TrackedRun] = []
        token: str | None = None
        while True:
            with _explained(self._uri):
                page = self._client.search_runs(
                    [self._experiment_id],
                    filter_string=" and ".join(terms),
                    run_view_type=ViewType.ACTIVE_ONLY,
                    max_results=1000,
                    order_by=["attributes.start_time ASC"],
                    page_token=token,
                )
            found += [_tracked(run) for run in page]
            token = page.token
            if not token:
                return found

    def series(self, run_id: str, key: str) -> list[tuple[int, float]]:
        """Return (step, value) of a metric in the order of logging."""
        with _explained(self._uri):
            history = self._client.get_metric_history(run_id, key)
        return [(metric.step, metric.value) for metric in history]

    def _find_or_create_experiment(self) -> str:
        with _explained(self._uri), alone(self._uri):
            found: Experiment | None = self._client.get_experiment_by_name(self._name)
            if found is None:
                location = self._artifacts.as_uri()
                return str(self._client.create_experiment(self._name, artifact_location=location))
        if found.lifecycle_stage != "active":
            raise ConflictError(
                f"MLflow experiment {self._name!r} was deleted there",
                remedy=f"mlflow experiments restore --experiment-id {found.experiment_id}",
            )
        return str(found.experiment_id)

    def _short(self, run_id: str, folder: str, key: str, value: object) -> str:
        text = decimal(value) if isinstance(value, float) else str(value)
        if len(text) <= LONGEST_VALUE:
            return text
        file = f"{folder}/{safe_name(key)}.txt"
        self._client.log_text(run_id, text, file)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"sha256:{digest} ({len(text)} characters in artifact {file})"


class MlflowRecorder:
    """Writes telemetry and evaluations to one run, in batches.

    A non-finite value never becomes a number in MLflow, where an infinity reads back as 1.8e308: it
    is tagged. While the store cannot be written, values wait; `close` says what was lost.
    """

    def __init__(
        self,
        client: MlflowClient,
        uri: str,
        run_id: str,
        *,
        began: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_id = run_id
        self._client = client
        self._uri = uri
        self._monotonic = monotonic
        self._metrics: list[Metric] = []
        self._tags: dict[str, str] = {}
        self._non_finite: dict[str, int] = {}
        self._last_step = 0
        self._last_time_ms = int(began * 1000)
        self._flushed_at = monotonic()

    def telemetry(self, row: TelemetryRow) -> None:
        """Record a step's row.

        Raises:
            ValueError: the step is not later than the one before.
        """
        if row.step <= self._last_step:
            raise ValueError(f"step {row.step} was recorded after step {self._last_step}")
        self._last_step = row.step
        self._last_time_ms = int(row.time * 1000)
        for field in _LOGGED_FIELDS:
            value = getattr(row, field)
            if value is not None:
                self._add(field, float(value), row.step)
        due = self._monotonic() - self._flushed_at > _FLUSH_SECONDS
        if due or len(self._metrics) >= _METRICS_A_BATCH:
            self._flush_or_keep()

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Record validation metrics."""
        for key, value in values.items():
            self._add(key, value, step)

    def checkpoint(self, step: int, path: Path, sha256: str) -> None:
        """Record which checkpoint is the newest."""
        self._tags["workbench.checkpoint"] = f"{path.name} sha256:{sha256}"
        self._tags["workbench.checkpoint_step"] = str(step)

    def close(self) -> None:
        """Write what is waiting.

        Raises:
            StoreUnavailableError: it could not be written.
        """
        waiting = len(self._metrics)
        try:
            self._flush()
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"{waiting} metric values of MLflow run {self.run_id} could not be written: "
                f"{error.message}",
                remedy="the run's telemetry file has them all",
            ) from error

    def _add(self, key: str, value: float, step: int) -> None:
        if math.isfinite(value):
            self._metrics.append(Metric(key, value, self._last_time_ms, step))
            return
        count = self._non_finite.get(key, 0) + 1
        self._non_finite[key] = count
        tag = f"workbench.non_finite.{key}"
        if count == 1:
            self._tags[tag] = f"{decimal(value)} at step {step}"

    def _flush_or_keep(self) -> None:
        try:
            self._flush()
        except WorkbenchError:
            self._flushed_at = self._monotonic()
            if len(self._metrics) > _KEPT_WHILE_UNAVAILABLE:
                raise

    def _flush(self) -> None:
        with _explained(self._uri):
            while self._metrics:
                self._client.log_batch(self.run_id, metrics=self._metrics[:_METRICS_A_BATCH])
                del self._metrics[:_METRICS_A_BATCH]
            if self._tags:
                tags = [RunTag(key, value) for key, value in self._tags.items()]
                self._client.log_batch(self.run_id, tags=tags)
                self._tags.clear()
        self._flushed_at = self._monotonic()


def _tracked(run: Run) -> TrackedRun:
    return TrackedRun(
        run_id=run.info.run_id,
        name=run.info.run_name or "",
        status=run.info.status,
        tags=dict(run.data.tags),
        params=dict(run.data.params),
    )


def _quotable(value: str) -> str:
    if "'" in value or "\\" in value:
        raise ValueError(f"{value!r} cannot stand in an MLflow filter")
    return value


@contextlib.contextmanager
def quiet_mlflow() -> Iterator[None]:
    """Keep the migration's log lines and SQLAlchemy's notice to MLflow's authors off the screen."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*``noload`` loader strategy")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def _explained(uri: str) -> Iterator[None]:
    try:
        yield
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            raise NotFoundError(
                f"MLflow has no such run or experiment: {error.message}",
                remedy="workbench status",
            ) from error
        raise StoreUnavailableError(
            f"the MLflow store refused: {error.message}",
            remedy=f"check that {uri.partition('?')[0].rpartition('@')[2]} can be written",
        ) from error
