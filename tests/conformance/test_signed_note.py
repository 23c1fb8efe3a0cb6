"""Signed notes and tree heads against the C2SP example and a real log's heads."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import IntegrityError
from workbench.registry.heads import parse_head, sign_head, verify_head
from workbench.registry.merkle import EMPTY_ROOT
from workbench.registry.notes import (
    SigningKey,
    VerifierKey,
    sign_note,
    to_base64,
    verify_note,
    verify_signature,
)

KEY = SigningKey(name="example.com/log", seed=bytes(range(32)))
OTHER = SigningKey(name="example.com/log", seed=bytes(32))


def test_signed_note_published_cases_accept_and_reject(shared_data: Path) -> None:
    cases = json.loads((shared_data / "ledger-vectors" / "c2sp_signed_note.json").read_text())
    assert [case["ok"] for case in cases] == [True, False]
    for case in cases:
        key = VerifierKey.parse(case["vkey"])
        assert str(key) == case["vkey"]
        if case["ok"]:
            assert verify_note(case["note"], key) == "This is an example message.\n"
        else:
            with pytest.raises(IntegrityError, match="does not fit"):
                verify_note(case["note"], key)


def test_tree_heads_of_a_real_log_verify(shared_data: Path) -> None:
    folder = shared_data / "ledger-vectors" / "tessera-testlog"
    key = VerifierKey.parse((folder / "log.vkey").read_text())
    for size in range(16):
        note = (folder / "log" / f"checkpoint.{size}").read_text()
        head = verify_head(note, key)
        assert (head.size, head.origin) == (size, "example.com/log/testdata")
    assert parse_head((folder / "log" / "checkpoint.0").read_text()).root == EMPTY_ROOT


def test_head_signed_and_verified_repeats_byte_for_byte() -> None:
    head = sign_head(KEY, 3, bytes(32))
    assert head == sign_head(KEY, 3, bytes(32))
    assert verify_head(head.note, KEY.verifier) == head


@given(st.integers(0, 10_000), st.characters(codec="utf-8"))
def test_head_any_replaced_character_is_refused(at: int, replacement: str) -> None:
    note = sign_head(KEY, 1234, bytes(range(32))).note
    at %= len(note)
    changed = note[:at] + replacement + note[at + 1 :]
    if changed == note:
        return
    with pytest.raises(IntegrityError):
        verify_head(changed, KEY.verifier)


def test_note_signatures_by_unknown_keys_are_passed_over() -> None:
    note = sign_head(KEY, 1, bytes(32)).note
    strangers = "".join(f"— witness{i} {to_base64(bytes(70))}\n" for i in range(20))
    assert verify_head(note + strangers, KEY.verifier).size == 1
    assert verify_note(sign_note("a\n\nb\n", KEY), KEY.verifier) == "a\n\nb\n"


def test_note_second_wrong_signature_by_a_known_key_is_refused() -> None:
    note = sign_head(KEY, 1, bytes(32)).note
    wrong = to_base64(KEY.verifier.key_id + bytes(64))
    with pytest.raises(IntegrityError, match="does not fit"):
        verify_head(f"{note}— {KEY.name} {wrong}\n", KEY.verifier)


def test_note_by_another_key_of_the_same_name_is_refused() -> None:
    with pytest.raises(IntegrityError, match="no signature by the key"):
        verify_head(sign_head(OTHER, 1, bytes(32)).note, KEY.verifier)


def test_head_of_another_origin_is_refused() -> None:
    note = sign_note(f"example.com/other\n1\n{to_base64(bytes(32))}\n", KEY)
    with pytest.raises(IntegrityError, match=r"is of log 'example\.com/other'"):
        verify_head(note, KEY.verifier)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("example.com/log\n1\n", "an origin, a size and a root"),
        ("example.com/log\n01\nAAAA\n", "an origin, a size and a root"),
        ("example.com/log\n-1\nAAAA\n", "an origin, a size and a root"),
        ("example.com/log\n1\n????\n", "malformed"),
        ("example.com/log\n1\nAAAA\n", "has 3 bytes"),
        ("example.com/log\n1\nAAAA\n\nextension\n", "an origin, a size and a root"),
    ],
)
def test_head_malformed_text_is_refused_although_signed(text: str, message: str) -> None:
    with pytest.raises(IntegrityError, match=message):
        verify_head(sign_note(text, KEY), KEY.verifier)


def test_head_with_extension_lines_is_accepted() -> None:
    text = f"example.com/log\n1\n{to_base64(bytes(32))}\nextension\n"
    assert verify_head(sign_note(text, KEY), KEY.verifier).size == 1


@pytest.mark.parametrize(
    "note",
    ["", "text\n", "text\n\n", "text\n\n— a AAAA", "text\n\na AAAA\n", "te\x01xt\n\n— a AAAA\n"],
)
def test_note_malformed_is_refused(note: str) -> None:
    with pytest.raises(IntegrityError):
        verify_note(note, KEY.verifier)


@pytest.mark.parametrize("signature", ["A", "AB==", "AAAA"])
def test_note_malformed_signature_of_a_known_name_is_refused(signature: str) -> None:
    with pytest.raises(IntegrityError):
        verify_note(f"text\n\n— {KEY.name} {signature}\n", KEY.verifier)


@pytest.mark.parametrize(
    ("signature", "message"),
    [("A", "malformed"), ("AB==", "malformed"), ("AAAA", "not by the key"), ("", "not by the key")],
)
def test_detached_signature_malformed_or_by_another_key_is_refused(
    signature: str, message: str
) -> None:
    with pytest.raises(IntegrityError, match=message):
        verify_signature("text\n", signature, KEY.verifier)
    verify_signature("text\n", KEY.signature("text\n"), KEY.verifier)


@pytest.mark.parametrize("text", ["no newline", "tab\t\n"])
def test_sign_note_text_that_no_note_can_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ends in a newline"):
        sign_note(text, KEY)


def test_vkey_malformed_or_of_another_id_is_refused() -> None:
    good = str(KEY.verifier)
    name, key_id, data = good.split("+", 2)
    other_algorithm = to_base64(b"\x02" + KEY.verifier.public)
    for bad in ("", name, f"{name}+00000000+{data}", f"{name}+{key_id}+A", f"a b+{key_id}+{data}",
                f"{name}+{key_id}+{other_algorithm}"):  # fmt: skip
        with pytest.raises(IntegrityError):
            VerifierKey.parse(bad)


def test_signing_key_text_reads_back_and_stays_out_of_messages() -> None:
    text = KEY.to_text()
    assert SigningKey.parse(text) == KEY
    assert "seed" not in repr(KEY)
    prefix, name, secret = "PRIVATE+KEY", KEY.name, text.split("+", 4)[-1].strip()
    key_id = KEY.verifier.key_id.hex()
    for bad in ("", f"{prefix}+{name}+00000000+{secret}", f"{prefix}+{name}+{key_id}+AAAA",
                f"{prefix}+{name}+{key_id}+A"):  # fmt: skip
        with pytest.raises(IntegrityError) as refusal:
            SigningKey.parse(bad)
        assert secret not in str(refusal.value)


def test_signing_key_name_with_a_space_is_refused() -> None:
    with pytest.raises(IntegrityError, match="key name"):
        SigningKey(name="a b", seed=bytes(32))
