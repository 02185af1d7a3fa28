"""The change feed: each change of a session gets the next number, in the order of the commits.

Whatever changes a row of `sessions` sets its `seq` to 0 (the column does it by itself). At the end
of the transaction such rows get the next numbers, under a lock that is held until the commit: so
whoever has read up to a number will never find a lower one that is new. The rows are ours already
and the lock is the last that a transaction takes, so no two can wait for each other.

An agent gets a number of the same count when it is new, when it begins or ceases to answer or to
take sessions, and when what it has changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Text,
    Update,
    bindparam,
    cast,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from ..model.status import FINAL, Status
from .records import AgentState, Session, agent_of, session_of
from .tables import AGENTS, META, SESSIONS, UNNUMBERED, among


@dataclass(frozen=True, slots=True)
class Change:
    """A session as it is now, and the number of its latest change."""

    seq: int
    session: Session


_ALL = SESSIONS.c
_COUNTER = META.c.key == "seq"
_COUNTED = cast(META.c.value, BigInteger)
_CHANGED = _ALL.seq == UNNUMBERED
_HOW_MANY = select(func.count()).select_from(SESSIONS).where(_CHANGED).scalar_subquery()
_COUNT_ON = (
    update(META)
    .where(_COUNTER, exists().where(_CHANGED))
    .values(value=cast(_COUNTED + _HOW_MANY, Text))
)
# The last of those that changed gets the number that the counter has now.
_NEWEST_FIRST = func.row_number().over(order_by=(_ALL.submitted_at.desc(), _ALL.id.desc()))
_UNNUMBERED = select(_ALL.id, _NEWEST_FIRST.label("number")).where(_CHANGED).subquery()
_NUMBER = (
    update(SESSIONS)
    .where(_ALL.id == _UNNUMBERED.c.id)
    .values(seq=select(_COUNTED).where(_COUNTER).scalar_subquery() + 1 - _UNNUMBERED.c.number)
)
# Most transactions change one session, and this takes a third of the time.
_NUMBER_ONE = (
    update(SESSIONS)
    .where(_CHANGED, _HOW_MANY == 1)
    .values(seq=select(_COUNTED).where(_COUNTER).scalar_subquery())
)
_SOME = select(SESSIONS).where(_ALL.seq > bindparam("after")).order_by(_ALL.seq)
_SOME = _SOME.limit(bindparam("most", type_=Integer))
_CHANGES, _CHANGES_OF = _SOME, _SOME.where(_ALL.owner == bindparam("whose"))
_LATEST = select(META.c.value).where(_COUNTER)
_MAY_START = exists().where(
    _ALL.seq > bindparam("after"),
    ((_ALL.status == Status.SCHEDULED.value) & _ALL.driver.is_(None))
    | ((_ALL.status == Status.PENDING.value) & _ALL.position.is_(None))
    | among(_ALL.status, (status.value for status in FINAL)),
)
_NEWS = select(META.c.value.label("latest"), _MAY_START.label("news")).where(_COUNTER)
_AGENT_CHANGES = select(AGENTS).where(AGENTS.c.seq > bindparam("after")).order_by(AGENTS.c.seq)
_COUNT_ONE = update(META).where(_COUNTER).values(value=cast(_COUNTED + 1, Text))
_NUMBER_AGENT = (
    update(AGENTS)
    .where(AGENTS.c.name == bindparam("of"))
    .values(seq=select(_COUNTED).where(_COUNTER).scalar_subquery())
)


def _in_sqlite(statement: Update) -> str:
    return str(statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


# Every write runs these. SQLite does so in a tenth of the time that it takes to get them there by
# SQLAlchemy, so its driver is given them as they are.
_SQL = tuple(_in_sqlite(each) for each in (_COUNT_ON, _NUMBER_ONE, _NUMBER))


def number(db: Connection) -> None:
    """Gives the next numbers to what this transaction has changed. Call it last."""
    if db.dialect.name == "sqlite":
        count_on, number_one, number_all = _SQL
        driver: Any = db.connection.dbapi_connection
        if driver.execute(count_on).rowcount and not driver.execute(number_one).rowcount:
            driver.execute(number_all)
    elif db.execute(_COUNT_ON).rowcount and not db.execute(_NUMBER_ONE).rowcount:
        db.execute(_NUMBER)


def number_agent(db: Connection, name: str) -> None:
    """Gives the next number to an agent that this transaction has changed. Call it when nothing
    is left to be changed but for numbers."""
    db.execute(_COUNT_ONE)
    db.execute(_NUMBER_AGENT, {"of": name})


def latest(db: Connection) -> int:
    """The number of the latest change of all; 0 before the first."""
    return int(db.execute(_LATEST).scalar_one())


def queue_news(db: Connection, after: int) -> tuple[int, bool]:
    """The number of the latest change, and whether one after that number may let a session start:
    something was freed, came in or was put back, or has its place and nobody who starts it."""
    row = db.execute(_NEWS, {"after": after}).one()
    return int(row.latest), bool(row.news)


def changes(db: Connection, after: int, owner: str | None, limit: int) -> Sequence[Change]:
    """What changed after that number, in order, each session once."""
    query, whose = (_CHANGES, {}) if owner is None else (_CHANGES_OF, {"whose": owner})
    rows = db.execute(query, {"after": after, "most": limit, **whose})
    return [Change(row.seq, session_of(row)) for row in rows]


def agent_changes(db: Connection, after: int) -> list[AgentState]:
    """Agents that changed after that number, in order, each once and as it is now."""
    return [agent_of(row) for row in db.execute(_AGENT_CHANGES, {"after": after})]
