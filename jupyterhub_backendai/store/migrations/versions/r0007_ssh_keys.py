"""The SSH keys of each user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ssh_keys",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("private", sa.Text(), nullable=False),
        sa.Column("public", sa.Text(), nullable=False),
        sa.Column("host_private", sa.Text(), nullable=False),
        sa.Column("host_public", sa.Text(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_ssh_keys"),
    )


def downgrade() -> None:
    op.drop_table("ssh_keys")
