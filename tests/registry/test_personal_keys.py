from pathlib import Path

import pytest

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.cosignatures import CosignerKey
from workbench.registry.notes import VerifierKey
from workbench.registry.personal_keys import (
    create_personal_key,
    load_cosigner,
    load_reviewer_key,
)


def test_key_for_review_is_a_note_key_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "reviewer.key"
    public = create_personal_key(path, "example.org/reviewer", "review")
    assert isinstance(public, VerifierKey)
    assert load_reviewer_key(path).verifier == public
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(IntegrityError, match="is not a witness's"):
        load_cosigner(path)


def test_key_for_witnessing_is_a_cosigning_key(tmp_path: Path) -> None:
    path = tmp_path / "witness.key"
    public = create_personal_key(path, "example.org/witness", "witness")
    assert isinstance(public, CosignerKey)
    assert load_cosigner(path).verifier == public
    with pytest.raises(IntegrityError, match="is not an Ed25519 key"):
        load_reviewer_key(path)


def test_key_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "witness.key"
    create_personal_key(path, "example.org/witness", "witness")
    before = path.read_bytes()
    with pytest.raises(ConflictError, match="never overwritten"):
        create_personal_key(path, "example.org/witness", "witness")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "two words", "a+b"])
def test_key_name_that_no_note_can_carry_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IntegrityError, match="key name"):
        create_personal_key(tmp_path / "key", name, "review")
    assert list(tmp_path.iterdir()) == []


def test_key_file_that_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "witness.key"
    create_personal_key(path, "example.org/witness", "witness")
    path.chmod(0o640)
    with pytest.raises(IntegrityError, match="mode 640") as refused:
        load_cosigner(path)
    assert refused.value.remedy == f"chmod 600 {path}"


def test_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no key file") as refused:
        load_cosigner(tmp_path / "none.key")
    assert "workbench keys new" in refused.value.remedy
