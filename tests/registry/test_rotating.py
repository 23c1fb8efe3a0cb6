"""The ledger's part of a rotation: which key signs what, also when the process dies in between."""

from pathlib import Path
from typing import Literal

import pytest

from tests.registry.conftest import ORIGIN
from tests.registry.stores import Place
from workbench.errors import IntegrityError
from workbench.registry.entries import Decision, KeyRotation, Note
from workbench.registry.heads import verify_head
from workbench.registry.ledger import Ledger
from workbench.registry.notes import SigningKey, verify_signature

Role = Literal["log", "author"]
DECISION = Decision(question="?", options=["a"], chosen="a", basis="rule", evidence=[], owner="o",
                    reversible=True, would_reverse="x")  # fmt: skip


class Killed(BaseException):
    pass


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(url=f"sqlite:///{tmp_path}/state/ledger.db", root=tmp_path)


def rotated(place: Place, role: Role) -> tuple[KeyRotation, SigningKey]:
    old = getattr(place.keys, role)
    new = SigningKey(name=old.name, seed=b"\x07" * 32)
    body = KeyRotation(
        role=role, old_key=str(old.verifier), new_key=str(new.verifier), old_signature="",
        new_signature="", why="scheduled", reason="yearly",
    )  # fmt: skip
    return body, new


def replace(place: Place, role: Role, new: SigningKey) -> None:
    file = place.last_head.with_name(f"{role}.key")
    old = SigningKey.parse(file.read_text())
    retired = file.with_name(f"{file.name}.retired-{old.verifier.key_id.hex()}")
    for path, key in ((retired, old), (file.with_name("next"), new)):
        path.write_text(key.to_text())
        path.chmod(0o600)
    file.with_name("next").rename(file)


@pytest.mark.parametrize("role", ["log", "author"])
def test_rotation_the_head_over_it_is_signed_by_the_key_then_in_force(
    place: Place, role: Role
) -> None:
    with place.create() as ledger, place.open() as other:
        old = place.keys
        body, new = rotated(place, role)
        entry = ledger.rotate(body, replace_keys=lambda: replace(place, role, new))
        log_key = new if role == "log" else old.log
        assert verify_head(ledger.head().note, log_key.verifier).size == entry.sequence + 1
        verify_signature(
            f"workbench entry v1\n{ORIGIN}\n{entry.leaf}\n", entry.signature, old.author.verifier
        )
        # A writer that was open all the time takes the new keys up.
        for writer in (ledger, other):
            signed = writer.append(DECISION, subject="lab")
            author = new if role == "author" else old.author
            verify_signature(
                f"workbench entry v1\n{ORIGIN}\n{signed.leaf}\n", signed.signature, author.verifier
            )
            assert verify_head(writer.head().note, log_key.verifier).size == signed.sequence + 1


@pytest.mark.parametrize("role", ["log", "author"])
def test_rotation_killed_before_the_files_are_replaced_stops_every_writer(
    place: Place, role: Role
) -> None:
    def die() -> None:
        raise Killed

    ledger = place.create()
    body, new = rotated(place, role)
    with pytest.raises(Killed):
        ledger.rotate(body, replace_keys=die)
    for attempt in (place.open, lambda: ledger.append(Note(text="x"), subject="lab")):
        with pytest.raises(IntegrityError, match=f"entry 1 .* replaces the {role} key") as refusal:
            attempt()
        assert "keys rotate" in refusal.value.remedy
    ledger.close()
    replace(place, role, new)
    with place.open() as ledger:
        assert ledger.head().size == 2
        assert verify_head(ledger.head().note, place.keys.log.verifier).size == 2


@pytest.mark.parametrize("role", ["log", "author"])
def test_rotation_killed_after_the_files_were_replaced_is_signed_by_the_next_writer(
    place: Place, role: Role
) -> None:
    ledger = place.create()
    ledger.append(DECISION, subject="lab")
    body, new = rotated(place, role)

    def replace_and_die() -> None:
        replace(place, role, new)
        raise Killed

    with pytest.raises(Killed):
        ledger.rotate(body, replace_keys=replace_and_die)
    ledger.close()
    with place.open() as ledger:
        assert verify_head(ledger.head().note, place.keys.log.verifier).size == 3


def test_rotation_to_a_key_that_is_not_there_leaves_earlier_heads_readable(place: Place) -> None:
    """The last head may be by the old key, and is still known; by a stranger's it is not."""
    with place.create() as ledger:
        _, new = rotated(place, "log")
        replace(place, "log", new)
        assert ledger.append(Note(text="x"), subject="lab").sequence == 1
    stranger = SigningKey(name=ORIGIN, seed=b"\x09" * 32)
    for path in place.last_head.parent.glob("log.key*"):
        path.write_text(stranger.to_text())
    with pytest.raises(IntegrityError, match="is not the last signed head"):
        place.open()


def test_inspected_log_rotates_no_key(place: Place) -> None:
    place.create().close()
    body, _ = rotated(place, "log")
    with place.inspect() as reader, pytest.raises(Exception, match="only inspected"):
        reader.rotate(body, replace_keys=lambda: None)
    with (
        Ledger.inspect(url=place.url, origin="example.com/other") as other,
        pytest.raises(IntegrityError, match="it belongs to log"),
    ):
        _ = other.vkey
