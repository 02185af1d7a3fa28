"""The change feed: each change of a session gets the next number, in the order of the commits.

Whatever changes a row of `sessions` sets its `seq` to 0 (the column does it by itself). At the end
of the transaction such rows get the next numbers, under a lock that is held until the commit: so
whoever has read up to a number will never find a lower one that is new. The rows are ours already
and the lock is the last that a transaction takes, so no two can wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import exists, func, select, update
from sqlalchemy.orm import Session as Transaction

from .records import Session, session_of
from .tables import UNNUMBERED, MetaRow, SessionRow, table


@dataclass(frozen=True, slots=True)
class Change:
    """A session as it is now, and the number of its latest change."""

    seq: int
    session: Session


def number(db: Transaction) -> None:
    """Gives the next numbers to what this transaction has changed. Call it last."""
    db.flush()
    rows = table(SessionRow)
    if not db.scalar(select(exists().where(rows.c.seq == UNNUMBERED))):
        return
    counter = db.get_one(MetaRow, "seq", with_for_update=True, populate_existing=True)
    in_order = func.row_number().over(order_by=(rows.c.submitted_at, rows.c.id))
    changed = select(rows.c.id, in_order.label("number")).where(rows.c.seq == UNNUMBERED).subquery()
    done = db.connection().execute(
        update(rows)
        .where(rows.c.id == changed.c.id)
        .values(seq=int(counter.value) + changed.c.number)
    )
    counter.value = str(int(counter.value) + done.rowcount)


def latest(db: Transaction) -> int:
    """The number of the latest change of all; 0 before the first."""
    return int(db.get_one(MetaRow, "seq").value)


def changes(db: Transaction, after: int, owner: str | None, limit: int) -> Sequence[Change]:
    """What changed after that number, in order, each session once."""
    query = select(SessionRow).where(SessionRow.seq > after)
    if owner is not None:
        query = query.where(SessionRow.owner == owner)
    rows = db.scalars(query.order_by(SessionRow.seq).limit(limit))
    return [Change(row.seq, session_of(row)) for row in rows]
