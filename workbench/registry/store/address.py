"""Where a PostgreSQL store is, from its URL."""

import os
import re
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from workbench.errors import InvalidFileError

_SCHEMES = ("postgresql", "postgresql+pg8000")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")


@dataclass(frozen=True, kw_only=True)
class Address:
    """What a PostgreSQL URL says."""

    user: str
    password: str | None = field(repr=False)
    host: str
    port: int
    database: str
    socket: str | None
    """Folder of the server's Unix socket, instead of host and port."""
    schema: str
    """PostgreSQL's schema that holds the log's tables; one log each."""
    encryption: str
    """``disable``, ``require`` or ``verify-full``, as in libpq's ``sslmode``."""

    @property
    def place(self) -> str:
        """Host, database and schema, without the password."""
        host = self.socket or f"{self.host}:{self.port}"
        return f"PostgreSQL {self.database} at {host}, schema {self.schema}"

    def arguments(self, *, read_only: bool) -> dict[str, Any]:
        """Return what the driver connects with."""
        settings = {
            "search_path": self.schema,
            "synchronous_commit": "on",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on" if read_only else "off",
        }
        return {
            "user": self.user,
            "password": self.password,
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "unix_sock": f"{self.socket}/.s.PGSQL.{self.port}" if self.socket else None,
            "ssl_context": _ssl_context(self.encryption),
            "application_name": "workbench",
            "startup_params": settings,
        }


def is_postgres_url(url: str) -> bool:
    """Return whether the URL names a PostgreSQL database."""
    return url.partition("://")[0] in _SCHEMES


def parse_url(url: str) -> Address:
    """Return what ``postgresql://user:password@host:port/database?schema=…`` says.

    Raises:
        InvalidFileError: it names no database, or has an option that is not known.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    database = unquote(parts.path.lstrip("/"))
    unknown = sorted(options.keys() - {"schema", "sslmode", "host"})
    schema, encryption = options.get("schema", "workbench"), options.get("sslmode", "disable")
    fault = ""
    if not database or "/" in database:
        fault = "it names no database"
    elif unknown:
        fault = f"option {unknown[0]!r} is none of schema, sslmode and host"
    elif not _SCHEMA.match(schema):
        fault = f"schema {schema!r} is not a lower-case SQL name"
    elif encryption not in ("disable", "require", "verify-full"):
        fault = f"sslmode {encryption!r} is none of disable, require and verify-full"
    if fault:
        raise InvalidFileError(
            f"the store URL of PostgreSQL cannot be used: {fault}",
            remedy='set store_url = "postgresql://USER@HOST:5432/DATABASE" in workbench.toml',
        )
    password = unquote(parts.password) if parts.password else os.environ.get("PGPASSWORD")
    return Address(
        user=unquote(parts.username or "") or os.environ.get("PGUSER") or "postgres",
        password=password,
        host=parts.hostname or "localhost",
        port=parts.port or 5432,
        database=database,
        socket=options.get("host"),
        schema=schema,
        encryption=encryption,
    )


def _ssl_context(encryption: str) -> ssl.SSLContext | None:
    if encryption == "disable":
        return None
    context = ssl.create_default_context()
    if encryption == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
