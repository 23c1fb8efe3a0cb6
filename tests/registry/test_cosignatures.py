"""Cosignatures of witnesses against the rules of C2SP tlog-cosignature, written out once more."""

import base64
import hashlib
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from workbench.errors import IntegrityError
from workbench.registry.cosignatures import Cosigner, CosignerKey, cosignatures_by
from workbench.registry.heads import sign_head, verify_head
from workbench.registry.notes import SigningKey, VerifierKey

LOG = SigningKey(name="example.com/lab", seed=b"\x01" * 32)
WITNESS = Cosigner(name="witness.example/w1", seed=b"\x02" * 32)
HEAD = sign_head(LOG, 7, b"\x07" * 32)
MOMENT = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)


def test_cosignature_is_what_the_specification_says_byte_for_byte() -> None:
    line = WITNESS.cosign(HEAD.note, MOMENT)
    dash, name, encoded = line.removesuffix("\n").split(" ")
    data = base64.b64decode(encoded)
    private = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
    public = private.public_key().public_bytes_raw()
    key_id = hashlib.sha256(b"witness.example/w1\n\x04" + public).digest()[:4]
    seconds = int(MOMENT.timestamp())
    assert (dash, name, data[:4]) == ("—", "witness.example/w1", key_id)
    assert int.from_bytes(data[4:12], "big") == seconds
    root = base64.b64encode(b"\x07" * 32).decode()
    message = f"cosignature/v1\ntime {seconds}\nexample.com/lab\n7\n{root}\n"
    private.public_key().verify(data[12:], message.encode())
    assert len(data) == 76


def test_cosigned_head_still_verifies_and_names_witness_and_second() -> None:
    note = HEAD.note + WITNESS.cosign(HEAD.note, MOMENT)
    assert verify_head(note, LOG.verifier).size == 7
    (seen,) = cosignatures_by(note, WITNESS.verifier)
    assert seen.moment == MOMENT.replace(microsecond=0)
    assert note.endswith(seen.line)


def test_cosignatures_by_another_key_or_name_are_passed_over() -> None:
    note = HEAD.note + WITNESS.cosign(HEAD.note, MOMENT)
    other = Cosigner(name=WITNESS.name, seed=b"\x03" * 32)
    renamed = Cosigner(name="witness.example/w2", seed=WITNESS.seed)
    assert cosignatures_by(note, other.verifier) == []
    assert cosignatures_by(note, renamed.verifier) == []


def test_cosignature_of_another_head_is_refused() -> None:
    other = sign_head(LOG, 8, b"\x08" * 32)
    note = other.note + WITNESS.cosign(HEAD.note, MOMENT)
    with pytest.raises(IntegrityError, match="does not fit what it signs"):
        cosignatures_by(note, WITNESS.verifier)


@pytest.mark.parametrize("at", [4, 11, 12, 75])
def test_cosignature_with_any_changed_part_is_refused(at: int) -> None:
    dash, name, encoded = WITNESS.cosign(HEAD.note, MOMENT).removesuffix("\n").split(" ")
    data = bytearray(base64.b64decode(encoded))
    data[at] ^= 0x80
    note = f"{HEAD.note}{dash} {name} {base64.b64encode(bytes(data)).decode()}\n"
    with pytest.raises(IntegrityError, match="does not fit what it signs"):
        cosignatures_by(note, WITNESS.verifier)


def test_vkey_of_a_witness_is_no_key_of_a_log_and_the_other_way_round() -> None:
    vkey = str(WITNESS.verifier)
    assert CosignerKey.parse(vkey) == WITNESS.verifier
    with pytest.raises(IntegrityError, match="is not an Ed25519 key"):
        VerifierKey.parse(vkey)
    with pytest.raises(IntegrityError, match="is not a witness's cosigning"):
        CosignerKey.parse(str(LOG.verifier))


def test_private_key_text_reads_back_and_is_not_shown() -> None:
    text = WITNESS.to_text()
    assert Cosigner.parse(text) == WITNESS
    assert "seed" not in repr(WITNESS)
    with pytest.raises(IntegrityError) as refused:
        Cosigner.parse(LOG.to_text())
    assert LOG.to_text().split("+")[-1].strip() not in str(refused.value)


def test_too_many_signatures_are_refused() -> None:
    note = HEAD.note + WITNESS.cosign(HEAD.note, MOMENT) * 64
    with pytest.raises(IntegrityError, match="65 signatures, more than 64"):
        cosignatures_by(note, WITNESS.verifier)
    assert len(cosignatures_by(HEAD.note + WITNESS.cosign(HEAD.note, MOMENT) * 16,
                               WITNESS.verifier)) == 16  # fmt: skip
