"""RFC 3161 time stamps: an authority signs that it saw these bytes. The home of rfc3161-client.

Nothing else imports this module at its top: it needs the extra ``timestamps``.
"""

import hashlib
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from workbench.errors import IntegrityError, InvalidFileError, StoreUnavailableError
from workbench.registry.der import certificates_in_order
from workbench.registry.places import TimedHttp, TimedHttps
from workbench.registry.stamps import Stamp

QUERY_TYPE = "application/timestamp-query"
REPLY_TYPE = "application/timestamp-reply"
MOST_BYTES = 1 << 20
SECONDS = 30.0
_MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    UnsupportedAlgorithm,
)
"""What the libraries raise when they read bytes that an intruder may have chosen."""
_HASHES = {
    "2.16.840.1.101.3.4.2.1": hashlib.sha256,
    "2.16.840.1.101.3.4.2.2": hashlib.sha384,
    "2.16.840.1.101.3.4.2.3": hashlib.sha512,
}


def query(message: bytes) -> bytes:
    """Return a request (DER) to stamp the message: its SHA-256, a nonce, certificates wanted."""
    builder = TimestampRequestBuilder().data(message).hash_algorithm(HashAlgorithm.SHA256)
    return builder.build().as_bytes()


def ask(url: str, message: bytes) -> bytes:
    """Return an authority's response (DER) over the message, its signature not yet checked.

    Args:
        url: ``http`` or ``https`` address of the authority. Plain HTTP is usual: the response
            carries its own signature.
        message: what is stamped; only its hash is sent.

    Raises:
        InvalidFileError: the address is of another kind.
        StoreUnavailableError: the authority cannot be reached or refuses.
        IntegrityError: what it answered is no stamp of the message, or answers another request.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise InvalidFileError(
            f"{url!r} is not the address of a time-stamping authority",
            remedy="give one like http://timestamp.example.org/tsr",
        )
    builder = TimestampRequestBuilder().data(message).hash_algorithm(HashAlgorithm.SHA256)
    wanted = builder.build()
    headers = {"Content-Type": QUERY_TYPE, "Accept": REPLY_TYPE}
    request = urllib.request.Request(url, data=wanted.as_bytes(), headers=headers)  # noqa: S310
    try:
        with _OPENER.open(request, timeout=SECONDS) as answer:
            data = bytes(answer.read(MOST_BYTES + 1))
    except (OSError, HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise StoreUnavailableError(
            f"{url} gave no time stamp: {error}",
            remedy="repeat the command later, or with another --tsa",
        ) from error
    if len(data) > MOST_BYTES:
        raise IntegrityError(f"{url} answered more than {MOST_BYTES} bytes")
    read_stamp(data, message)
    if _decoded(data).tst_info.nonce != wanted.nonce:
        raise IntegrityError(f"{url} answered another request: its nonce differs")
    return data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Names the new address of an authority that moved, and does not follow to it."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        del headers, msg
        fp.close()
        raise urllib.error.URLError(f"{req.full_url} has moved ({code}) to {newurl}")


_OPENER = urllib.request.build_opener(_NoRedirect, TimedHttp, TimedHttps)


def read_stamp(response: bytes, message: bytes) -> Stamp:
    """Return what a response says about the message. Its signature is not checked.

    Raises:
        IntegrityError: it is no granted stamp, or is over something else.
    """
    decoded = _decoded(response)
    info = decoded.tst_info
    algorithm = info.message_imprint.hash_algorithm.dotted_string
    if algorithm not in _HASHES:
        raise IntegrityError(f"the time stamp uses hash {algorithm}, not one of SHA-2")
    if info.message_imprint.message != _HASHES[algorithm](message).digest():
        raise IntegrityError("the time stamp is over something else")
    accuracy = info.accuracy
    error = timedelta()
    if accuracy is not None:
        error = timedelta(
            seconds=accuracy.seconds or 0,
            milliseconds=accuracy.millis or 0,
            microseconds=accuracy.micros or 0,
        )
    return Stamp(moment=info.gen_time, accuracy=error, authority=_authority(decoded), checked=False)


def verify_stamp(response: bytes, message: bytes, roots: Sequence[bytes]) -> Stamp:
    """Return what a response says about the message, its signature checked up to a root.

    Args:
        response: the authority's answer, DER.
        message: what was stamped.
        roots: PEM files, each with one or more certificates that the reader trusts. They need to
            be valid at the time of the stamp, not today.

    Raises:
        InvalidFileError: no root can be read.
        IntegrityError: it is no granted stamp, is over something else, or no root vouches for it.
    """
    stamp = read_stamp(response, message)
    trusted = [certificate for pem in roots for certificate in _certificates(pem)]
    try:
        VerifierBuilder(roots=trusted).build().verify_message(_decoded(response), message)
    except (VerificationError, *_MALFORMED) as error:
        raise IntegrityError(f"the time stamp does not verify: {error}") from error
    return Stamp(
        moment=stamp.moment, accuracy=stamp.accuracy, authority=stamp.authority, checked=True
    )


def _decoded(response: bytes) -> TimeStampResponse:
    try:
        decoded = decode_timestamp_response(certificates_in_order(response))
        if decoded.status != 0:
            told = "; ".join(decoded.status_string) or "it gave no reason"
            raise IntegrityError(f"the authority refused (status {decoded.status}): {told}")
        # A refusal has no token; asking for it is how one finds that out.
        decoded.tst_info  # noqa: B018
    except _MALFORMED as error:
        raise IntegrityError(f"this is no RFC 3161 response: {error}") from error
    return decoded


def _authority(decoded: TimeStampResponse) -> str:
    """Return the subject of the certificate that signed, as the response carries it."""
    signers = list(decoded.signed_data.signer_infos)
    if len(signers) != 1:
        raise IntegrityError(f"the time stamp has {len(signers)} signatures, not one")
    try:
        named = (signers[0].issuer, signers[0].serial_number)
        carried = decoded.signed_data.certificates
        for certificate in map(x509.load_der_x509_certificate, carried):
            if (certificate.issuer, certificate.serial_number) == named:
                return certificate.subject.rfc4514_string()
        return f"a certificate of {signers[0].issuer.rfc4514_string()}"
    except _MALFORMED as error:
        raise IntegrityError(f"a certificate of the time stamp is malformed: {error}") from error


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise InvalidFileError(
            f"the root certificate cannot be read: {error}",
            remedy="give a PEM file with --tsa-root",
        ) from error
