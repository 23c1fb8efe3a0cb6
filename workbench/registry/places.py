"""Where published files lie: a folder, or below an address on the web. Read-only, and bounded."""

import http.client
import io
import os
import socket
import ssl
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO, Any, Protocol

from workbench.errors import IntegrityError, NotFoundError, StoreUnavailableError
from workbench.layout import CONFIG_NAME

MAX_REDIRECTS = 5
_HEAD = "checkpoint"
STALL_SECONDS = 30.0
"""How long a server may send nothing."""
FILE_SECONDS = 300.0
"""How long one answer may take altogether, its headers included."""
_CHUNK = 2**16


class Place(Protocol):
    """Named files that are read whole."""

    def read(self, name: str, limit: int) -> bytes:
        """Return a file's bytes.

        Args:
            name: path below the place, with ``/``.
            limit: most bytes that such a file may have.

        Raises:
            NotFoundError: there is no such file.
            IntegrityError: it is longer than it may be, or cannot be read.
            StoreUnavailableError: the place does not answer.
        """

    def names(self, below: str) -> list[str] | None:
        """Return the files below a folder, sorted; None where they cannot be listed."""

    def without_log(self) -> NotFoundError:
        """Return the refusal of a place that holds no published log."""


class Folder:
    """Files on this machine."""

    def __init__(self, path: Path) -> None:
        """Take the folder; it need not exist."""
        self.path = path

    def __str__(self) -> str:
        """Return the folder."""
        return str(self.path)

    def read(self, name: str, limit: int) -> bytes:
        """Return a file's bytes (see `Place`)."""
        path = self.path / name
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise IntegrityError(f"{name} of the published log is no file")
                data = file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError(f"{name} of the published log is not in {self.path}") from error
        except OSError as error:
            raise IntegrityError(f"{name} of the published log cannot be read: {error}") from error
        return _bounded(data, name, limit)

    def names(self, below: str) -> list[str]:
        """Return the files below a folder, sorted."""
        paths = sorted((self.path / below).rglob("*"))
        return [path.relative_to(self.path).as_posix() for path in paths if path.is_file()]

    def without_log(self) -> NotFoundError:
        """Return the refusal, with the folder that was perhaps meant."""
        inner = self.path / "registry"
        why, remedy = "", f"name the folder that holds the file {_HEAD}"
        if (inner / _HEAD).is_file():
            remedy = f"did you mean {inner}?"
        elif (self.path.absolute().parent / CONFIG_NAME).is_file():
            remedy = "workbench publish"
        elif not self.path.is_dir():
            why = f": there is no such {'folder' if not self.path.exists() else 'log, only a file'}"
        return NotFoundError(f"{self.path} holds no published log{why}", remedy=remedy)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would keep its reader for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


class Website:
    """Files that a web server serves, any that serves a tree of files."""

    def __init__(self, url: str) -> None:
        """Take the address of the folder that holds the tree head.

        Raises:
            NotFoundError: it is not an address of the web.
        """
        parts = _split(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotFoundError(
                f"{url!r} is not an address of the web",
                remedy="workbench verify --from https://HOST/PATH",
            )
        if parts.query or parts.fragment:
            raise NotFoundError(
                f"{url!r} has a query or a fragment, which no folder of files has",
                remedy="give the address of the folder that holds the file named checkpoint",
            )
        self._base = url if url.endswith("/") else f"{url}/"
        self._opener = _opener(parts.scheme)
        self._kept: dict[str, bytes] = {}

    def __str__(self) -> str:
        """Return the address."""
        return self._base

    def read(self, name: str, limit: int) -> bytes:
        """Return a file's bytes (see `Place`). The tree head is fetched once: the log may grow."""
        if name in self._kept:
            return self._kept[name]
        data = _bounded(self._fetched(name, limit), name, limit)
        if name == _HEAD:
            self._kept[name] = data
        return data

    def names(self, below: str) -> None:  # noqa: ARG002
        """Return None: the web has no list of its files."""
        return

    def without_log(self) -> NotFoundError:
        """Return the refusal."""
        return NotFoundError(
            f"{self._base} holds no published log: {self._base}{_HEAD} is not there",
            remedy=f"look at the address: it is that of the folder that holds the file {_HEAD}",
        )

    def _fetched(self, name: str, limit: int) -> bytes:
        url = self._base + urllib.parse.quote(name)
        # Plain bytes: a compressed answer could grow beyond any limit.
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity"})  # noqa: S310
        try:
            with self._opener.open(request, timeout=STALL_SECONDS) as answer:
                return _received(answer, limit)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise NotFoundError(f"{url} is not there (HTTP {error.code})") from error
            raise StoreUnavailableError(
                f"{url} answered HTTP {error.code} {error.reason}",
                remedy="repeat the command later",
            ) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            # ValueError: what an address cannot hold, given by hand or by a redirect.
            reason = getattr(error, "reason", None) or error
            raise StoreUnavailableError(
                f"{url} cannot be fetched: {reason}",
                remedy="look whether the address is right and reachable, and repeat the command",
            ) from error


def _split(url: str) -> urllib.parse.SplitResult | None:
    try:
        return urllib.parse.urlsplit(url)
    except ValueError:
        return None


def _received(answer: http.client.HTTPResponse, limit: int) -> bytes:
    """Return at most one byte more than the limit."""
    parts, size = [], 0
    while size <= limit and (part := answer.read1(min(_CHUNK, limit + 1 - size))):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


class _Timed(io.RawIOBase):
    """What a server sends, until it has taken too long: by headers without end, or in drops."""

    def __init__(self, sent: io.RawIOBase) -> None:
        self._sent = sent
        self._until = time.monotonic() + FILE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self._until:
            raise TimeoutError(f"it took longer than {FILE_SECONDS:.0f} s")
        return self._sent.readinto(buffer)

    def close(self) -> None:
        self._sent.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer whose status, headers, body and trailers come in time, or not at all."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_Timed(self.fp.detach()))


class _Connection(http.client.HTTPConnection):
    response_class = _Answer


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _Answer


class TimedHttp(urllib.request.HTTPHandler):
    """Fetches by HTTP what comes in time."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Return the answer to a request."""
        return self.do_open(_Connection, req)


class TimedHttps(urllib.request.HTTPSHandler):
    """Fetches by HTTPS what comes in time."""

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Return the answer to a request; the server's certificate is checked."""
        return self.do_open(_SecureConnection, req, context=ssl.create_default_context())


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, none to another scheme: https is never left."""

    max_redirections = MAX_REDIRECTS

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: "Message[str, str]",
    ) -> Any:
        """Return the answer of the new address; an address that is none ends here."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)  # type: ignore[arg-type]
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: "Message[str, str]",
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request that follows."""
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme != req.type:
            raise StoreUnavailableError(
                f"{req.full_url} redirects from {req.type} to {scheme}: {newurl}",
                remedy=f"workbench verify --from {newurl}, if you trust that address",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _opener(scheme: str) -> urllib.request.OpenerDirector:
    """Return an opener for one scheme, with no way to files of this machine or to FTP."""
    opener = urllib.request.OpenerDirector()
    handler = TimedHttps if scheme == "https" else TimedHttp
    for added in (
        urllib.request.ProxyHandler(),
        handler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(added)
    return opener


def place_of(text: str) -> Place:
    """Return the place that a person names: an address of the web, or else a folder."""
    return Website(text) if "://" in text else Folder(Path(text))


def _bounded(data: bytes, name: str, limit: int) -> bytes:
    if len(data) > limit:
        raise IntegrityError(f"{name} of the published log has more than {limit} bytes")
    return data
