"""The chain of keys: who may replace whom, and which key signs what."""

import pytest

from workbench.errors import IntegrityError
from workbench.registry.entries import Genesis, KeyRotation, Note
from workbench.registry.keys import author_name
from workbench.registry.notes import SigningKey
from workbench.registry.rotation import KeyChain, Role, rotation_body, rotation_text

ORIGIN = "example.com/lab"


def key(role: Role, number: int) -> SigningKey:
    name = ORIGIN if role == "log" else author_name(ORIGIN)
    return SigningKey(name=name, seed=bytes([number, role == "log"]) * 16)


def genesis() -> Genesis:
    return Genesis(
        lab="lab",
        record_format="1",
        log_key=str(key("log", 0).verifier),
        author_key=str(key("author", 0).verifier),
    )


def rotated(role: Role, old: int, new: int) -> KeyRotation:
    return rotation_body(
        ORIGIN, role, old=key(role, old), new=key(role, new), why="scheduled", reason="yearly"
    )


def begun() -> KeyChain:
    chain = KeyChain(ORIGIN)
    chain.follow(0, genesis())
    return chain


def test_chain_gives_the_key_in_force_at_each_entry_and_head() -> None:
    chain = begun()
    chain.follow(1, Note(text="nothing"))
    chain.follow(2, rotated("log", 0, 1))
    chain.follow(4, rotated("author", 0, 1))
    chain.follow(6, rotated("log", 1, 2))
    # A head over two entries covers sequence 0 and 1; one over three covers the rotation.
    assert [chain.log_at(size) for size in (0, 1, 2, 3, 6, 7)] == [
        key("log", number).verifier for number in (0, 0, 0, 1, 1, 2)
    ]
    assert [chain.author_at(sequence) for sequence in (0, 1, 4, 5)] == [
        key("author", number).verifier for number in (0, 0, 0, 1)
    ]
    assert chain.log == key("log", 2).verifier
    assert chain.author == key("author", 1).verifier
    assert all(chain.knows(str(key("log", number).verifier)) for number in (0, 1, 2))
    assert not chain.knows(str(key("log", 3).verifier))
    assert not chain.knows(str(key("author", 0).verifier))
    assert chain.knows_author(str(key("author", 0).verifier))


def test_rotation_text_is_the_documented_one() -> None:
    assert rotation_text("o", "log", "a", "b") == "workbench rotation v1\no\nlog\na\nb\n"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"old_signature": "from_new"}, "key"),
        ({"new_signature": "from_old"}, "key"),
        ({"role": "author"}, "the author key is"),
        ({"new_key": str(key("log", 2).verifier)}, "signature"),
        ({"new_key": str(SigningKey(name="other", seed=b"o" * 32).verifier)}, "not of"),
        ({"new_key": "nonsense"}, "verifier key"),
    ],
)
def test_rotation_damaged_in_one_field_is_refused(damage: dict[str, str], message: str) -> None:
    body = rotated("log", 0, 1)
    swapped = {"from_new": body.new_signature, "from_old": body.old_signature}
    damaged = body.model_copy(update={k: swapped.get(v, v) for k, v in damage.items()})
    chain = begun()
    with pytest.raises(IntegrityError, match=message):
        chain.follow(1, damaged)
    assert chain.log == key("log", 0).verifier


def test_rotation_of_another_log_is_refused() -> None:
    foreign = rotation_body(
        "example.com/other", "log", old=key("log", 0), new=key("log", 1), why="scheduled", reason=""
    )
    with pytest.raises(IntegrityError, match="signature"):
        begun().follow(1, foreign)


@pytest.mark.parametrize("back_to", [0, 1])
def test_rotation_to_a_key_that_was_in_use_is_refused(back_to: int) -> None:
    chain = begun()
    chain.follow(1, rotated("log", 0, 1))
    with pytest.raises(IntegrityError, match="was in use before"):
        chain.follow(2, rotated("log", 1, back_to))


def test_rotation_of_a_key_that_is_not_in_force_is_refused() -> None:
    chain = begun()
    chain.follow(1, rotated("log", 0, 1))
    with pytest.raises(IntegrityError, match="the log key is"):
        chain.follow(2, rotated("log", 0, 2))


def test_second_genesis_and_missing_genesis_are_refused() -> None:
    with pytest.raises(IntegrityError, match="second first entry"):
        begun().follow(1, genesis())
    empty = KeyChain(ORIGIN)
    with pytest.raises(IntegrityError, match="is missing"):
        empty.follow(1, rotated("log", 0, 1))
