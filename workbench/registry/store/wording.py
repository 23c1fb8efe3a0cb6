"""How statements are worded for PostgreSQL: literals in place of marks, several to a message."""

from collections.abc import Mapping, Sequence

from workbench.errors import InvalidFileError
from workbench.registry.store.sql import (
    FOUND,
    GROW,
    HEAD,
    INSERT,
    LAST_NOTE,
    TREE,
    Statement,
    Value,
)

STATE = f"SELECT t.*, ({LAST_NOTE}), (SELECT count(*) FROM requests) FROM ({TREE}) AS t"
REQUEST = "INSERT INTO requests (request) VALUES (?)"
# What an append says, planned once a connection: planning costs more than doing.
PREPARED = {
    sql: f"workbench_{number}"
    for number, sql in enumerate((STATE, INSERT, GROW, HEAD, FOUND, REQUEST))
}


def lazily(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements as a transaction that does not wait for the disk."""
    if not statements:
        return []
    begin: list[Statement] = [("BEGIN", ()), ("SET LOCAL synchronous_commit = off", ())]
    return [*begin, *statements, ("COMMIT", ())]


def preparation(sql: str) -> str:
    """Return what has a connection plan the statement once."""
    first, *rest = sql.split("?")
    numbered = "".join(f"${number}{part}" for number, part in enumerate(rest, start=1))
    return f"PREPARE {PREPARED[sql]} AS {first}{numbered}"


def filled(sql: str, values: Sequence[Value], known: Mapping[str, str]) -> str:
    """Return the statement with its values, by its name where the connection has planned it."""
    if sql in known:
        given = ", ".join(map(_literal, values))
        return f"EXECUTE {known[sql]}({given})" if values else f"EXECUTE {known[sql]}"
    parts = sql.split("?")
    literals = [*map(_literal, values), ""]
    return "".join(part + literal for part, literal in zip(parts, literals, strict=True))


def _literal(value: Value) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    if "\0" in value:
        raise InvalidFileError(f"{value!r} has a NUL, which PostgreSQL cannot keep in a text")
    return "'" + value.replace("'", "''") + "'"
