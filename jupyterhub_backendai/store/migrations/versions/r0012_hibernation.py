"""What is kept of hibernated sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "hibernations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("session_id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("agent", sa.String(255), nullable=False),
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("engine_id", sa.String(128), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("own", sa.BigInteger(), nullable=False),
        sa.Column("made_at", _TIME, nullable=False),
        sa.Column("drop_at", _TIME, nullable=True),
        sa.Column("current", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("extended", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("vouched_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_hibernations"),
    )
    for column in ("session_id", "owner"):
        op.create_index(f"ix_hibernations_{column}", "hibernations", [column])
    op.add_column(
        "commits",
        sa.Column(
            "hibernates",
            sa.Boolean(create_constraint=False),
            nullable=False,
            server_default=sa.false(),
        ),
    )
    for name, kind in (("reason_code", sa.String(64)), ("reason", sa.Text())):
        added = sa.Column(name, kind, nullable=False, server_default=sa.text("''"))
        op.add_column("commits", added)


def downgrade() -> None:
    # A row that is none of this older schema's statuses would be live for ever.
    op.execute(
        "UPDATE sessions SET status = 'TERMINATED', ended_at = status_changed_at "
        "WHERE status = 'HIBERNATED'"
    )
    # That version could not read the words of this one in a history.
    for column, word, older in (
        ("phase", "hibernate", "terminate"),
        ("phase", "resume", "submit"),
        ("from_status", "HIBERNATED", "TERMINATED"),
        ("to_status", "HIBERNATED", "TERMINATED"),
    ):
        op.execute(f"UPDATE history SET {column} = '{older}' WHERE {column} = '{word}'")  # noqa: S608
    # It would go on with these as with images for their owners' lists.
    op.execute(
        "UPDATE commits SET status = 'CANCELLED', ended_at = status_changed_at "
        "WHERE hibernates AND status NOT IN ('DONE', 'FAILED', 'CANCELLED')"
    )
    for name in ("reason", "reason_code", "hibernates"):
        op.drop_column("commits", name)
    op.drop_table("hibernations")
