"""A time-stamping authority of our own: a throwaway root, a certificate, and OpenSSL to answer."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

CONFIG = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
certs = {folder}/chain.pem
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:2
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True)
class Authority:
    """One root and one stamping certificate."""

    folder: Path

    @property
    def root(self) -> bytes:
        return (self.folder / "root.pem").read_bytes()

    @classmethod
    def create(cls, folder: Path, name: str) -> "Authority":
        folder.mkdir(parents=True)
        (folder / "serial").write_text("01\n")
        (folder / "tsa.cnf").write_text(CONFIG.format(folder=folder))
        (folder / "ext.cnf").write_text("extendedKeyUsage=critical,timeStamping\n")
        new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        _openssl(folder, *new, "-x509", "-days", "3650", "-subj", f"/CN={name} Root",
                 "-keyout", "root.key", "-out", "root.pem")  # fmt: skip
        _openssl(folder, *new, "-subj", f"/CN={name}", "-keyout", "tsa.key", "-out", "tsa.csr")
        _openssl(folder, "x509", "-req", "-in", "tsa.csr", "-CA", "root.pem", "-CAkey", "root.key",
                 "-CAcreateserial", "-days", "3650", "-extfile", "ext.cnf",
                 "-out", "tsa.pem")  # fmt: skip
        # Sent beside the signer's certificate, in an order that is DER's only by chance.
        other = cls._other(folder, new)
        (folder / "chain.pem").write_bytes((folder / "root.pem").read_bytes() + other)
        return cls(folder)

    @staticmethod
    def _other(folder: Path, new: list[str]) -> bytes:
        _openssl(folder, *new, "-x509", "-days", "1", "-subj", "/CN=A", "-keyout", "other.key",
                 "-out", "other.pem")  # fmt: skip
        return (folder / "other.pem").read_bytes()

    def reply(self, query: bytes) -> bytes:
        (self.folder / "q.tsq").write_bytes(query)
        _openssl(self.folder, "ts", "-reply", "-config", "tsa.cnf", "-queryfile", "q.tsq",
                 "-out", "r.tsr")  # fmt: skip
        return (self.folder / "r.tsr").read_bytes()


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@contextmanager
def serving(answer: "Authority | bytes | int | str") -> Iterator[str]:
    """Answer requests by an authority, with fixed bytes, with a status, or with a redirection."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            data, status = b"", 200
            if isinstance(answer, Authority):
                data = answer.reply(query)
            elif isinstance(answer, bytes):
                data = answer
            else:
                status = answer if isinstance(answer, int) else 302
            self.send_response(status)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/tsr"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
