"""Apps that are open beyond their owners' own sign-in, and where sessions' apps are reached."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
OPEN = sa.text("closed_at IS NULL")


def upgrade() -> None:
    op.add_column("kernels", sa.Column("address", sa.String(length=255), nullable=True))
    op.add_column("kernels", sa.Column("apps_key", sa.String(length=255), nullable=True))
    op.create_table(
        "ways",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("app", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("protocol", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("wanted", sa.Integer(), nullable=True),
        sa.Column("opened_by", sa.String(length=255), nullable=False),
        sa.Column("opened_at", TIME, nullable=False),
        sa.Column("closed_at", TIME, nullable=True),
        sa.Column("closed_by", sa.String(length=255), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_ways_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_ways"),
    )
    op.create_index(
        "uq_ways_open_number", "ways", ["number"], unique=True,
        sqlite_where=OPEN, postgresql_where=OPEN,
    )  # fmt: skip
    op.create_index("ix_ways_session_id", "ways", ["session_id"])
    op.create_index("ix_ways_closed_at", "ways", ["closed_at"])


def downgrade() -> None:
    op.drop_table("ways")
    for name in ("apps_key", "address"):
        op.drop_column("kernels", name)
