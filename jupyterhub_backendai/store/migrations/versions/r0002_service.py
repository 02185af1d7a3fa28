"""What the service needs: the change feed, options as sent, batch work, dependencies, launches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("sessions", sa.Column("asked", sa.JSON(), nullable=True))
    op.add_column("sessions", sa.Column("batch_started_at", TIME, nullable=True))
    op.add_column(
        "sessions", sa.Column("seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    op.create_index("ix_sessions_seq", "sessions", ["seq"])
    op.create_index("ix_sessions_ended_at", "sessions", ["ended_at"])
    _create_dependencies()
    _create_launches()
    _number_what_is_there()


def downgrade() -> None:
    op.execute("DELETE FROM meta WHERE key = 'seq'")
    op.drop_table("launches")
    op.drop_table("dependencies")
    op.drop_index("ix_sessions_ended_at", "sessions")
    op.drop_index("ix_sessions_seq", "sessions")
    for name in ("seq", "batch_started_at", "asked"):
        op.drop_column("sessions", name)


def _create_dependencies() -> None:
    op.create_table(
        "dependencies",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("depends_on", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_dependencies_session_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["depends_on"], ["sessions.id"], name="fk_dependencies_depends_on", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "depends_on", name="pk_dependencies"),
    )
    op.create_index("ix_dependencies_depends_on", "dependencies", ["depends_on"])


def _create_launches() -> None:
    op.create_table(
        "launches",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_launches"),
    )
    op.create_index("ix_launches_owner_id", "launches", ["owner", "id"])


def _number_what_is_there() -> None:
    op.execute(
        "UPDATE sessions SET seq = n.number FROM"
        " (SELECT id, row_number() OVER (ORDER BY submitted_at, id) AS number FROM sessions) AS n"
        " WHERE n.id = sessions.id"
    )
    op.execute("INSERT INTO meta (key, value) SELECT 'seq', count(*) FROM sessions")
