"""Fixtures that every part's tests share."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import disks, labs
from tests.labs import LabFolder

ROOT = Path(__file__).parents[1]
# As the command line sets it (docs/decisions/0006); torch reads it when it is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def pytest_sessionstart() -> None:
    disks.remove_abandoned()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public vectors and logs; skips where they are absent."""
    folder = Path(os.environ.get("WORKBENCH_SHARED", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"shared test data not found at {folder} (set WORKBENCH_SHARED)")
    return folder


class StepClock:
    """A clock that advances one second a call, so that records repeat exactly."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Matrices as small as a tiny lab's lose more to handing work over than they gain."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# One lab, led through the loop once; each stage is kept, and a test works on a copy of its stage.


@pytest.fixture(scope="session")
def filed_stage(tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    return labs.filed(tmp_path_factory.mktemp("filed"))


@pytest.fixture(scope="session")
def registered_stage(filed_stage: LabFolder, tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    lab = filed_stage.copy(tmp_path_factory.mktemp("registered"))
    lab.open().register("1")
    lab.tracker()  # MLflow's tables take seconds to create, and every later stage copies them
    return lab


@pytest.fixture(scope="session")
def swept_stage(
    registered_stage: LabFolder, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> LabFolder:
    lab = registered_stage.copy(tmp_path_factory.mktemp("swept"))
    lab.open().sweep("1")
    return lab


@pytest.fixture(scope="session")
def promoted_stage(swept_stage: LabFolder, tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    lab = swept_stage.copy(tmp_path_factory.mktemp("promoted"))
    lab.open().promote("1")
    return lab


@pytest.fixture(scope="session")
def finished_stage(
    promoted_stage: LabFolder, tmp_path_factory: pytest.TempPathFactory
) -> LabFolder:
    lab = promoted_stage.copy(tmp_path_factory.mktemp("finished"))
    lab.open().run("1")
    return lab


@pytest.fixture(scope="session")
def decided_stage(finished_stage: LabFolder, tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    lab = finished_stage.copy(tmp_path_factory.mktemp("decided"))
    lab.open().verdict("1")
    lab.open().publish()
    lab.open().chronicle()
    return lab


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[LabFolder], LabFolder]:
    """Copies a stage for one test, which then finds its keys by the environment."""

    def copy(stage: LabFolder) -> LabFolder:
        lab = stage.copy(tmp_path / "home")
        for name, value in lab.environment.items():
            monkeypatch.setenv(name, value)
        return lab

    return copy


@pytest.fixture
def filed_lab(filed_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    """A lab with one proposal that could be registered."""
    return use(filed_stage)


@pytest.fixture
def registered_lab(registered_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(registered_stage)


@pytest.fixture
def swept_lab(swept_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(swept_stage)


@pytest.fixture
def promoted_lab(promoted_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(promoted_stage)


@pytest.fixture
def finished_lab(finished_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    """All full-scale runs are done; there is no verdict yet."""
    return use(finished_stage)


@pytest.fixture
def decided_lab(decided_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    """Verdict, published ledger and chronicles."""
    return use(decided_stage)
