"""How sessions that were over long ago are removed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, Integer, bindparam, delete, select

from .tables import SESSIONS

_ALL = SESSIONS.c
# What ended then was submitted before it: an index leads to the oldest.
_OLD = (
    select(_ALL.id)
    .where(_ALL.submitted_at < bindparam("before"), _ALL.ended_at < bindparam("before"))
    .order_by(_ALL.submitted_at)
    .limit(bindparam("most", type_=Integer))
)
_FORGET = delete(SESSIONS).where(_ALL.id.in_(_OLD))


def forget(db: Connection, before: datetime, most: int) -> int:
    """Removes up to `most` sessions that were over before that time; their other rows go with
    them. Returns how many it removed."""
    return db.execute(_FORGET, {"before": before, "most": most}).rowcount
