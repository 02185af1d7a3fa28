"""What idle checks know of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idle",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("started", sa.Float(53), nullable=False),
        sa.Column("used", sa.Float(53), nullable=True),
        sa.Column("asked", sa.Float(53), nullable=True),
        sa.Column("heard", sa.Float(53), nullable=True),
        sa.Column("kept_until", sa.Float(53), nullable=True),
        sa.Column("kept", sa.Float(53), nullable=False),
        sa.Column("not_before", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_idle_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name="pk_idle"),
    )


def downgrade() -> None:
    op.drop_table("idle")
