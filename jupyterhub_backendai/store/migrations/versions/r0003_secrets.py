"""Values that look secret go from sessions that are over, and from options that are kept."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from jupyterhub_backendai.model.secrets import redacted
from jupyterhub_backendai.model.status import FINAL

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SOME = 1000  # rows that are in memory at a time

SESSIONS = sa.table(
    "sessions", sa.column("id", sa.String), sa.column("status", sa.String),
    sa.column("spec", sa.JSON), sa.column("asked", sa.JSON(none_as_null=True)),
)  # fmt: skip
LAUNCHES = sa.table("launches", sa.column("id", sa.BigInteger), sa.column("asked", sa.JSON))


def upgrade() -> None:
    over = SESSIONS.c.status.in_([status.value for status in FINAL])
    _empty(SESSIONS, SESSIONS.c.spec, over)
    _empty(SESSIONS, SESSIONS.c.asked, SESSIONS.c.asked.is_not(None))
    _empty(LAUNCHES, LAUNCHES.c.asked, sa.true())


def downgrade() -> None:
    """Nothing: what is gone is gone."""


def _empty(
    rows: sa.TableClause, column: sa.ColumnClause[object], which: sa.ColumnElement[bool]
) -> None:
    db = op.get_bind()
    ids: Sequence[object] = db.scalars(sa.select(rows.c.id).where(which)).all()
    change = (
        sa.update(rows).where(rows.c.id == sa.bindparam("of")).values({column: sa.bindparam("now")})
    )
    for start in range(0, len(ids), SOME):
        some = ids[start : start + SOME]
        found = db.execute(sa.select(rows.c.id, column).where(rows.c.id.in_(some)))
        new = [{"of": id, "now": redacted(old)} for id, old in found if redacted(old) != old]
        if new:
            db.execute(change, new)
