"""Whole GPUs and MIG devices beside shares, and the devices that agents have and sessions hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

AMOUNTS = ("sessions", "allocations", "agents")
DEVICES = ("allocations", "agents")


def upgrade() -> None:
    for table in AMOUNTS:
        for slot in ("gpu", "mig"):
            amount = sa.Column(slot, sa.BigInteger(), server_default=sa.text("0"), nullable=False)
            op.add_column(table, amount)
    for table in DEVICES:
        op.add_column(table, sa.Column("devices", sa.JSON(), nullable=True))


def downgrade() -> None:
    for table in DEVICES:
        op.drop_column(table, "devices")
    for table in AMOUNTS:
        for slot in ("mig", "gpu"):
            op.drop_column(table, slot)
