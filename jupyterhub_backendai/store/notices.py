"""What is kept of notices. One is claimed before it is sent, so that nobody else sends it, and so
that one of which nobody knows whether it went out is not sent again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import Connection, bindparam, insert, select, update

from ..model.status import LIVE
from .notice_tables import NOTICES
from .tables import SESSIONS, among


class NoticeState(Enum):
    """What became of a notice."""

    CLAIMED = "claimed"  # it is being sent
    WAITING = "waiting"  # it was not taken, and may be tried again
    SENT = "sent"
    UNSURE = "unsure"  # whether it was taken is not known, so it is not sent again
    REFUSED = "refused"  # it never will be taken


@dataclass(frozen=True, slots=True)
class NoticeKey:
    """Which notice: of a session, by a channel, so many seconds ahead of an end at that second of
    the service's own clock."""

    session_id: str
    channel: str
    warning: int
    ends_at: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice, and how often it was sent."""

    key: NoticeKey
    state: NoticeState
    attempts: int


_C = NOTICES.c
_LIVE = (
    select(NOTICES)
    .join(SESSIONS, SESSIONS.c.id == _C.session_id)
    .where(among(SESSIONS.c.status, (status.value for status in LIVE)))
    .order_by(_C.changed_at)
)
_THIS = (
    (_C.session_id == bindparam("of"))
    & (_C.channel == bindparam("by"))
    & (_C.warning == bindparam("ahead"))
    & (_C.ends_at == bindparam("end"))
)
_ONE = select(NOTICES).where(_THIS)
_THERE = select(SESSIONS.c.id).where(SESSIONS.c.id == bindparam("of"))
_ADD = insert(NOTICES)
_CLAIM = (
    update(NOTICES)
    .where(
        _THIS,
        (_C.state == NoticeState.WAITING.value)
        # what became of it could not be noted, and `run` knows that it may send it again
        | ((_C.state == NoticeState.CLAIMED.value) & (_C.sender == bindparam("run"))),
    )
    .values(
        state=NoticeState.CLAIMED.value, attempts=_C.attempts + 1, sender=bindparam("run"),
        changed_at=bindparam("now"),
    )
)  # fmt: skip
_NOTE = (
    update(NOTICES)
    .where(_THIS, _C.state == NoticeState.CLAIMED.value, _C.sender == bindparam("run"))
    .values(state=bindparam("now_is"), changed_at=bindparam("now"))
)
_SETTLE = (
    update(NOTICES)
    .where(_C.state == NoticeState.CLAIMED.value, _C.sender != bindparam("run"))
    .values(state=NoticeState.UNSURE.value, changed_at=bindparam("now"))
)


def live(db: Connection) -> list[Notice]:
    """Those of sessions that are not over."""
    return [_notice(row) for row in db.execute(_LIVE)]


def claim(db: Connection, key: NoticeKey, run: str, now: datetime) -> Notice | None:
    """Makes `run` the one that sends it; None where it is somebody else's, or not to be sent any
    more."""
    if db.execute(_ONE, _of(key)).one_or_none() is not None:
        if db.execute(_CLAIM, {**_of(key), "run": run, "now": now}).rowcount != 1:
            return None
    elif db.execute(_THERE, {"of": key.session_id}).one_or_none() is None:
        return None
    else:
        state = NoticeState.CLAIMED.value
        more = {"state": state, "attempts": 1, "sender": run, "changed_at": now}
        db.execute(_ADD, {**asdict(key), **more})
    return _notice(db.execute(_ONE, _of(key)).one())


def note(db: Connection, key: NoticeKey, run: str, state: NoticeState, now: datetime) -> None:
    """Notes what became of one that `run` has claimed."""
    db.execute(_NOTE, {**_of(key), "run": run, "now": now, "now_is": state.value})


def settle(db: Connection, run: str, now: datetime) -> int:
    """What an earlier run was sending when it ended may have gone out. How many there were."""
    return db.execute(_SETTLE, {"run": run, "now": now}).rowcount


def _of(key: NoticeKey) -> dict[str, object]:
    return {"of": key.session_id, "by": key.channel, "ahead": key.warning, "end": key.ends_at}


def _notice(row: object) -> Notice:
    values = {name: getattr(row, name) for name in NoticeKey.__slots__}
    state, attempts = row.state, row.attempts  # type: ignore[attr-defined]
    return Notice(NoticeKey(**values), NoticeState(state), attempts)
