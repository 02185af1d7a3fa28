"""What is kept of hibernated sessions: every statement on its table.

While a session has a row that is current its home and its image are kept, whatever becomes of it on
its way: no end of it is one, until `let_go`.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, exists, insert, select, text, update

from ..model.hibernation import Hibernation
from ..model.status import FINAL, Status
from .hibernation_tables import HIBERNATIONS
from .image_tables import COMMITS, UNDER_WAY
from .tables import SESSIONS, among

_H, _S, _C = HIBERNATIONS.c, SESSIONS.c, COMMITS.c
_NAMES = tuple(field.name for field in fields(Hibernation))
_CURRENT = select(HIBERNATIONS).where(_H.session_id == bindparam("of"), _H.current)
_IS_KEPT = select(exists().where(_H.session_id == bindparam("of"), _H.current))
_IDS = select(_H.session_id).where(_H.current)
_KEPT = select(_H.owner, _H.session_id).where(_H.current)
_WILL_REST = select(_C.owner, _C.session_id).where(text(UNDER_WAY), _C.hibernates)
_RESTING = _KEPT.union_all(_WILL_REST)
_RESTING_OF = _KEPT.where(_H.owner == bindparam("whose")).union_all(
    _WILL_REST.where(_C.owner == bindparam("whose"))
)
_BACK = (
    select(_H.session_id)
    .join(SESSIONS, _S.id == _H.session_id)
    .where(_H.current, _S.status == Status.RUNNING.value, _S.running_at <= bindparam("before"))
    .order_by(_S.running_at)
)
_ADD = insert(HIBERNATIONS)
_LET_GO = update(HIBERNATIONS).where(_H.session_id == bindparam("of")).values(current=False)
_EXTEND = (
    update(HIBERNATIONS)
    .where(_H.id == bindparam("which"))
    .values(drop_at=bindparam("then"), extended=True)
)
_UNTIL = update(HIBERNATIONS).where(_H.id == bindparam("which")).values(drop_at=bindparam("then"))
_VOUCH = update(HIBERNATIONS).where(_H.id == bindparam("which")).values(vouched_at=bindparam("at"))
_SOON = (
    select(HIBERNATIONS, _S.name)
    .join(SESSIONS, _S.id == _H.session_id)
    .where(_H.current, _H.drop_at <= bindparam("then"), _S.status == Status.HIBERNATED.value)
    .order_by(_H.drop_at, _H.id)
)
_SOON_OF = _SOON.where(_H.owner == bindparam("whose"))
_NEWER = HIBERNATIONS.alias()
# Nothing is resumed from it any more, and nothing runs from it.
_OVER = (
    select(HIBERNATIONS)
    .outerjoin(SESSIONS, _S.id == _H.session_id)
    .where(
        _H.current.is_(False),
        _S.id.is_(None)
        | among(_S.status, (status.value for status in FINAL))
        | exists().where(_NEWER.c.session_id == _H.session_id, _NEWER.c.current),
    )
    .order_by(_H.id)
)
_ALL = select(HIBERNATIONS).order_by(_H.id)


def add(db: Connection, kept: Hibernation) -> None:
    """Notes what is kept of a session from now on."""
    let_go(db, kept.session_id)
    db.execute(_ADD, asdict(kept))


def let_go(db: Connection, session_id: str) -> None:
    """Nothing is kept of the session any more: its end will be one."""
    db.execute(_LET_GO, {"of": session_id})


def rest_again(db: Connection, rest: Hibernation, now: datetime) -> None:
    """Its resuming came to nothing: it has time enough for another try."""
    if (then := rest.again(now)) != rest.drop_at:
        db.execute(_EXTEND, {"which": rest.id, "then": then})


def drop_at(db: Connection, session_id: str, then: datetime | None) -> None:
    """Until when the session is kept; None: for good."""
    rest = current(db, session_id)
    if rest is not None:
        db.execute(_UNTIL, {"which": rest.id, "then": then})


def vouch(db: Connection, rest: Hibernation, now: datetime) -> None:
    """An admin says that it is its owner's."""
    db.execute(_VOUCH, {"which": rest.id, "at": now})


def is_kept(db: Connection, session_id: str) -> bool:
    """Whether the session's home and image are kept."""
    return bool(db.execute(_IS_KEPT, {"of": session_id}).scalar_one())


def current(db: Connection, session_id: str) -> Hibernation | None:
    """What the session is resumed from."""
    row = db.execute(_CURRENT, {"of": session_id}).one_or_none()
    return None if row is None else _of(row)


def ids(db: Connection) -> frozenset[str]:
    """Ids of the sessions of which something is kept."""
    return frozenset(db.scalars(_IDS))


def resting(db: Connection, owner: str | None = None) -> dict[str, set[str]]:
    """By owner the ids of the sessions that count as hibernated, of one owner or of all: of which
    something is kept, or will be. One that has just begun to run again is such a one: its end would
    make it rest once more."""
    found: dict[str, set[str]] = {}
    values = {} if owner is None else {"whose": owner}
    for row in db.execute(_RESTING if owner is None else _RESTING_OF, values):
        found.setdefault(row.owner, set()).add(row.session_id)
    return found


def dropping(
    db: Connection, owner: str | None, before: datetime | None
) -> list[tuple[Hibernation, str]]:
    """What is kept of sessions that are hibernated and will be dropped (by then), with their
    names, the next first."""
    values = {"then": before or datetime.max.replace(tzinfo=timezone.utc)}
    rows = db.execute(_SOON, values) if owner is None else db.execute(
        _SOON_OF, {**values, "whose": owner}
    )  # fmt: skip
    return [(_of(row), row.name) for row in rows]


def back(db: Connection, before: datetime) -> list[str]:
    """Ids of those that run again, and did so before this time."""
    return list(db.scalars(_BACK, {"before": before}))


def over(db: Connection) -> list[Hibernation]:
    """Those of which only an image is left, which nothing runs from."""
    return [_of(row) for row in db.execute(_OVER)]


def every(db: Connection) -> list[Hibernation]:
    """All there are."""
    return [_of(row) for row in db.execute(_ALL)]


def forget(db: Connection, id: str) -> None:
    """Its image is removed."""
    db.execute(delete(HIBERNATIONS).where(_H.id == id))


def _of(row: Row[Any]) -> Hibernation:
    return Hibernation(**{name: getattr(row, name) for name in _NAMES})
