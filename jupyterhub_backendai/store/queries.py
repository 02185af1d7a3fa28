"""How sessions and their kernels are found, each query named for what it answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, text

from ..model.request import KnownSession
from ..model.status import Status
from .errors import NotFound
from .records import Kernel, Session, SessionResult, kernel_of, session_of
from .tables import DEPENDENCIES, KERNELS, LIVE, SESSIONS, among

Order = Literal[
    "submitted_at", "name", "owner", "status", "priority", "ended_at", "position", "began_at",
]  # fmt: skip

_ALL = SESSIONS.c
_OF_ID = select(SESSIONS).where(_ALL.id == bindparam("of"))
_OF_IDS = select(SESSIONS).where(_ALL.id.in_(bindparam("some", expanding=True)))
_OF_SERVER = (
    select(SESSIONS)
    .where(_ALL.owner == bindparam("whose"), _ALL.server_name == bindparam("server"))
    .order_by(_ALL.submitted_at.desc(), _ALL.id.desc())
    .limit(1)
)
_LIVE_OF_SERVER = _OF_SERVER.where(text(LIVE))
_LIVE_NAMES = select(_ALL.name).where(text(LIVE), _ALL.owner == bindparam("whose"))
_FOUND = (
    select(_ALL.id, _ALL.name, _ALL.type, _ALL.status, _ALL.result)
    .where(
        _ALL.owner == bindparam("whose"),
        _ALL.id.in_(bindparam("ids", expanding=True))
        | _ALL.name.in_(bindparam("names", expanding=True)),
    )
    .order_by(_ALL.submitted_at, _ALL.id)
)
_LIVE_CONTAINERS = select(KERNELS.c.container_id).where(
    KERNELS.c.session_id.in_(select(_ALL.id).where(text(LIVE))), KERNELS.c.container_id != ""
)
_KERNELS = (
    select(KERNELS)
    .where(KERNELS.c.session_id == bindparam("of"))
    .order_by(KERNELS.c.role != "main", KERNELS.c.name)
)

_ORDERS: dict[str, ColumnElement[Any]] = {
    "submitted_at": _ALL.submitted_at,
    "name": _ALL.name,
    "owner": _ALL.owner,
    "status": _ALL.status,
    "priority": _ALL.priority,
    "ended_at": _ALL.ended_at,
    "position": _ALL.position,
    "began_at": func.coalesce(_ALL.running_at, _ALL.submitted_at),  # what it is: it waits, or runs
}
_MAY_BE_EMPTY = {"ended_at", "position"}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sessions a list shows; None is all of them. `name` is any part of a name, in capitals
    or not; `submitted_from` is included, `submitted_until` is not."""

    owner: str | None = None
    statuses: Collection[Status] | None = None
    type: str | None = None
    resource_group: str | None = None
    project: str | None = None
    name: str | None = None
    submitted_from: datetime | None = None
    submitted_until: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The filter as conditions of a query."""
        wanted: list[ColumnElement[bool]] = []
        if self.owner is not None:
            wanted.append(_ALL.owner == self.owner)
        if self.statuses is not None:
            wanted.append(_ALL.status.in_([status.value for status in self.statuses]))
        if self.type is not None:
            wanted.append(_ALL.type == self.type)
        if self.resource_group is not None:
            wanted.append(_ALL.resource_group == self.resource_group)
        if self.project is not None:
            wanted.append(_ALL.project == self.project)
        if self.name is not None:
            wanted.append(_ALL.name.icontains(self.name, autoescape=True))
        if self.submitted_from is not None:
            wanted.append(_ALL.submitted_at >= self.submitted_from)
        if self.submitted_until is not None:
            wanted.append(_ALL.submitted_at < self.submitted_until)
        return wanted


def get(db: Connection, session_id: str) -> Session:
    """The session of this id. Raises `NotFound`."""
    row = db.execute(_OF_ID, {"of": session_id}).one_or_none()
    if row is None:
        raise NotFound(session_id)
    return session_of(row)


def get_many(db: Connection, session_ids: Collection[str]) -> dict[str, Session]:
    """The sessions of these ids, by id; an id without a session is left out."""
    return {row.id: session_of(row) for row in db.execute(_OF_IDS, {"some": list(session_ids)})}


def find(db: Connection, owner: str, references: Collection[str]) -> dict[str, KnownSession]:
    """The owner's sessions of these ids or names, by what was asked for; of sessions with the
    same name the newest."""
    if not references:
        return {}
    asked = list(references)
    rows = db.execute(_FOUND, {"whose": owner, "ids": asked, "names": asked}).all()
    found = {}
    for by in ("name", "id"):  # the id has the last word
        for row in rows:
            ended = Status(row.status).is_final
            succeeded = ended and row.result == SessionResult.SUCCESS.value
            known = KnownSession(row.id, row.name, row.type, ended, succeeded)
            if getattr(row, by) in references:
                found[getattr(row, by)] = known
    return found


def dependencies(db: Connection, session_id: str) -> list[Session]:
    """Sessions that this one depends on, oldest first."""
    return _linked(db, DEPENDENCIES.c.depends_on, DEPENDENCIES.c.session_id, session_id)


def dependents(db: Connection, session_id: str) -> list[Session]:
    """Sessions that depend on this one, oldest first."""
    return _linked(db, DEPENDENCIES.c.session_id, DEPENDENCIES.c.depends_on, session_id)


def _linked(db: Connection, wanted: Any, given: Any, session_id: str) -> list[Session]:
    rows = db.execute(
        select(SESSIONS)
        .join(DEPENDENCIES, wanted == _ALL.id)
        .where(given == session_id)
        .order_by(_ALL.submitted_at, _ALL.id)
    )
    return [session_of(row) for row in rows]


def of_server(db: Connection, owner: str, server_name: str, *, live: bool) -> Session | None:
    """The newest session of a server of the Hub; `live`: only one that is not over."""
    query = _LIVE_OF_SERVER if live else _OF_SERVER
    row = db.execute(query, {"whose": owner, "server": server_name}).first()
    return session_of(row) if row else None


def live_names(db: Connection, owner: str) -> frozenset[str]:
    """Names that the owner's live sessions have."""
    return frozenset(db.scalars(_LIVE_NAMES, {"whose": owner}))


def live(
    db: Connection,
    statuses: Collection[Status] | None,
    driver_not: str | None,
    type: str | None,
) -> list[Session]:
    """Sessions that are not over, oldest first."""
    some = None if statuses is None else frozenset(statuses)
    query = _live(some, by_driver=driver_not is not None, by_type=type is not None)
    given = {"not_by": driver_not, "of_type": type}
    values = {name: value for name, value in given.items() if value is not None}
    return [session_of(row) for row in db.execute(query, values)]


@cache
def _live(statuses: frozenset[Status] | None, *, by_driver: bool, by_type: bool) -> Select[Any]:
    query = select(SESSIONS).where(text(LIVE)).order_by(_ALL.submitted_at, _ALL.id)
    if by_type:
        query = query.where(_ALL.type == bindparam("of_type"))
    if statuses is not None:
        query = query.where(among(_ALL.status, (status.value for status in statuses)))
    if by_driver:
        query = query.where(_ALL.driver.is_distinct_from(bindparam("not_by")))
    return query


def page(
    db: Connection,
    wanted: Filter,
    order: Order,
    descending: bool,
    limit: int,
    offset: int,
) -> tuple[list[Session], int]:
    """One page of a list, and how many sessions the whole list has."""
    conditions = wanted.conditions()
    total = db.scalar(select(func.count()).select_from(SESSIONS).where(*conditions)) or 0
    key = _ORDERS[order]
    ordered = [key.desc(), _ALL.id.desc()] if descending else [key, _ALL.id]
    if order in _MAY_BE_EMPTY:  # which databases sort differently
        ordered = [key.is_(None), *ordered]
    # First the ids, then the rows: what is sorted and skipped is not carried along.
    ids = db.scalars(
        select(_ALL.id).where(*conditions).order_by(*ordered).limit(limit).offset(offset)
    ).all()
    found = get_many(db, ids)
    return [found[session_id] for session_id in ids], total


def kernels(db: Connection, session_id: str) -> list[Kernel]:
    """The containers of a session, the main one first."""
    return [kernel_of(row) for row in db.execute(_KERNELS, {"of": session_id})]


def live_containers(db: Connection) -> list[str]:
    """Ids of the containers of sessions that are not over."""
    return list(db.scalars(_LIVE_CONTAINERS))
