"""What idle checks keep: of each session, and of the clock that they go by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from ..model.status import LIVE, Status
from .idle_tables import IDLE
from .tables import META, SESSIONS, among

PORTION = 500  # rows of one statement
_CLOCK = "idle_clock"


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """What is known of a session, in seconds of the service's clock. `kept`: for how many seconds
    in all its owner has kept it. `not_before`: it is not ended sooner, as somebody was told so."""

    started: float
    used: float | None = None
    asked: float | None = None
    heard: float | None = None
    kept_until: float | None = None
    kept: float = 0.0
    not_before: float | None = None


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """The service's clock as it was: its time, that of the wall, and that of the machine since it
    was started, by the id of that start."""

    time: float
    wall: float
    boot_time: float
    boot_id: str


_NAMES = tuple(field.name for field in fields(IdleRecord))
_LIVE = (
    select(IDLE)
    .join(SESSIONS, SESSIONS.c.id == IDLE.c.session_id)
    .where(among(SESSIONS.c.status, (status.value for status in LIVE)))
)
_ONE = select(IDLE).where(IDLE.c.session_id == bindparam("of"))
_THERE = (
    select(SESSIONS.c.id, SESSIONS.c.status, SESSIONS.c.running_at, IDLE.c.session_id)
    .outerjoin(IDLE, IDLE.c.session_id == SESSIONS.c.id)
    .where(SESSIONS.c.id.in_(bindparam("ids", expanding=True)))
)
_SEEN = ("started", "used", "asked", "heard", "not_before")  # the rest is its owner's to say
_ADD = insert(IDLE)
_CHANGE = (
    update(IDLE)
    .where(IDLE.c.session_id == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in _SEEN})
)
_KEEP = (
    update(IDLE)
    .where(IDLE.c.session_id == bindparam("of"))
    .values(kept=bindparam("new_kept"), kept_until=bindparam("new_until"))
)
_READ_CLOCK = select(META.c.value).where(META.c.key == _CLOCK)
_DROP_CLOCK = delete(META).where(META.c.key == _CLOCK)
_ADD_CLOCK = insert(META)


def live(db: Connection) -> dict[str, IdleRecord]:
    """What is known of sessions that are not over."""
    return {row.session_id: _record(row) for row in db.execute(_LIVE)}


def one(db: Connection, session_id: str) -> IdleRecord | None:
    """What is known of a session, if anything is."""
    row = db.execute(_ONE, {"of": session_id}).one_or_none()
    return None if row is None else _record(row)


def save(
    db: Connection, records: Mapping[str, IdleRecord], since: Mapping[str, datetime | None]
) -> None:
    """Notes what was seen; what owners keep stays as it is. Of sessions that are not there any
    more nothing is noted, nor of those in `since` that do not run since then: they were hibernated,
    and what was seen is of a life that is over."""
    for ids in _portions(sorted(records)):
        there = {
            row.id: row.session_id is not None
            for row in db.execute(_THERE, {"ids": ids})
            if row.id not in since or _runs_since(row, since[row.id])
        }
        new = [id for id, is_known in there.items() if not is_known]
        if new:
            db.execute(_ADD, [{"session_id": id, **asdict(records[id])} for id in new])
        old = [id for id, is_known in there.items() if is_known]
        if old:
            db.execute(_CHANGE, [_seen(id, records[id]) for id in old])


def keep(db: Connection, session_id: str, record: IdleRecord) -> None:
    """Notes until when an owner keeps a session."""
    save(db, {session_id: record}, {})
    values = {"of": session_id, "new_kept": record.kept, "new_until": record.kept_until}
    db.execute(_KEEP, values)


def clock(db: Connection) -> ClockRecord | None:
    """The clock as it was noted last."""
    text = db.scalars(_READ_CLOCK).one_or_none()
    return None if text is None else ClockRecord(**json.loads(text))


def save_clock(db: Connection, record: ClockRecord) -> None:
    """Notes the clock."""
    db.execute(_DROP_CLOCK)
    db.execute(_ADD_CLOCK, {"key": _CLOCK, "value": json.dumps(asdict(record))})


def _runs_since(row: Any, at: datetime | None) -> bool:
    return bool(row.status == Status.RUNNING.value and row.running_at == at)


def _seen(session_id: str, record: IdleRecord) -> dict[str, object]:
    return {"of": session_id, **{f"new_{name}": getattr(record, name) for name in _SEEN}}


def _record(row: object) -> IdleRecord:
    return IdleRecord(**{name: getattr(row, name) for name in _NAMES})


def _portions(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + PORTION] for at in range(0, len(ids), PORTION))
