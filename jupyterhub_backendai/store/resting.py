"""A session's way to its rest and back: what changes together with what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, update

from ..model.hibernation import Hibernation, hibernated_by
from ..model.images import CommitStatus
from ..model.status import Phase, Result, Status
from . import images, kept, sessions
from .history import Outcome, storable
from .idle_tables import IDLE
from .image_records import Made
from .records import Session
from .tables import SESSIONS

CODE = "hibernated"
_AGAIN = (
    update(SESSIONS)
    .where(SESSIONS.c.id == bindparam("of"))
    .values(agent_wanted=bindparam("there"), submitted_at=bindparam("at"))
)
_CHANGE = update(SESSIONS).where(SESSIONS.c.id == bindparam("of"))
_NOT_IDLE = delete(IDLE).where(IDLE.c.session_id == bindparam("of"))


def finish(
    db: Connection, commit_id: str, made: Made, drop_at: datetime | None, now: datetime
) -> Session:
    """See `HibernationCalls.finish_hibernation`."""
    session = sessions.locked(db, images.commit(db, commit_id).session_id)
    done = images.move(db, commit_id, CommitStatus.DONE, now)
    by = done.reason or hibernated_by(done.asked_by)
    outcome = Outcome(
        Phase.HIBERNATE, Result.SUCCESS, to_status=Status.TERMINATING, message=by
    )  # fmt: skip
    session = sessions.move(
        db,
        session,
        outcome,
        now=now,
        expect=Status.RUNNING,
        reason_code=done.reason_code or CODE,
        reason=by,
    )
    kept.add(db, Hibernation(
        id=done.image_id, session_id=session.id, owner=session.owner, agent=done.agent,
        reference=done.reference, engine_id=made.engine_id, size=made.size, own=made.own,
        made_at=now, drop_at=drop_at, current=True,
    ))  # fmt: skip
    return session


def resume(db: Connection, session: Session, rest: Hibernation, by: str, now: datetime) -> Session:
    """See `HibernationCalls.resume`. It stands in line behind all who wait, and its idle checks
    begin anew."""
    outcome = Outcome(
        Phase.RESUME, Result.SUCCESS, to_status=Status.PENDING, message=f"{by} resumed it."
    )
    session = sessions.move(db, session, outcome, now=now)
    db.execute(_AGAIN, {"of": session.id, "there": rest.agent, "at": now})
    db.execute(_NOT_IDLE, {"of": session.id})
    return session


def let_go(db: Connection, session: Session, reason_code: str, reason: str) -> Session:
    """See `HibernationCalls.let_go`. The first reason counts, as with every end."""
    was_kept = kept.is_kept(db, session.id)
    kept.let_go(db, session.id)
    if session.status is not Status.HIBERNATED or not was_kept:
        return session
    session = replace(
        session, reason_code=reason_code, reason=storable(reason), version=session.version + 1
    )
    db.execute(_CHANGE, {
        "of": session.id, "reason_code": session.reason_code, "reason": session.reason,
        "version": session.version,
    })  # fmt: skip
    return session
