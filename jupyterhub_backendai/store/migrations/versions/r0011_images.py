"""Images that users make of their sessions, and the making of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_UNDER_WAY = sa.text("status NOT IN ('DONE', 'FAILED', 'CANCELLED')")
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("environment", sa.String(64), nullable=True),
        sa.Column("version", sa.String(64), nullable=True),
        sa.Column("base", sa.String(255), nullable=False),
        sa.Column("base_id", sa.String(128), nullable=False),
        sa.Column("engine_id", sa.String(128), nullable=False),
        sa.Column("agent", sa.String(255), nullable=True),
        sa.Column("digest", sa.String(128), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("own", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("made_at", _TIME, nullable=False),
        sa.Column("used_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_images"),
    )
    op.create_index("uq_images_reference", "images", ["reference"], unique=True)
    op.create_index("ix_images_owner_name", "images", ["owner", "name"])
    op.create_table(
        "commits",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("session_id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("asked_by", sa.String(255), nullable=False),
        sa.Column("image_id", sa.String(32), nullable=False),
        sa.Column("is_new", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("environment", sa.String(64), nullable=True),
        sa.Column("version", sa.String(64), nullable=True),
        sa.Column("base", sa.String(255), nullable=False),
        sa.Column("agent", sa.String(255), nullable=False),
        sa.Column("container_id", sa.String(128), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("cancel_asked", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error_code", sa.String(64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=True),
        sa.Column("began_at", _TIME, nullable=False),
        sa.Column("status_changed_at", _TIME, nullable=False),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_commits"),
    )
    for name, column in (("uq_commits_session", "session_id"), ("uq_commits_image", "image_id")):
        op.create_index(
            name, "commits", [column], unique=True,
            sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY,
        )  # fmt: skip
    op.create_index("ix_commits_session_id_began_at", "commits", ["session_id", "began_at"])
    op.create_index("ix_commits_owner_began_at", "commits", ["owner", "began_at"])
    op.create_index("ix_commits_ended_at", "commits", ["ended_at"])
    op.create_table(
        "registry_remains",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(128), nullable=True),
        sa.Column("noted_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_registry_remains"),
    )


def downgrade() -> None:
    op.drop_table("registry_remains")
    op.drop_table("commits")
    op.drop_table("images")
