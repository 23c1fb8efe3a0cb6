"""Version 1: entries, the tree over them, and the heads that were signed."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "entries",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer, "sqlite"),
                  primary_key=True, autoincrement=False),
        sa.Column("leaf", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.Text, nullable=False, index=True),
        sa.Column("subject", sa.Text, nullable=False, index=True),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
    )  # fmt: skip
    op.create_table(
        "tree",
        sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("frontier", sa.LargeBinary, nullable=False),
        sa.Column("announcement", sa.Text, nullable=False),
    )
    op.create_table(
        "heads",
        sa.Column("size", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True,
                  autoincrement=False),
        sa.Column("note", sa.Text, nullable=False),
    )  # fmt: skip
    op.execute(
        sa.text("INSERT INTO tree (one, size, frontier, announcement) VALUES (1, 0, :none, '')")
        .bindparams(sa.bindparam("none", b"", sa.LargeBinary))
    )  # fmt: skip
    # What guards the tables comes with version 2, which no store is without for longer than the
    # transaction that makes it.


def downgrade() -> None:
    """Refuse: a record is not taken apart."""
    raise NotImplementedError("a ledger's tables are only ever brought forward")
