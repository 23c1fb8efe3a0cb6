"""The time stamp that OpenSSL made with a throwaway authority, whose keys are gone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from workbench.errors import IntegrityError

pytest.importorskip("rfc3161_client")
from workbench.registry.timestamps import verify_stamp


@pytest.fixture
def vector(shared_data: Path) -> Path:
    return shared_data / "ledger-vectors" / "rfc3161-synthetic"


def test_synthetic_token_verifies_and_gives_its_moment(vector: Path) -> None:
    message, root = (vector / "message.txt").read_bytes(), (vector / "ca.pem").read_bytes()
    stamp = verify_stamp((vector / "r.tsr").read_bytes(), message, [root])
    assert stamp.checked
    assert stamp.authority == "CN=Test TSA"
    assert stamp.moment == datetime(2026, 11, 29, 18, 52, 32, tzinfo=UTC)
    assert stamp.latest == datetime(2026, 11, 29, 18, 52, 33, tzinfo=UTC)


def test_synthetic_token_is_not_one_of_another_message(vector: Path) -> None:
    message, root = (vector / "message.txt").read_bytes(), (vector / "ca.pem").read_bytes()
    with pytest.raises(IntegrityError, match="over something else"):
        verify_stamp((vector / "r.tsr").read_bytes(), message.upper(), [root])


def test_request_is_no_response(vector: Path) -> None:
    message, root = (vector / "message.txt").read_bytes(), (vector / "ca.pem").read_bytes()
    with pytest.raises(IntegrityError, match="no RFC 3161 response"):
        verify_stamp((vector / "r.tsq").read_bytes(), message, [root])
