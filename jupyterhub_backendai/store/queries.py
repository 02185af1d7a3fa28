"""How sessions and their kernels are found, each query named for what it answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm import Session as Transaction

from ..model.status import Status
from .errors import NotFound
from .records import Kernel, Session, kernel_of, session_of
from .tables import LIVE, KernelRow, SessionRow

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
    """Which sessions a list shows; None is all of them."""

    owner: str | None = None
    statuses: Collection[Status] | None = None
    type: str | None = None
    resource_group: str | None = None
    project: str | None = None

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
    db: Transaction, statuses: Collection[Status] | None, driver_not: str | None
) -> list[Session]:
    """Sessions that are not over, oldest first."""
    query = select(SessionRow).where(text(LIVE))
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
    rows = db.scalars(
        select(SessionRow).where(*conditions).order_by(*ordered).limit(limit).offset(offset)
    )
    return [session_of(row) for row in rows], total


def kernels(db: Transaction, session_id: str) -> list[Kernel]:
    """The containers of a session, the main one first."""
    rows = db.scalars(
        select(KernelRow)
        .where(KernelRow.session_id == session_id)
        .order_by(KernelRow.role != "main", KernelRow.name)
    )
    return [kernel_of(row) for row in rows]
