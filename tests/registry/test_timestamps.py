"""RFC 3161 time stamps, asked for over HTTP from an authority that OpenSSL plays."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.registry.authority import Authority, serving
from workbench.errors import IntegrityError, InvalidFileError, StoreUnavailableError

pytest.importorskip("rfc3161_client")
if shutil.which("openssl") is None:
    pytest.skip("openssl plays the authority", allow_module_level=True)

from rfc3161_client import decode_timestamp_response

from workbench.registry.der import certificates_in_order
from workbench.registry.timestamps import MOST_BYTES, ask, query, read_stamp, verify_stamp

MESSAGE = "example.com/lab\n7\nroot\n\n— example.com/lab signature\n".encode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("tsa") / "a", "First TSA")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("tsa") / "b", "Other TSA")


@pytest.fixture(scope="module")
def response(authority: Authority) -> bytes:
    return authority.reply(query(MESSAGE))


def test_stamp_asked_for_over_http_verifies_up_to_its_root(authority: Authority) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    with serving(authority) as url:
        got = ask(url, MESSAGE)
    stamp = verify_stamp(got, MESSAGE, [authority.root])
    assert stamp.checked
    assert stamp.authority == "CN=First TSA"
    assert before <= stamp.moment <= datetime.now(UTC)
    assert stamp.latest == stamp.moment + timedelta(seconds=2)


def test_response_verifies_with_openssl_too(
    authority: Authority, response: bytes, tmp_path: Path
) -> None:
    """An auditor needs none of our code for it."""
    (tmp_path / "head").write_bytes(MESSAGE)
    (tmp_path / "r.tsr").write_bytes(response)
    verify = ["openssl", "ts", "-verify", "-data", "head", "-in", "r.tsr"]
    root = str(authority.folder / "root.pem")
    subprocess.run([*verify, "-CAfile", root], cwd=tmp_path, check=True, capture_output=True)


def test_certificates_in_any_order_are_read(authority: Authority, response: bytes) -> None:
    """Authorities send them as they like; the library wants them sorted."""
    with pytest.raises(ValueError, match="InvalidSetOrdering"):
        decode_timestamp_response(response)
    ordered = certificates_in_order(response)
    assert len(ordered) == len(response)
    assert certificates_in_order(ordered) == ordered
    assert verify_stamp(response, MESSAGE, [authority.root]).checked


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 30, 100, 400])
def test_response_cut_short_is_left_as_it_is(response: bytes, cut: int) -> None:
    assert certificates_in_order(response[:cut]) == response[:cut]


def test_stamp_read_without_a_root_says_that_it_is_not_checked(response: bytes) -> None:
    assert not read_stamp(response, MESSAGE).checked


def test_stamp_of_several_roots_needs_one_that_vouches(
    authority: Authority, stranger: Authority, response: bytes
) -> None:
    assert verify_stamp(response, MESSAGE, [stranger.root, authority.root]).checked
    assert verify_stamp(response, MESSAGE, [stranger.root + authority.root]).checked


def test_stamp_under_another_root_is_refused(stranger: Authority, response: bytes) -> None:
    with pytest.raises(IntegrityError, match="does not verify"):
        verify_stamp(response, MESSAGE, [stranger.root])


def test_stamp_over_something_else_is_refused(response: bytes) -> None:
    with pytest.raises(IntegrityError, match="over something else"):
        read_stamp(response, MESSAGE + b"x")


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_stamp_with_any_byte_changed_is_refused_or_says_the_same(
    authority: Authority, response: bytes
) -> None:
    """Leak test: some bytes of a CMS message are not signed, and none of them says when."""
    genuine = verify_stamp(response, MESSAGE, [authority.root])
    refused = 0
    for at in range(0, len(response), 3):
        changed = response[:at] + bytes([response[at] ^ 1]) + response[at + 1 :]
        try:
            stamp = verify_stamp(changed, MESSAGE, [authority.root])
        except IntegrityError:
            refused += 1
            continue
        assert (stamp.moment, stamp.accuracy) == (genuine.moment, genuine.accuracy)
    assert refused > len(response) // 3 // 3


@pytest.mark.parametrize("junk", [b"", b"junk", b"\x30\x03\x02\x01\x02"])
def test_bytes_that_are_no_response_are_refused(junk: bytes) -> None:
    with pytest.raises(IntegrityError, match="no RFC 3161 response"):
        read_stamp(junk, MESSAGE)


def test_refusal_of_the_authority_is_told_with_its_reason(authority: Authority) -> None:
    # A request with a hash that the authority does not accept is answered with a rejection.
    path = authority.folder / "sha1.tsq"
    command = ["openssl", "ts", "-query", "-data", "tsa.cnf", "-sha1", "-out", path.name]
    subprocess.run(command, cwd=authority.folder, check=True, capture_output=True)
    refusal = authority.reply(path.read_bytes())
    with pytest.raises(IntegrityError, match=r"authority refused \(status 2\)"):
        read_stamp(refusal, MESSAGE)


def test_root_that_cannot_be_read_is_named(response: bytes) -> None:
    with pytest.raises(InvalidFileError, match="root certificate cannot be read") as refused:
        verify_stamp(response, MESSAGE, [b"no certificate"])
    assert "--tsa-root" in refused.value.remedy


def test_replayed_response_is_refused_by_its_nonce(response: bytes) -> None:
    with serving(response) as url, pytest.raises(IntegrityError, match="nonce differs"):
        ask(url, MESSAGE)


@pytest.mark.parametrize("answer", [404, 500, "http://127.0.0.1:9/elsewhere"])
def test_authority_that_does_not_answer_is_named(answer: int | str) -> None:
    with serving(answer) as url, pytest.raises(StoreUnavailableError) as refused:
        ask(url, MESSAGE)
    assert url in refused.value.message
    assert "--tsa" in refused.value.remedy


def test_authority_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreUnavailableError, match="gave no time stamp"):
        ask("http://127.0.0.1:9/tsr", MESSAGE)


def test_answer_without_end_is_cut_off() -> None:
    with serving(bytes(MOST_BYTES + 1)) as url, pytest.raises(IntegrityError, match="more than"):
        ask(url, MESSAGE)


@pytest.mark.parametrize("url", ["ftp://example.org/", "file:///etc/passwd", "tsa", "http://"])
def test_address_that_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidFileError, match="not the address"):
        ask(url, MESSAGE)
