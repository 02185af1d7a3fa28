"""Which warnings of an end were told, by mail and by other means."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("warning", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ends_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("sender", sa.String(length=32), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_notices_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "channel", "warning", "ends_at", name="pk_notices"),
    )


def downgrade() -> None:
    op.drop_table("notices")
