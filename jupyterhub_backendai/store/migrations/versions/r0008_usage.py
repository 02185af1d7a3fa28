"""What sessions used: steps of several lengths, and totals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

METRICS = ("cpu", "mem", "disk_read", "disk_write", "net_in", "net_out", "gpu", "gpu_mem")


def _values(*endings: str) -> list[sa.Column[float]]:
    return [
        sa.Column(f"{metric}{ending}", sa.Float(), nullable=True)
        for ending in endings
        for metric in METRICS
    ]


def upgrade() -> None:
    op.create_table(
        "usage_steps",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("size", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        *_values("", "_peak"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_usage_steps_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "size", "at", name="pk_usage_steps"),
    )
    op.create_index("ix_usage_steps_size", "usage_steps", ["size", "at"])
    op.create_table(
        "usage_totals",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        *_values("_sum", "_seconds", "_peak"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_usage_totals_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name="pk_usage_totals"),
    )


def downgrade() -> None:
    op.drop_table("usage_totals")
    op.drop_table("usage_steps")
