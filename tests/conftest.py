"""Fixtures that every part's tests share."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# As the command line sets it (docs/decisions/0006); torch reads it when it is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


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
