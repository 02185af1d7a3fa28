"""Recent launches: what a user started lately, and what the user pinned, to be started again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session as Transaction

from ..model.secrets import redacted
from .errors import NotFound
from .tables import LaunchRow

RECENT = 5  # launches of one user that are kept beside the pinned ones


@dataclass(frozen=True, slots=True)
class Launch:
    """Options that a session was started with, less values that look secret."""

    id: int
    owner: str
    name: str
    asked: Mapping[str, Any]
    pinned: bool
    created_at: datetime


def add(db: Transaction, owner: str, name: str, asked: Mapping[str, Any], now: datetime) -> None:
    """Notes a launch; the oldest that is one too many goes."""
    db.add(LaunchRow(owner=owner, name=name, asked=redacted(asked), pinned=False, created_at=now))
    db.flush()
    db.execute(delete(LaunchRow).where(*_unpinned(owner), LaunchRow.id.not_in(_newest(owner))))


def of(db: Transaction, owner: str) -> list[Launch]:
    """The newest that are not pinned and all that are, newest first."""
    rows = db.scalars(
        select(LaunchRow)
        .where(LaunchRow.owner == owner, LaunchRow.pinned | LaunchRow.id.in_(_newest(owner)))
        .order_by(LaunchRow.id.desc())
    )
    return [_launch(row) for row in rows]


def change(
    db: Transaction, owner: str, launch_id: int, *, name: str | None, pinned: bool | None
) -> Launch:
    """Renames or pins one; what is None stays. Raises `NotFound`, also for another owner's."""
    row = _of_owner(db, owner, launch_id)
    if name is not None:
        row.name = name
    if pinned is not None:
        row.pinned = pinned
    db.flush()
    return _launch(row)


def remove(db: Transaction, owner: str, launch_id: int) -> None:
    """Forgets one. Raises `NotFound`, also for another owner's."""
    db.delete(_of_owner(db, owner, launch_id))


def _of_owner(db: Transaction, owner: str, launch_id: int) -> LaunchRow:
    row = db.get(LaunchRow, launch_id)
    if row is None or row.owner != owner:
        raise NotFound(str(launch_id), "launch")
    return row


def _unpinned(owner: str) -> tuple[ColumnElement[bool], ...]:
    return (LaunchRow.owner == owner, LaunchRow.pinned.is_(False))


def _newest(owner: str) -> Any:
    return (
        select(LaunchRow.id).where(*_unpinned(owner)).order_by(LaunchRow.id.desc()).limit(RECENT)
    ).scalar_subquery()


def _launch(row: LaunchRow) -> Launch:
    return Launch(row.id, row.owner, row.name, row.asked, row.pinned, row.created_at)
