"""How sessions and their kernels are found, each query named for what it answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm import Session as Transaction

from ..model.request import KnownSession
from ..model.status import Status
from .errors import NotFound
from .records import Kernel, Session, SessionResult, kernel_of, session_of
from .tables import LIVE, DependencyRow, KernelRow, SessionRow

Order = Literal["submitted_at", "name", "owner", "status", "priority", "ended_at"]

_ORDERS: dict[str, InstrumentedAttribute[Any]] = {
    "submitted_at": SessionRow.submitted_at,
    "name": SessionRow.name,
    "owner": SessionRow.owner,
    "status": SessionRow.status,
    "priority": SessionRow.priority,
    "ended_at": SessionRow.ended_at,
}


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
            wanted.append(SessionRow.owner == self.owner)
        if self.statuses is not None:
            wanted.append(SessionRow.status.in_([status.value for status in self.statuses]))
        if self.type is not None:
            wanted.append(SessionRow.type == self.type)
        if self.resource_group is not None:
            wanted.append(SessionRow.resource_group == self.resource_group)
        if self.project is not None:
            wanted.append(SessionRow.project == self.project)
        if self.name is not None:
            wanted.append(SessionRow.name.icontains(self.name, autoescape=True))
        if self.submitted_from is not None:
            wanted.append(SessionRow.submitted_at >= self.submitted_from)
        if self.submitted_until is not None:
            wanted.append(SessionRow.submitted_at < self.submitted_until)
        return wanted


def get(db: Transaction, session_id: str) -> Session:
    """The session of this id. Raises `NotFound`."""
    row = db.get(SessionRow, session_id)
    if row is None:
        raise NotFound(session_id)
    return session_of(row)


def get_many(db: Transaction, session_ids: Collection[str]) -> dict[str, Session]:
    """The sessions of these ids, by id; an id without a session is left out."""
    rows = db.scalars(select(SessionRow).where(SessionRow.id.in_(session_ids)))
    return {row.id: session_of(row) for row in rows}


def find(db: Transaction, owner: str, references: Collection[str]) -> dict[str, KnownSession]:
    """The owner's sessions of these ids or names, by what was asked for; of sessions with the
    same name the newest."""
    of = SessionRow
    rows = db.execute(
        select(of.id, of.name, of.type, of.status, of.result)
        .where(of.owner == owner, of.id.in_(references) | of.name.in_(references))
        .order_by(of.submitted_at, of.id)
    ).all()
    found = {}
    for by in ("name", "id"):  # the id has the last word
        for row in rows:
            ended = Status(row.status).is_final
            succeeded = ended and row.result == SessionResult.SUCCESS.value
            known = KnownSession(row.id, row.name, row.type, ended, succeeded)
            if getattr(row, by) in references:
                found[getattr(row, by)] = known
    return found


def dependencies(db: Transaction, session_id: str) -> list[Session]:
    """Sessions that this one depends on, oldest first."""
    return _linked(db, DependencyRow.depends_on, DependencyRow.session_id, session_id)


def dependents(db: Transaction, session_id: str) -> list[Session]:
    """Sessions that depend on this one, oldest first."""
    return _linked(db, DependencyRow.session_id, DependencyRow.depends_on, session_id)


def _linked(db: Transaction, wanted: Any, given: Any, session_id: str) -> list[Session]:
    rows = db.scalars(
        select(SessionRow)
        .join(DependencyRow, wanted == SessionRow.id)
        .where(given == session_id)
        .order_by(SessionRow.submitted_at, SessionRow.id)
    )
    return [session_of(row) for row in rows]


def of_server(db: Transaction, owner: str, server_name: str, *, live: bool) -> Session | None:
    """The newest session of a server of the Hub; `live`: only one that is not over."""
    query = select(SessionRow).where(
        SessionRow.owner == owner, SessionRow.server_name == server_name
    )
    if live:
        query = query.where(text(LIVE))
    newest = query.order_by(SessionRow.submitted_at.desc(), SessionRow.id.desc()).limit(1)
    row = db.scalars(newest).first()
    return session_of(row) if row else None


def live_names(db: Transaction, owner: str) -> frozenset[str]:
    """Names that the owner's live sessions have."""
    return frozenset(
        db.scalars(select(SessionRow.name).where(text(LIVE), SessionRow.owner == owner))
    )


def live(
    db: Transaction,
    statuses: Collection[Status] | None,
    driver_not: str | None,
    type: str | None,
) -> list[Session]:
    """Sessions that are not over, oldest first."""
    query = select(SessionRow).where(text(LIVE))
    if type is not None:
        query = query.where(SessionRow.type == type)
    if statuses is not None:
        query = query.where(SessionRow.status.in_([status.value for status in statuses]))
    if driver_not is not None:
        query = query.where(SessionRow.driver.is_distinct_from(driver_not))
    rows = db.scalars(query.order_by(SessionRow.submitted_at, SessionRow.id))
    return [session_of(row) for row in rows]


def page(
    db: Transaction,
    wanted: Filter,
    order: Order,
    descending: bool,
    limit: int,
    offset: int,
) -> tuple[list[Session], int]:
    """One page of a list, and how many sessions the whole list has."""
    conditions = wanted.conditions()
    total = db.scalar(select(func.count()).select_from(SessionRow).where(*conditions)) or 0
    key = _ORDERS[order]
    ordered = [key.desc(), SessionRow.id.desc()] if descending else [key, SessionRow.id]
    if order == "ended_at":  # the one that may be empty, which databases sort differently
        ordered = [key.is_(None), *ordered]
    # First the ids, then the rows: what is sorted and skipped is not carried along.
    ids = db.scalars(
        select(SessionRow.id).where(*conditions).order_by(*ordered).limit(limit).offset(offset)
    ).all()
    found = get_many(db, ids)
    return [found[session_id] for session_id in ids], total


def kernels(db: Transaction, session_id: str) -> list[Kernel]:
    """The containers of a session, the main one first."""
    rows = db.scalars(
        select(KernelRow)
        .where(KernelRow.session_id == session_id)
        .order_by(KernelRow.role != "main", KernelRow.name)
    )
    return [kernel_of(row) for row in rows]
