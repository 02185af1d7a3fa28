"""Agents that take no sessions because an admin says so, and their place in the change feed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("drained_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("agents", sa.Column("drained_by", sa.String(length=255), nullable=True))
    op.add_column(
        "agents", sa.Column("seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )


def downgrade() -> None:
    for name in ("seq", "drained_by", "drained_at"):
        op.drop_column("agents", name)
