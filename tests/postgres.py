"""A PostgreSQL server for the tests: thrown away afterwards, reached by a Unix socket only."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "WORKBENCH_TEST_POSTGRES"
"""Names the URL of a database to use instead, whose schemas the tests may create and drop; by one
process only (``make test JOBS=0``)."""


def binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl, or None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    return folders[-1] if folders else None


def missing() -> str:
    """Return why no server can be had, or nothing."""
    if os.environ.get(VARIABLE):
        return ""
    if binaries() is None:
        return f"PostgreSQL is not installed (apt-get install postgresql) and {VARIABLE} is not set"
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        return "PostgreSQL refuses to run as root, and there is no runuser"
    return ""


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a running server's database; the server ends with the context."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="workbench-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        _run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        url = f"postgresql://postgres@/postgres?host={folder}"
        start(url)
        try:
            yield url
        finally:
            stop(url, "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(url: str) -> None:
    """Start a throw-away server that was stopped."""
    folder = _folder(url)
    # No port: parallel servers never meet, and nobody outside this machine gets in.
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    _run("pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start")


def stop(url: str, how: str) -> None:
    """Stop a throw-away server: ``fast`` ends its clients, ``immediate`` is as good as a crash."""
    _run("pg_ctl", "-D", _folder(url) / "data", "-w", "-m", how, "stop")


def _folder(url: str) -> Path:
    return Path(url.partition("host=")[2])


def _run(program: str, *arguments: str | Path) -> None:
    folder = binaries()
    if folder is None:
        raise FileNotFoundError(program)
    command = [str(folder / program), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
