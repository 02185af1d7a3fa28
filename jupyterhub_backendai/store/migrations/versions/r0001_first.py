"""The first schema: sessions, kernels, allocations, history, agents, meta."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LIVE = sa.text("status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR')")
HELD = sa.text("freed_at IS NULL")


def upgrade() -> None:
    _create_sessions()
    _create_what_belongs_to_a_session()
    _create_the_rest()


def downgrade() -> None:
    for name in ("kernels", "history", "allocations", "sessions", "meta", "agents"):
        op.drop_table(name)


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("server_name", sa.String(length=255), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("owner_groups", sa.JSON(), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=True),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason_code", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("resource_group", sa.String(length=255), nullable=False),
        sa.Column("agent_wanted", sa.String(length=255), nullable=True),
        sa.Column("agent", sa.String(length=255), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("cpu", sa.BigInteger(), nullable=False),
        sa.Column("mem", sa.BigInteger(), nullable=False),
        sa.Column("shm", sa.BigInteger(), nullable=False),
        sa.Column("fgpu", sa.BigInteger(), nullable=False),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("driver", sa.String(length=64), nullable=True),
        sa.Column("submitted_at", TIME, nullable=False),
        sa.Column("status_changed_at", TIME, nullable=False),
        sa.Column("placed_at", TIME, nullable=True),
        sa.Column("running_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("not_before", TIME, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index(
        "ix_sessions_live_status",
        "sessions",
        ["status", "submitted_at"],
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_index("ix_sessions_owner_submitted_at", "sessions", ["owner", "submitted_at"])
    op.create_index("ix_sessions_submitted_at", "sessions", ["submitted_at"])
    op.create_index(
        "uq_sessions_live_name",
        "sessions",
        ["owner", "name"],
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_index(
        "uq_sessions_live_server",
        "sessions",
        ["owner", "server_name"],
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )


def _create_what_belongs_to_a_session() -> None:
    op.create_table(
        "allocations",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("kernel", sa.String(length=32), nullable=False),
        sa.Column("agent", sa.String(length=255), nullable=False),
        sa.Column("cpu", sa.BigInteger(), nullable=False),
        sa.Column("mem", sa.BigInteger(), nullable=False),
        sa.Column("fgpu", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("freed_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_allocations_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_allocations"),
    )
    op.create_index("ix_allocations_freed_at", "allocations", ["freed_at"])
    op.create_index("ix_allocations_session_id", "allocations", ["session_id"])
    op.create_index(
        "uq_allocations_held",
        "allocations",
        ["session_id", "kernel"],
        unique=True,
        sqlite_where=HELD,
        postgresql_where=HELD,
    )
    op.create_table(
        "history",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("phase", sa.String(length=64), nullable=False),
        sa.Column("from_status", sa.String(length=16), nullable=True),
        sa.Column("to_status", sa.String(length=16), nullable=True),
        sa.Column("result", sa.String(length=32), nullable=False),
        sa.Column("error_code", sa.String(length=128), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("sub_steps", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_history_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_history"),
    )
    op.create_index("ix_history_session_id_id", "history", ["session_id", "id"])
    op.create_table(
        "kernels",
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=True),
        sa.Column("agent", sa.String(length=255), nullable=True),
        sa.Column("container_id", sa.String(length=128), nullable=True),
        sa.Column("container_name", sa.String(length=255), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name="fk_kernels_session_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "name", name="pk_kernels"),
    )


def _create_the_rest() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("reporter", sa.String(length=64), nullable=False),
        sa.Column("resource_group", sa.String(length=255), nullable=False),
        sa.Column("cpu", sa.BigInteger(), nullable=False),
        sa.Column("mem", sa.BigInteger(), nullable=False),
        sa.Column("fgpu", sa.BigInteger(), nullable=False),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_agents"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
