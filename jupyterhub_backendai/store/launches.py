"""Recent launches: what a user started lately, and what the user pinned, to be started again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from ..model.errors import FieldError, Kind, RequestError
from ..model.secrets import redacted
from .errors import NotFound
from .tables import LAUNCHES

RECENT = 5  # launches of one user that are kept beside the pinned ones
MOST_PINNED = 100  # of one user; all of them are listed at once


@dataclass(frozen=True, slots=True)
class Launch:
    """Options that a session was started with, less values that look secret."""

    id: int
    owner: str
    name: str
    asked: Mapping[str, Any]
    pinned: bool
    created_at: datetime


_ALL = LAUNCHES.c
_THEIRS = _ALL.owner == bindparam("owner_")
_NEWEST = (
    select(_ALL.id)
    .where(_THEIRS, _ALL.pinned.is_(False))
    .order_by(_ALL.id.desc())
    .limit(RECENT)
    .scalar_subquery()
)
_ADD = insert(LAUNCHES)
_REMOVE_OLD = delete(LAUNCHES).where(_THEIRS, _ALL.pinned.is_(False), _ALL.id.not_in(_NEWEST))
_SHOWN = (
    select(LAUNCHES).where(_THEIRS, _ALL.pinned | _ALL.id.in_(_NEWEST)).order_by(_ALL.id.desc())
)
_PINNED = select(func.count()).select_from(LAUNCHES).where(_THEIRS, _ALL.pinned)


def add(db: Connection, owner: str, name: str, asked: Mapping[str, Any], now: datetime) -> None:
    """Notes a launch; the oldest that is one too many goes."""
    launch = {"name": name, "asked": redacted(asked), "pinned": False, "created_at": now}
    db.execute(_ADD, {"owner": owner, **launch})
    db.execute(_REMOVE_OLD, {"owner_": owner})


def of(db: Connection, owner: str) -> list[Launch]:
    """The newest that are not pinned and all that are, newest first."""
    return [_launch(row) for row in db.execute(_SHOWN, {"owner_": owner})]


def change(
    db: Connection, owner: str, launch_id: int, *, name: str | None, pinned: bool | None
) -> Launch:
    """Renames or pins one; what is None stays. Raises `NotFound`, also for another owner's;
    `RequestError` for a pin that is one too many."""
    row = _of_owner(db, owner, launch_id)
    if pinned and not row.pinned and db.scalars(_PINNED, {"owner_": owner}).one() >= MOST_PINNED:
        message = f"You have {MOST_PINNED} pinned launches, the most there may be. Unpin one first."
        raise RequestError([FieldError("pinned", "too_many", message, Kind.CONFLICT)])
    launch = replace(
        _launch(row),
        name=row.name if name is None else name,
        pinned=row.pinned if pinned is None else pinned,
    )
    new = {"name": launch.name, "pinned": launch.pinned}
    db.execute(update(LAUNCHES).where(_ALL.id == launch_id).values(new))
    return launch


def remove(db: Connection, owner: str, launch_id: int) -> None:
    """Forgets one. Raises `NotFound`, also for another owner's."""
    _of_owner(db, owner, launch_id)
    db.execute(delete(LAUNCHES).where(_ALL.id == launch_id))


def _of_owner(db: Connection, owner: str, launch_id: int) -> Row[Any]:
    query = select(LAUNCHES).where(_ALL.id == launch_id, _ALL.owner == owner)
    row = db.execute(query).one_or_none()
    if row is None:
        raise NotFound(str(launch_id), "launch")
    return row


def _launch(row: Row[Any]) -> Launch:
    return Launch(row.id, row.owner, row.name, row.asked, row.pinned, row.created_at)
