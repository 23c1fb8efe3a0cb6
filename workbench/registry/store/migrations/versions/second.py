"""Version 2: an announcement with each entry, roots of subtrees, and erasure under a redaction."""

import sqlalchemy as sa
from alembic import op

from workbench.registry.merkle import Frontier
from workbench.registry.subtrees import grown

revision = "2"
down_revision = "1"

_CHUNK = 10_000
_COUNT = "SELECT coalesce(max(sequence) + 1, 0) FROM entries"
_LAST_HEAD = "SELECT coalesce(max(size), 0) FROM heads"
_CLASH = "SELECT 1 FROM entries WHERE {0} = NEW.{0}"
_NO_CLASH = " AND ".join(f"NOT EXISTS ({_CLASH.format(column)})" for column in ("leaf", "id"))
_TWIN = "SELECT 1 FROM subtrees WHERE level = NEW.level AND position = NEW.position"
_SAME = " AND ".join(
    f"NEW.{column} = OLD.{column}"
    for column in (
        "sequence", "leaf", "id", "kind", "subject", "envelope", "signature", "announcement",
    )
)  # fmt: skip
_ERASED = (
    f"{_SAME} AND length(NEW.body) = 0 AND length(NEW.salt) = 0 "
    "AND EXISTS (SELECT 1 FROM redactions WHERE sequence = OLD.sequence)"
)
# An envelope lists the leaf hashes that its entry refers to, in hexadecimal.
_REFERS = {
    "sqlite": "instr(a.envelope, CAST(lower(hex(e.leaf)) AS BLOB)) > 0",
    "postgresql": "position(convert_to(encode(e.leaf, 'hex'), 'UTF8') IN a.envelope) > 0",
}
_REDACTION = (
    "SELECT 1 FROM entries a, entries e WHERE a.sequence = NEW.redacted_by "
    "AND a.kind = 'redaction' AND e.sequence = NEW.sequence AND e.sequence < a.sequence "
    "AND {refers}"
)


def _guards(dialect: str) -> list[tuple[str, str, str, str]]:
    """Return table, event, what must hold, and the refusal where it does not."""
    redaction = f"EXISTS ({_REDACTION.format(refers=_REFERS[dialect])})"
    return [
        ("entries", "UPDATE", _ERASED, "entries are never changed"),
        ("entries", "DELETE", "1 = 0", "entries are never deleted"),
        # SQLite's REPLACE deletes without firing the DELETE trigger, so a clash is refused before.
        ("entries", "INSERT", f"NEW.sequence = ({_COUNT}) AND {_NO_CLASH}",
         "entries are appended without a gap, each once"),
        ("tree", "UPDATE", f"NEW.size > OLD.size AND NEW.size = ({_COUNT})",
         "the tree grows with its entries"),
        ("tree", "DELETE", "1 = 0", "the tree is never deleted"),
        ("tree", "INSERT", "NOT EXISTS (SELECT 1 FROM tree)", "there is one tree"),
        ("heads", "UPDATE", "1 = 0", "signed heads are never changed"),
        ("heads", "DELETE", "1 = 0", "signed heads are never deleted"),
        ("heads", "INSERT", f"NEW.size > ({_LAST_HEAD}) AND NEW.size <= ({_COUNT})",
         "a signed head is newer than the last and covers durable entries only"),
        ("subtrees", "UPDATE", "1 = 0", "subtrees are never changed"),
        ("subtrees", "DELETE", "1 = 0", "subtrees are never deleted"),
        ("subtrees", "INSERT", f"NOT EXISTS ({_TWIN})", "each subtree is kept once"),
        ("redactions", "UPDATE", "1 = 0", "redactions are never changed"),
        ("redactions", "DELETE", "1 = 0", "redactions are never deleted"),
        ("redactions", "INSERT", redaction, "no redaction entry names this entry"),
    ]  # fmt: skip


def upgrade() -> None:
    """Move the announcement to the newest entry, compute the subtrees, guard the tables."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    if dialect == "sqlite":
        for (name,) in connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).all():
            connection.exec_driver_sql(f'DROP TRIGGER "{name}"')
    op.add_column("entries", sa.Column("announcement", sa.Text, nullable=False, server_default=""))
    connection.exec_driver_sql(
        "UPDATE entries SET announcement = (SELECT announcement FROM tree) "
        f"WHERE sequence = ({_COUNT}) - 1"
    )
    _drop_announcement_of_tree(connection)
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "subtrees",
        sa.Column("level", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", number, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "redactions",
        sa.Column("sequence", number, primary_key=True, autoincrement=False),
        sa.Column("redacted_by", number, nullable=False),
    )
    _fill_subtrees(connection)
    for guard in _guards(dialect):
        for statement in _sqlite_guard(*guard) if dialect == "sqlite" else _postgres_guard(*guard):
            connection.exec_driver_sql(statement)
    if dialect == "sqlite":
        connection.exec_driver_sql(f"PRAGMA user_version = {revision}")
    else:
        for table in ("entries", "tree", "heads", "subtrees", "redactions"):
            for statement in _postgres_guard(
                table, "TRUNCATE", "1 = 0", f"{table} is never emptied"
            ):
                connection.exec_driver_sql(statement)


def _drop_announcement_of_tree(connection: sa.Connection) -> None:
    if connection.dialect.name != "sqlite":
        op.drop_column("tree", "announcement")
        return
    # Older versions of SQLite cannot drop a column.
    connection.exec_driver_sql("ALTER TABLE tree RENAME TO tree_1")
    op.create_table(
        "tree",
        sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("frontier", sa.LargeBinary, nullable=False),
    )
    connection.exec_driver_sql("INSERT INTO tree SELECT one, size, frontier FROM tree_1")
    op.drop_table("tree_1")


def _fill_subtrees(connection: sa.Connection) -> None:
    tree, since = Frontier(), 0
    entries, subtrees = (
        sa.table("entries", sa.column("sequence"), sa.column("leaf")),
        sa.table(
            "subtrees", sa.column("level"), sa.column("position"), sa.column("hash", sa.LargeBinary)
        ),
    )
    query = sa.select(entries.c.leaf).order_by(entries.c.sequence).limit(_CHUNK)
    while True:
        leaves = connection.scalars(query.where(entries.c.sequence >= since)).all()
        growth = grown(tree, leaves)
        for subtree in growth.subtrees:
            connection.execute(
                subtrees.insert(),
                {"level": subtree.level, "position": subtree.position, "hash": subtree.root},
            )
        if len(leaves) < _CHUNK:
            return
        tree, since = growth.tree, growth.tree.size


def _sqlite_guard(table: str, event: str, holds: str, refusal: str) -> list[str]:
    # IS NOT 1, so that a condition that a NULL makes unknown refuses, too.
    name = f"{table}_{event.lower()}"
    refuse = f"SELECT RAISE(ABORT, '{refusal}')"
    when = f"({holds}) IS NOT 1"
    return [f"CREATE TRIGGER {name} BEFORE {event} ON {table} WHEN {when} BEGIN {refuse}; END"]


def _postgres_guard(table: str, event: str, holds: str, refusal: str) -> list[str]:
    name, each = f"{table}_{event.lower()}", "STATEMENT" if event == "TRUNCATE" else "ROW"
    refuse = f"RAISE EXCEPTION '{refusal}' USING ERRCODE = 'integrity_constraint_violation'"
    body = f"BEGIN IF ({holds}) IS NOT TRUE THEN {refuse}; END IF; RETURN NEW; END"
    trigger = f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH {each}"
    return [
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $guard$ {body} $guard$",
        f"{trigger} EXECUTE FUNCTION {name}()",
    ]


def downgrade() -> None:
    """Refuse: a record is not taken apart."""
    raise NotImplementedError("a ledger's tables are only ever brought forward")
