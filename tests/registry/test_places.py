"""Published files read over the web: from any server of files, and never more than they may be."""

import contextlib
import functools
import http.server
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.registry.forge import ForgedLog
from tests.registry.stories import tell_changes
from workbench.errors import IntegrityError, NotFoundError, StoreUnavailableError
from workbench.registry import places
from workbench.registry.entries import Note
from workbench.registry.places import Folder, Website, place_of
from workbench.registry.publish import PublishedLog, publish
from workbench.registry.verify import verify_log

Handler = type[http.server.BaseHTTPRequestHandler]


@contextlib.contextmanager
def serving(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Files(http.server.SimpleHTTPRequestHandler):
    """Python's own server of files, silent."""

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def files(folder: Path) -> Iterator[str]:
    with serving(functools.partial(Files, directory=str(folder))) as url:
        yield url


def answering(reply: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Handler:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                reply(self)

        def log_message(self, *_: object) -> None:
            pass

    return Answer


def test_published_log_verifies_over_the_web_as_from_its_folder(tmp_path: Path) -> None:
    log = tell_changes()
    publish(log, tmp_path / "lab" / "registry")
    with files(tmp_path) as url:
        for end in ("", "/"):
            web = PublishedLog(Website(f"{url}/lab/registry{end}"))
            assert list(web.entries()) == list(
                PublishedLog(tmp_path / "lab" / "registry").entries()
            )
            report = verify_log(web, vkey=log.vkey, kept_head=log.heads[5])
            assert report.passed, report.first_failure
            assert web.vkey == log.vkey


def test_published_log_damaged_on_the_web_is_caught(tmp_path: Path) -> None:
    log = ForgedLog()
    log.stored += [log.made(at, Note(text=str(at)), subject="lab") for at in range(1, 300)]
    log.sign()
    publish(log, tmp_path)
    for name in ("tile/1/000.p/1", "tile/0/001.p/44", "tile/entries/000", "bodies/001.jsonl"):
        data = (tmp_path / name).read_bytes()
        for damaged in (data[:-1] + bytes([data[-1] ^ 1]), None):
            if damaged is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(damaged)
            with files(tmp_path) as url:
                web = PublishedLog(Website(url))
                assert not verify_log(web, vkey=log.vkey, kept_head=None).passed, name
            (tmp_path / name).write_bytes(data)


def test_partial_tiles_that_were_completed_meanwhile_are_read_from_the_full_ones(
    tmp_path: Path,
) -> None:
    """A reader of an older head, while the log grows beyond a tile."""
    log = ForgedLog()
    log.stored += [log.made(at, Note(text=str(at)), subject="lab") for at in range(1, 250)]
    log.sign()
    publish(log, tmp_path)
    with files(tmp_path) as url:
        web = PublishedLog(Website(url))
        assert web.head().size == 250
        log.stored += [log.made(at, Note(text=str(at)), subject="lab") for at in range(250, 600)]
        log.sign()
        publish(log, tmp_path)
        assert not (tmp_path / "tile/0/000.p").exists()
        report = verify_log(web, vkey=log.vkey, kept_head=None)
        assert (report.passed, report.size) == (True, 250), report.first_failure


def test_nothing_published_at_an_address_says_so(tmp_path: Path) -> None:
    missing = pytest.raises(NotFoundError, match=r"holds no published log: .*/checkpoint is not")
    with files(tmp_path) as url, missing as refused:
        PublishedLog(Website(url)).head()
    assert "look at the address" in refused.value.remedy


@pytest.mark.parametrize(
    ("given", "why", "remedy"),
    [
        ("nowhere", "there is no such folder", "the file checkpoint"),
        ("a-file", "only a file", "the file checkpoint"),
        ("empty", "holds no published log", "the file checkpoint"),
        ("published", "holds no published log", "did you mean {root}/published/registry?"),
        ("fresh/registry", "holds no published log", "workbench publish"),
    ],
)
def test_folder_without_a_log_says_which_was_perhaps_meant(
    tmp_path: Path, given: str, why: str, remedy: str
) -> None:
    (tmp_path / "a-file").touch()
    for name in ("empty", "published/registry", "fresh/registry"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "published/registry/checkpoint").touch()
    (tmp_path / "fresh/workbench.toml").touch()
    with pytest.raises(NotFoundError, match=why) as refused:
        PublishedLog(place_of(str(tmp_path / given))).head()
    assert remedy.format(root=tmp_path) in refused.value.remedy


@pytest.mark.parametrize(
    "url", ["ftp://example.com/x", "https:///x", "file:///etc", "http://h/?a", "http://[::1/x"]
)
def test_address_that_is_none_of_a_folder_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(NotFoundError, match="address"):
        place_of(url)


def test_place_is_a_folder_unless_it_is_an_address(tmp_path: Path) -> None:
    assert isinstance(place_of(str(tmp_path)), Folder)
    assert isinstance(place_of("https://example.com/registry"), Website)


def test_file_that_is_longer_than_it_may_be_is_not_read_to_its_end() -> None:
    sent: list[int] = []

    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(10_000):
            handler.wfile.write(bytes(2**16))
            sent.append(2**16)

    with serving(answering(endless)) as url, pytest.raises(IntegrityError, match="more than 65536"):
        PublishedLog(Website(url)).head()
    assert sum(sent) < 10_000 * 2**16


def test_redirect_to_another_scheme_is_refused_and_a_loop_is_left() -> None:
    targets = {
        "/away/checkpoint": "ftp://127.0.0.1/x",
        "/file/checkpoint": "file:///etc/hostname",
        "/odd/checkpoint": "http://[::1/x",
    }

    def redirect(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", targets.get(handler.path, handler.path))
        handler.end_headers()

    with serving(answering(redirect)) as url:
        for path in ("away", "file"):
            with pytest.raises(
                StoreUnavailableError, match=r"redirects from http to ftp|is not allowed"
            ):
                Website(f"{url}/{path}").read("checkpoint", 100)
        with pytest.raises(StoreUnavailableError, match="cannot be fetched: Invalid IPv6"):
            Website(f"{url}/odd").read("checkpoint", 100)
        with pytest.raises(StoreUnavailableError, match="HTTP 302"):
            Website(f"{url}/loop").read("checkpoint", 100)


def test_redirect_within_the_scheme_is_followed(tmp_path: Path) -> None:
    log = ForgedLog()
    publish(log, tmp_path)
    with files(tmp_path) as target:

        def redirect(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(301)
            handler.send_header("Location", f"{target}{handler.path}")
            handler.end_headers()

        with serving(answering(redirect)) as url:
            web = PublishedLog(Website(url))
            assert verify_log(web, vkey=log.vkey, kept_head=None).passed


@pytest.mark.parametrize("code", [403, 500, 503])
def test_server_that_refuses_is_named_with_its_answer(code: int) -> None:
    with (
        serving(answering(lambda handler: handler.send_error(code))) as url,
        pytest.raises(StoreUnavailableError, match=f"answered HTTP {code}"),
    ):
        PublishedLog(Website(url)).head()


def _sending(start: bytes, drop: bytes, gone: threading.Event) -> Handler:
    """Return a server that begins an answer and then sends one drop after another."""

    def reply(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        while not gone.wait(0.002):
            handler.wfile.write(drop)

    return answering(reply)


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
    ],
    ids=["body", "header", "promises", "chunk", "trailers"],
)
def test_answer_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, start: bytes, drop: bytes
) -> None:
    monkeypatch.setattr(places, "FILE_SECONDS", 0.2)
    gone = threading.Event()
    with serving(_sending(start, drop, gone)) as url:
        with pytest.raises(StoreUnavailableError, match="took longer than"):
            Website(url).read("checkpoint", 2**16)
        gone.set()


def test_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "STALL_SECONDS", 0.1)
    gone = threading.Event()
    with serving(answering(lambda _: gone.wait(5) and None)) as url:
        with pytest.raises(StoreUnavailableError, match=r"cannot be fetched: .*time"):
            Website(url).read("checkpoint", 2**16)
        gone.set()


def test_server_that_is_not_there_says_so() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StoreUnavailableError, match="cannot be fetched"):
        Website(f"http://127.0.0.1:{port}").read("checkpoint", 100)


def test_folder_file_that_cannot_be_read_or_is_too_long_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(IntegrityError, match="checkpoint of the published log cannot be read"):
        Folder(tmp_path).read("checkpoint", 10)
    (tmp_path / "log.vkey").write_bytes(bytes(11))
    with pytest.raises(IntegrityError, match=r"log\.vkey of the published log has more than 10"):
        Folder(tmp_path).read("log.vkey", 10)


@pytest.mark.parametrize("name", ["checkpoint", "log.vkey", "bodies/000.jsonl", "anchors/index"])
def test_pipe_or_device_in_the_place_of_a_file_keeps_nobody(tmp_path: Path, name: str) -> None:
    """A hostile folder: whoever opened the pipe would wait for ever, the device never ends."""
    publish(ForgedLog(), tmp_path)
    path = tmp_path / name
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(IntegrityError, match=f"{name} of the published log is no file"):
            Folder(tmp_path).read(name, 100)


def test_address_with_what_none_can_hold_is_a_refusal() -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be fetched"):
        Website("http://127.0.0.1:9/é").read("checkpoint", 100)
